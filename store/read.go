package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"onced"
	"onced/fsm"
)

// Row returns a record's row, nil when there is none. It may be newer than Applied.
func (t *Table) Row(id onced.ID) (*fsm.Row, error) {
	var row *fsm.Row
	err := t.use(func(d *db) (err error) {
		row, err = d.row(id)
		return err
	})
	return row, err
}

// Counts returns a tenant's counts.
func (t *Table) Counts(tenant string) (fsm.Counts, error) {
	var c fsm.Counts
	err := t.use(func(d *db) (err error) {
		c, err = d.counts(tenant)
		return err
	})
	return c, err
}

// NextDue returns the earliest time, in cluster milliseconds, at which a record or a cancel is due;
// false when nothing is.
func (t *Table) NextDue() (at int64, ok bool, err error) {
	items, err := t.due(math.MaxInt64, 1)
	if err != nil || len(items) == 0 {
		return 0, false, err
	}
	return items[0].At, true, nil
}

// due returns up to limit items of the due index up to a time, in its order.
func (t *Table) due(now int64, limit int) (items []fsm.DueItem, err error) {
	t.writes.Lock()
	defer t.writes.Unlock()
	err = t.use(func(d *db) (err error) {
		items, err = d.due(now, limit)
		return err
	})
	return items, err
}

// OpenRow is a record that is not settled.
type OpenRow struct {
	ID  onced.ID
	Row *fsm.Row
}

// openPage is how many open rows are held in memory at a time.
const openPage = 512

// OpenRows calls fn with every record that is not settled (running or unknown), in the order of (tenant, scope, key),
// until fn returns an error, which it returns. Each few hundred are of one moment; all of them are
// of one moment where nothing is committed meanwhile. fn may call the Table.
func (t *Table) OpenRows(fn func(OpenRow) error) error {
	from := []byte{spaceOpen}
	for from != nil {
		var page []OpenRow
		err := t.use(func(d *db) (err error) {
			page, from, err = d.openRows(from, openPage)
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := fn(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// openRows returns up to limit open rows, and the key to go on from, nil at the end.
func (d *db) openRows(from []byte, limit int) (page []OpenRow, next []byte, err error) {
	s := d.NewSnapshot() // the rows must be those of the index
	defer func() { err = errors.Join(err, s.Close()) }()
	iter, err := s.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: spaceEnd(spaceOpen)})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the open rows: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok; ok = iter.Next() {
		if len(page) == limit {
			return page, append([]byte(nil), iter.Key()...), nil
		}
		id, _, err := decodeID(iter.Key()[1:])
		if err != nil {
			return nil, nil, err
		}
		row, err := rowOf(s, id)
		if err != nil {
			return nil, nil, err
		}
		if row == nil {
			return nil, nil, fmt.Errorf("reading the open rows: %w: %q has no row", ErrDamaged, id)
		}
		page = append(page, OpenRow{id, row})
	}
	return page, nil, nil
}

func (d *db) row(id onced.ID) (*fsm.Row, error) { return rowOf(d.DB, id) }

// rowOf returns nil when there is no row.
func rowOf(from pebble.Reader, id onced.ID) (*fsm.Row, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	var buf [128]byte
	v, closer, err := from.Get(idKey(buf[:0], spaceRow, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the row of %q: %w", id, err)
	}
	row, err := fsm.DecodeRow(v)
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, fmt.Errorf("reading the row of %q: %w", id, err)
	}
	return row, nil
}

// rowLookUp looks up rows of one moment, most of which are not there: other than Pebble's Get it asks the filters of the lowest
// level too, where nearly all rows are.
type rowLookUp struct {
	iter *pebble.Iterator
}

func (d *db) lookUp() (*rowLookUp, error) {
	iter, err := d.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceRow}, UpperBound: spaceEnd(spaceRow), UseL6Filters: true})
	if err != nil {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	return &rowLookUp{iter}, nil
}

// row returns nil when there is no row.
func (l *rowLookUp) row(id onced.ID) (*fsm.Row, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	var buf [128]byte
	key := idKey(buf[:0], spaceRow, id)
	// Without a Split of the table's own a prefix is a whole key.
	if !l.iter.SeekPrefixGE(key) || !bytes.Equal(l.iter.Key(), key) {
		if err := l.iter.Error(); err != nil {
			return nil, fmt.Errorf("reading the row of %q: %w", id, err)
		}
		return nil, nil
	}
	v, err := l.iter.ValueAndErr()
	if err != nil {
		return nil, fmt.Errorf("reading the row of %q: %w", id, err)
	}
	row, err := fsm.DecodeRow(v)
	if err != nil {
		return nil, fmt.Errorf("reading the row of %q: %w", id, err)
	}
	return row, nil
}

// Close ends it.
func (l *rowLookUp) Close() error {
	if err := l.iter.Close(); err != nil {
		return fmt.Errorf("reading rows: %w", err)
	}
	return nil
}

func (d *db) counts(tenant string) (fsm.Counts, error) {
	var c fsm.Counts
	_, err := d.get(countsKey(nil, tenant), func(v []byte) (err error) {
		c, err = decodeCounts(v)
		return err
	})
	return c, err
}

// due is Table.due, and raises the floor to what it has seen.
func (d *db) due(now int64, limit int) (items []fsm.DueItem, err error) {
	if d.dueFloor > now || limit <= 0 {
		return nil, nil
	}
	end, after := spaceEnd(spaceDue), int64(math.MaxInt64)
	if now < math.MaxInt64 {
		end, after = dueBound(now+1), now+1
	}
	iter, err := d.NewIter(&pebble.IterOptions{LowerBound: dueBound(d.dueFloor), UpperBound: end})
	if err != nil {
		return nil, fmt.Errorf("reading the due index: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok; ok = iter.Next() {
		item, err := decodeDue(iter.Key())
		if err != nil {
			return nil, err
		}
		if items = append(items, item); len(items) == limit {
			break
		}
	}
	if err := iter.Error(); err != nil {
		return nil, fmt.Errorf("reading the due index: %w", err)
	}
	d.dueFloor = after
	if len(items) > 0 {
		d.dueFloor = items[0].At
	}
	return items, nil
}
