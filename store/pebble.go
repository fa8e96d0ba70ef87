package store

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// tableFormat is pinned, so that a node that was upgraded can go back.
const tableFormat = pebble.FormatTableFormatV6

// memtableBytes is what a compromise comes to: in a smaller one fewer reservations meet their completes before they are flushed, and
// random keys have each flush rewrite much of the level below; in a larger one look-ups leave the processor's caches, and a restart
// has more to apply again.
const memtableBytes = 16 << 20

// pebbleOptions bound memory by the cache and four memtables, whatever the number of keys.
func pebbleOptions(f files, t tableOptions) *pebble.Options {
	o := &pebble.Options{
		FS:                          f.tableFS(),
		DisableWAL:                  true, // raft's log is the log
		FormatMajorVersion:          tableFormat,
		CacheSize:                   t.cacheBytes,
		MaxOpenFiles:                512,
		MemTableSize:                t.memtableBytes,
		MemTableStopWritesThreshold: 4,
		// Keys are random, so that a compaction out of L0 rewrites most of the level below, whatever comes with it: fewer of them write less.
		// What a look-up pays is a few more filters.
		L0CompactionThreshold: 8,
		// A purge or a burst must not stop writes; reading from a few more levels is the lesser harm.
		L0StopWritesThreshold:      36,
		LBaseMaxBytes:              64 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		BytesPerSync:               1 << 20,
		Logger:                     pebbleLogger{f.guard, t.log},
	}
	o.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) { f.guard.trip(fmt.Errorf("writing the table: %w", err)) },
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			f.guard.trip(fmt.Errorf("reading the table: %w: %s", ErrDamaged, i))
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			t.log.Warn("the table stops writes for a moment", "reason", i.Reason)
		},
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = 8 << 10
		o.Levels[i].IndexBlockSize = 64 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10) // most reserves ask for a key that is not there
	}
	// Cheap in the upper levels; the last one, where nearly all bytes are, a quarter smaller.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	return o
}

// openPebble opens or makes a database on a goroutine of its own, which Fatalf may end. Pebble panics where a sync of the folder errs, and
// may wait for ever where one of its other goroutines met an error.
func openPebble(f files, t tableOptions, path string) (*pebble.DB, error) {
	if err := f.guard.err(); err != nil {
		return nil, err
	}
	type opened struct {
		db  *pebble.DB
		err error
	}
	done := make(chan opened, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				f.guard.lost.Store(true)
				f.guard.trip(panicked(p))
			}
		}()
		options := pebbleOptions(f, t)
		if err := options.FS.MkdirAll(path, 0o700); err != nil { // by itself Pebble lets everybody read the folder
			done <- opened{nil, err}
			return
		}
		db, err := pebble.Open(path, options)
		done <- opened{db, err}
	}()
	select {
	case o := <-done:
		return o.db, o.err
	case <-f.guard.ended:
		go func() {
			if o := <-done; o.db != nil && !f.guard.lost.Load() {
				_ = o.db.Close()
			}
		}()
		return nil, f.guard.err()
	}
}

// panicked is an error for what a library panicked with while it wrote the table.
func panicked(p any) error {
	if err, ok := p.(error); ok {
		return fmt.Errorf("writing the table: %w", err)
	}
	return fmt.Errorf("writing the table: %v", p)
}

// pebbleLogger hands Pebble's lines on.
type pebbleLogger struct {
	guard *guard
	log   *slog.Logger
}

func (l pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("table: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("table: " + fmt.Sprintf(format, args...))
}

// Fatalf must not return: Pebble cannot go on, for example after a manifest that could not be
// written. Options.Fatal ends the process; where it does not, the goroutine ends alone, and nobody may wait for it.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.guard.lost.Store(true)
	l.guard.trip(fmt.Errorf("writing the table: "+format, args...))
	runtime.Goexit()
}
