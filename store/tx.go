package store

import (
	"errors"
	"fmt"

	"onced"
	"onced/fsm"
)

var _ fsm.Tx = (*Tx)(nil)

// Tx collects the writes of a run of entries. It sees its own writes; the table sees all of
// them, or none, at Commit. It belongs to one goroutine, and is dropped by Close.
type Tx struct {
	table *Table
	db    *db

	meta    fsm.Meta
	rows    map[onced.ID]*txRow
	cancels map[txOwner]*txCancel
	counts  map[string]*txCounts

	// What was put, in the order of the first put: a batch's bytes do not depend on the order of a map.
	putRows    []*txRow
	putCancels []*txCancel
	putCounts  []*txCounts

	lookUp *rowLookUp // nil until it is needed
}

// txRow is a row as the table has it, and as the transaction has it.
type txRow struct {
	id       onced.ID
	old, row *fsm.Row
	put      bool
}

type txOwner struct {
	id    onced.ID
	owner string
}

type txCancel struct {
	txOwner
	old, until int64
	put        bool
}

type txCounts struct {
	tenant string
	counts fsm.Counts
	put    bool
}

// Begin starts a transaction on the table as it is. There is one at a time.
func (t *Table) Begin() *Tx {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return &Tx{
		table: t, db: t.db, meta: t.Meta(),
		rows: map[onced.ID]*txRow{}, cancels: map[txOwner]*txCancel{}, counts: map[string]*txCounts{},
	}
}

// use is Table.use, unless the table was swapped since Begin.
func (tx *Tx) use(read func(*db) error) error {
	return tx.table.use(func(d *db) error {
		if d != tx.db {
			return errors.New("the table was restored since the transaction began")
		}
		return read(d)
	})
}

// Row implements fsm.View.
func (tx *Tx) Row(id onced.ID) (*fsm.Row, error) {
	r, err := tx.row(id)
	if err != nil {
		return nil, err
	}
	return r.row, nil
}

func (tx *Tx) row(id onced.ID) (*txRow, error) {
	if r := tx.rows[id]; r != nil {
		return r, nil
	}
	r := &txRow{id: id}
	err := tx.use(func(d *db) (err error) {
		if r.old = d.known.row(id); r.old == nil {
			r.old, err = tx.inTable(d, id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.row = r.old
	tx.rows[id] = r
	return r, nil
}

// inTable returns the table's row, nil when there is none. The table does not change before Commit, so that it does not matter
// from when the look-up is.
func (tx *Tx) inTable(d *db, id onced.ID) (row *fsm.Row, err error) {
	if tx.lookUp == nil {
		if tx.lookUp, err = d.lookUp(); err != nil {
			return nil, err
		}
	}
	return tx.lookUp.row(id)
}

// Close lets go of what the transaction holds of the table, which cannot be closed before. Commit does it too, and it may be called again; no row
// may be looked up afterwards.
func (tx *Tx) Close() error {
	l := tx.lookUp
	if l == nil {
		return nil
	}
	tx.lookUp = nil
	return l.Close()
}

// PutRow implements fsm.Tx.
func (tx *Tx) PutRow(id onced.ID, old, row *fsm.Row) {
	r := tx.rows[id]
	if r == nil {
		r = &txRow{id: id, old: old} // not looked at: old is the table's
		tx.rows[id] = r
	}
	r.row = row
	if !r.put {
		r.put = true
		tx.putRows = append(tx.putRows, r)
	}
}

// Cancelled implements fsm.View.
func (tx *Tx) Cancelled(id onced.ID, owner string) (int64, error) {
	key := txOwner{id, owner}
	if c := tx.cancels[key]; c != nil {
		return c.until, nil
	}
	c := &txCancel{txOwner: key}
	err := tx.use(func(d *db) error {
		if d.known.noCancels() {
			return nil
		}
		_, err := d.get(cancelKey(nil, id, owner), func(v []byte) (err error) {
			c.old, err = decodeUntil(v)
			return err
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	c.until = c.old
	tx.cancels[key] = c
	return c.until, nil
}

// PutCancel implements fsm.Tx.
func (tx *Tx) PutCancel(id onced.ID, owner string, old, until int64) {
	key := txOwner{id, owner}
	c := tx.cancels[key]
	if c == nil {
		c = &txCancel{txOwner: key, old: old}
		tx.cancels[key] = c
	}
	c.until = until
	if !c.put {
		c.put = true
		tx.putCancels = append(tx.putCancels, c)
	}
}

// Counts implements fsm.View.
func (tx *Tx) Counts(tenant string) (fsm.Counts, error) {
	if c := tx.counts[tenant]; c != nil {
		return c.counts, nil
	}
	c := &txCounts{tenant: tenant}
	err := tx.use(func(d *db) (err error) {
		c.counts, err = d.counts(tenant)
		return err
	})
	if err != nil {
		return fsm.Counts{}, err
	}
	tx.counts[tenant] = c
	return c.counts, nil
}

// PutCounts implements fsm.Tx.
func (tx *Tx) PutCounts(tenant string, counts fsm.Counts) {
	c := tx.counts[tenant]
	if c == nil {
		c = &txCounts{tenant: tenant}
		tx.counts[tenant] = c
	}
	c.counts = counts
	if !c.put {
		c.put = true
		tx.putCounts = append(tx.putCounts, c)
	}
}

// Meta implements fsm.View.
func (tx *Tx) Meta() fsm.Meta { return tx.meta }

// PutMeta implements fsm.Tx.
func (tx *Tx) PutMeta(m fsm.Meta) { tx.meta = m }

// Due implements fsm.View. It is an error once a row or a cancel was put, as the due index
// does not show those before Commit.
func (tx *Tx) Due(now int64, limit int) ([]fsm.DueItem, error) {
	if len(tx.putRows)+len(tx.putCancels) > 0 {
		return nil, errors.New("asking what is due: the transaction holds writes; commit them first")
	}
	return tx.table.due(now, limit)
}

// Touched returns the records whose rows were put, each once.
func (tx *Tx) Touched() []onced.ID {
	ids := make([]onced.ID, len(tx.putRows))
	for i, r := range tx.putRows {
		ids[i] = r.id
	}
	return ids
}

// Commit puts everything in as one batch, together with index and term of the last raft entry of the run.
// It does not wait for the disk: raft's log has the entries. An error is fatal to the node: what is in memory
// and what is in the table differ.
func (tx *Tx) Commit(index, term uint64) error {
	t := tx.table
	t.writes.Lock()
	defer t.writes.Unlock()
	if err := tx.Close(); err != nil {
		return fmt.Errorf("committing entry %d: %w", index, err)
	}
	return tx.use(func(d *db) error {
		if applied := t.Applied(); index <= applied {
			return fmt.Errorf("committing entry %d: the table is at %d already", index, applied)
		}
		b := d.NewBatch()
		defer b.Close()
		w := &writer{batch: b}
		for _, r := range tx.putRows {
			w.row(r)
		}
		for _, c := range tx.putCancels {
			w.cancel(c)
		}
		for _, c := range tx.putCounts {
			w.setCounts(c)
		}
		if w.err != nil {
			return fmt.Errorf("committing entry %d: %w", index, w.err)
		}
		if w.firstDue != nil {
			d.dueFloor = min(d.dueFloor, *w.firstDue)
		}
		if err := t.write(b, tableState{applied: index, term: term, meta: tx.meta}); err != nil {
			return err
		}
		d.known.committed(tx.putRows, tx.putCancels)
		return nil
	})
}
