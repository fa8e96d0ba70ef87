package store

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"onced"
	"onced/fsm"
)

// maxKnownRows bounds the rows in memory: far more reservations than are settled soon after they were made.
const maxKnownRows = 4096

// known spares transactions look-ups in the table: rows of reservations, each of which is about to be looked up again by its
// complete, and cancels, of which there are usually none. What it says is what the table has: it changes with each Commit,
// and a table that is opened or restored begins with a new one.
type known struct {
	mu sync.Mutex
	// rows are of open records; a row that is in the table is never changed, only replaced.
	rows map[onced.ID]*fsm.Row
	// cancels tells that the table may have cancels. It stays once it is set.
	cancels bool
}

// newKnown looks whether there are cancels.
func newKnown(d *pebble.DB) (*known, error) {
	iter, err := d.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceCancel}, UpperBound: spaceEnd(spaceCancel)})
	if err != nil {
		return nil, fmt.Errorf("reading the cancels: %w", err)
	}
	k := &known{rows: map[onced.ID]*fsm.Row{}, cancels: iter.First()}
	if err := iter.Close(); err != nil { // it has the error of First too
		return nil, fmt.Errorf("reading the cancels: %w", err)
	}
	return k, nil
}

// row returns a row that is in the table; nil = look it up.
func (k *known) row(id onced.ID) *fsm.Row {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rows[id]
}

// noCancels tells that the table has none.
func (k *known) noCancels() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.cancels
}

// committed takes note of what was put into the table.
func (k *known) committed(rows []*txRow, cancels []*txCancel) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancels = k.cancels || len(cancels) > 0
	for _, r := range rows {
		if !open(r.row) {
			delete(k.rows, r.id)
			continue
		}
		if len(k.rows) >= maxKnownRows {
			k.rows = map[onced.ID]*fsm.Row{}
		}
		k.rows[r.id] = r.row
	}
}
