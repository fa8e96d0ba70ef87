// Package memtable is the key table in memory: an [fsm.Tx] for tests and for the
// in-memory Keeper.
//
// Invariants:
//
//   - It keeps exactly what was put, and its due index follows from the rows alone.
//   - It is not safe for concurrent use.
package memtable

import (
	"cmp"
	"slices"

	"onced"
	"onced/fsm"
)

// Table is an fsm.Tx whose writes take effect at once. The zero value is not
// usable; see New.
type Table struct {
	rows    map[onced.ID]*fsm.Row
	cancels map[cancel]int64
	counts  map[string]fsm.Counts
	meta    fsm.Meta
}

type cancel struct {
	id    onced.ID
	owner string
}

var _ fsm.Tx = (*Table)(nil)

// New returns an empty table.
func New() *Table {
	return &Table{rows: map[onced.ID]*fsm.Row{}, cancels: map[cancel]int64{}, counts: map[string]fsm.Counts{}}
}

// Row is part of fsm.View.
func (t *Table) Row(id onced.ID) (*fsm.Row, error) { return t.rows[id], nil }

// Cancelled is part of fsm.View.
func (t *Table) Cancelled(id onced.ID, owner string) (int64, error) {
	return t.cancels[cancel{id, owner}], nil
}

// Counts is part of fsm.View.
func (t *Table) Counts(tenant string) (fsm.Counts, error) { return t.counts[tenant], nil }

// Meta is part of fsm.View.
func (t *Table) Meta() fsm.Meta { return t.meta }

// Due is part of fsm.View.
func (t *Table) Due(now int64, limit int) ([]fsm.DueItem, error) {
	var due []fsm.DueItem
	for id, row := range t.rows {
		if at := row.Due(); at != 0 && at <= now {
			due = append(due, fsm.DueItem{At: at, ID: id})
		}
	}
	for c, until := range t.cancels {
		if until <= now {
			due = append(due, fsm.DueItem{At: until, ID: c.id, Owner: c.owner})
		}
	}
	slices.SortFunc(due, func(a, b fsm.DueItem) int {
		return cmp.Or(cmp.Compare(a.At, b.At), CompareIDs(a.ID, b.ID), cmp.Compare(a.Owner, b.Owner))
	})
	return due[:min(len(due), limit)], nil
}

// CompareIDs orders by tenant, scope and key, the order of a List.
func CompareIDs(a, b onced.ID) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
}

// PutRow is part of fsm.Tx.
func (t *Table) PutRow(id onced.ID, _, row *fsm.Row) {
	if row == nil {
		delete(t.rows, id)
		return
	}
	t.rows[id] = row
}

// PutCancel is part of fsm.Tx.
func (t *Table) PutCancel(id onced.ID, owner string, _, until int64) {
	if until == 0 {
		delete(t.cancels, cancel{id, owner})
		return
	}
	t.cancels[cancel{id, owner}] = until
}

// PutCounts is part of fsm.Tx.
func (t *Table) PutCounts(tenant string, c fsm.Counts) {
	if c == (fsm.Counts{}) {
		delete(t.counts, tenant)
		return
	}
	t.counts[tenant] = c
}

// PutMeta is part of fsm.Tx.
func (t *Table) PutMeta(m fsm.Meta) { t.meta = m }

// IDs returns every record's ID in the order of CompareIDs.
func (t *Table) IDs() []onced.ID {
	ids := make([]onced.ID, 0, len(t.rows))
	for id := range t.rows {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, CompareIDs)
	return ids
}
