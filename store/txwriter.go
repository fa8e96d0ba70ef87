package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"onced/fsm"
)

// writer turns what a transaction holds into a batch, and keeps the indexes that follow from it.
type writer struct {
	batch    *pebble.Batch
	key, val []byte // reused: a batch copies
	firstDue *int64 // the earliest time that was added to the due index
	err      error
}

func (w *writer) set(key, val []byte) {
	w.key = key[:0]
	if w.err == nil {
		w.err = w.batch.Set(key, val, nil)
	}
}

func (w *writer) delete(key []byte) {
	w.key = key[:0]
	if w.err == nil {
		w.err = w.batch.Delete(key, nil)
	}
}

func (w *writer) row(r *txRow) {
	if err := checkID(r.id); err != nil && w.err == nil {
		w.err = err
	}
	switch {
	case r.row != nil:
		w.val = r.row.Append(w.val[:0])
		w.set(idKey(w.key[:0], spaceRow, r.id), w.val)
	case r.old != nil:
		w.delete(idKey(w.key[:0], spaceRow, r.id))
	}
	switch was, is := open(r.old), open(r.row); {
	case is && !was:
		w.set(idKey(w.key[:0], spaceOpen, r.id), nil)
	case was && !is:
		w.delete(idKey(w.key[:0], spaceOpen, r.id))
	}
	w.due(fsm.DueItem{ID: r.id}, due(r.old), due(r.row))
}

func (w *writer) cancel(c *txCancel) {
	if err := checkID(c.id); err != nil && w.err == nil {
		w.err = err
	}
	if c.owner == "" && w.err == nil {
		w.err = fmt.Errorf("the cancel of %q has no owner", c.id)
	}
	switch {
	case c.until != 0:
		w.val = appendUntil(w.val[:0], c.until)
		w.set(cancelKey(w.key[:0], c.id, c.owner), w.val)
	case c.old != 0:
		w.delete(cancelKey(w.key[:0], c.id, c.owner))
	}
	w.due(fsm.DueItem{ID: c.id, Owner: c.owner}, c.old, c.until)
}

// due moves an item of the due index; 0 = it is not in it.
func (w *writer) due(item fsm.DueItem, was, is int64) {
	if was == is {
		return
	}
	if was != 0 {
		item.At = was
		w.delete(dueKey(w.key[:0], item))
	}
	if is != 0 {
		item.At = is
		w.set(dueKey(w.key[:0], item), nil)
		if w.firstDue == nil || is < *w.firstDue {
			w.firstDue = &is
		}
	}
}

func (w *writer) setCounts(c *txCounts) {
	key := countsKey(w.key[:0], c.tenant)
	if c.counts == (fsm.Counts{}) {
		w.delete(key)
		return
	}
	w.val = appendCounts(w.val[:0], c.counts)
	w.set(key, w.val)
}

func open(r *fsm.Row) bool { return r != nil && !r.Settled() }

func due(r *fsm.Row) int64 {
	if r == nil {
		return 0
	}
	return r.Due()
}
