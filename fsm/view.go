package fsm

import "onced"

// Meta is the part of the table that belongs to no record.
type Meta struct {
	Clock       int64  // the largest stamp seen, cluster milliseconds
	LastToken   uint64 // the largest token given out
	ClusterID   string // from the first command
	History     uint64 // rolling checksum of everything that was written
	MarkIndex   uint64 // log index of the last Mark
	MarkHistory uint64 // History right before it
}

// Counts are kept per tenant.
type Counts struct {
	Keys int64 // records present, swept or not
	Open int64 // of those, the ones not settled
}

// DueItem is something that the sweeper has to look at: a record, or a remembered cancel.
type DueItem struct {
	At    int64
	ID    onced.ID
	Owner string // "" = the record itself, else the cancel of this owner
}

// View is what a command may look at. An error is fatal.
type View interface {
	// Row returns the record's row, nil when there is none. The caller must not change it.
	Row(id onced.ID) (*Row, error)
	// Cancelled returns until when owner is remembered as cancelled for id; 0 = it is not.
	Cancelled(id onced.ID, owner string) (int64, error)
	// Counts returns the tenant's counts; the zero value where there are none.
	Counts(tenant string) (Counts, error)
	// Due returns up to limit items with At <= now, in the order of (At, ID, Owner).
	// It is only called while the transaction holds no writes.
	Due(now int64, limit int) ([]DueItem, error)
	// Meta returns the table's meta data as of the last write.
	Meta() Meta
}

// Tx is a View that takes writes and sees them.
type Tx interface {
	View
	// PutRow replaces old (nil = none; what View.Row gave) by row (nil = delete).
	// The implementation keeps the indexes that follow from the two: by Row.Due, and of
	// open records (running or unknown).
	PutRow(id onced.ID, old, row *Row)
	// PutCancel remembers owner as cancelled until a cluster time; 0 = forget it. old is what View.Cancelled gave.
	PutCancel(id onced.ID, owner string, old, until int64)
	// PutCounts replaces the tenant's counts; the zero value deletes them.
	PutCounts(tenant string, c Counts)
	// PutMeta replaces the meta data.
	PutMeta(m Meta)
}
