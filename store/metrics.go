package store

import "errors"

// Metrics are figures of the table for whoever watches it.
type Metrics struct {
	DiskBytes      uint64 // of the table's files, unneeded ones that are not removed yet too
	MemtableBytes  uint64
	CacheBytes     int64
	Flushes        int64 // since Open or the last restore
	Compactions    int64 // the same
	CompactionDebt uint64
	Levels0        int32 // sorted runs in level 0, each one more place to look for a key
}

// Metrics returns the table's figures; zero after Close.
func (t *Table) Metrics() Metrics {
	var m Metrics
	err := t.use(func(d *db) error {
		p := d.DB.Metrics()
		m = Metrics{
			DiskBytes:      p.DiskSpaceUsage(),
			MemtableBytes:  p.MemTable.Size,
			CacheBytes:     p.BlockCache.Size,
			Flushes:        p.Flush.Count,
			Compactions:    p.Compact.Count,
			CompactionDebt: p.Compact.EstimatedDebt,
			Levels0:        p.Levels[0].Sublevels,
		}
		return nil
	})
	if errors.Is(err, ErrClosed) {
		return Metrics{}
	}
	return m
}
