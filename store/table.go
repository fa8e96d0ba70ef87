package store

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"onced/fsm"
	"onced/internal/planted"
)

// Table is the key table. One goroutine, the state machine's, writes to it by Begin and
// Tx.Commit; everything else may be called at any time from anywhere.
type Table struct {
	files  files
	opts   tableOptions
	writes sync.Mutex // held while a batch goes in, and while the table is swapped

	mu     sync.RWMutex // read-held while db is used, held while it is swapped or closed
	db     *db          // never nil; db.closed after Close
	closed bool

	state atomic.Pointer[tableState] // published once the batch that it came with is in

	checkpoints atomic.Uint64 // made so far
}

type tableOptions struct {
	cacheBytes    int64
	memtableBytes uint64
	log           *slog.Logger
}

// db is one Pebble database, table-<n>.
type db struct {
	*pebble.DB
	name  string // of its folder
	guard *guard
	// dueFloor is a time before which nothing is due. It spares NextDue and Tx.Due the walk over what a
	// purge has just deleted. Table.writes guards it: it and the data change together.
	dueFloor int64
	known    *known
}

// openDB opens or makes the database in a folder of the data directory.
func openDB(f files, o tableOptions, name string) (*db, tableState, error) {
	p, err := openPebble(f, o, f.path(name))
	if err != nil {
		return nil, tableState{}, fmt.Errorf("opening table %s: %w", f.path(name), err)
	}
	d := &db{DB: p, name: name, guard: f.guard, dueFloor: math.MinInt64}
	state, err := d.readState()
	if err == nil {
		d.known, err = newKnown(p)
	}
	if err != nil {
		return nil, tableState{}, errors.Join(fmt.Errorf("opening table %s: %w", f.path(name), err), p.Close())
	}
	if planted.IndexApart {
		state = readApart(f, name, state)
	}
	return d, state, nil
}

func (d *db) readState() (tableState, error) {
	var s tableState
	_, err := d.get(metaKey, func(v []byte) (err error) {
		s, err = decodeState(v)
		return err
	})
	return s, err
}

// get hands the value of key to read, which must not keep it, and tells whether there is one.
func (d *db) get(key []byte, read func([]byte) error) (bool, error) {
	v, closer, err := d.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the table: %w", err)
	}
	return true, errors.Join(read(v), closer.Close())
}

// openTable opens the table that CURRENT names and removes every other.
func openTable(f files, o tableOptions) (*Table, error) {
	name, err := f.current()
	if err != nil {
		return nil, err
	}
	if err := f.removeTablesBut(name); err != nil {
		return nil, err
	}
	d, state, err := openDB(f, o, name)
	if err != nil {
		return nil, err
	}
	t := &Table{files: f, opts: o, db: d}
	t.state.Store(&state)
	return t, nil
}

// Applied returns the raft index up to which the table has everything.
func (t *Table) Applied() uint64 { return t.state.Load().applied }

// AppliedTerm returns the raft term of the entry at Applied.
func (t *Table) AppliedTerm() uint64 { return t.state.Load().term }

// Meta returns the meta data as of Applied.
func (t *Table) Meta() fsm.Meta { return t.state.Load().meta }

// History returns the checksum of everything that was written, and the index that it is of, both as of
// the same moment: tables of one cluster that are at the same index have the same history.
func (t *Table) History() (index, history uint64) {
	s := t.state.Load()
	return s.applied, s.meta.History
}

// use runs read with the database, which stays open meanwhile. read must not call the Table.
func (t *Table) use(read func(*db) error) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return ErrClosed
	}
	return read(t.db)
}

// Flush puts everything up to Applied on disk. It may take as long as writing a few memtables.
func (t *Table) Flush() error { return t.use((*db).flush) }

func (d *db) flush() error {
	if err := d.guard.err(); err != nil {
		return fmt.Errorf("flushing the table: %w", err)
	}
	flushed, err := d.AsyncFlush()
	if err != nil {
		return fmt.Errorf("flushing the table: %w", err)
	}
	select {
	case <-flushed:
	case <-d.guard.ended: // Pebble would try for ever
	}
	return d.guard.err()
}

// Close closes the database, unless a goroutine of it has ended in the middle of its work: Pebble would wait for it for ever.
func (d *db) Close() error {
	if d.guard.lost.Load() {
		return nil
	}
	return d.DB.Close()
}

// write puts a batch in and publishes what the table is then. The caller holds t.writes.
func (t *Table) write(b *pebble.Batch, state tableState) error {
	if err := t.files.guard.err(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	if err := b.Set(metaKey, state.append(nil), nil); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	t.state.Store(&state)
	if planted.IndexApart {
		t.writeApart(state)
	}
	return nil
}

// advance says that the entries up to index left nothing in the table: raft keeps some, such as barriers, to
// itself. The caller knows that every other entry up to index is in.
func (t *Table) advance(index, term uint64) error {
	t.writes.Lock()
	defer t.writes.Unlock()
	return t.use(func(d *db) error {
		state := *t.state.Load()
		if state.applied >= index {
			return nil
		}
		state.applied, state.term = index, term
		b := d.NewBatch()
		defer b.Close()
		return t.write(b, state)
	})
}

// close flushes, unless the disk is broken, and closes. Further calls return nil.
func (t *Table) close() error {
	var errs []error
	if t.files.guard.err() == nil {
		if err := t.Flush(); err != nil && !errors.Is(err, ErrClosed) {
			errs = append(errs, err)
		}
	}
	t.writes.Lock()
	defer t.writes.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	if err := t.db.Close(); err != nil {
		errs = append(errs, fmt.Errorf("closing the table: %w", err))
	}
	return errors.Join(errs...)
}
