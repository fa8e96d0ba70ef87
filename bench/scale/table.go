package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"onced"
	"onced/bench/system"
	"onced/fsm"
	"onced/store"
)

const (
	perEntry    = 500            // records of one log entry
	lookUps     = 2_000          // at each report
	leaseMS     = 30_000         // of a reservation
	retentionMS = 24 * 3_600_000 // of a record: nothing falls due
)

// measured is what a table of so many completed keys was found to cost its process and its disk.
type measured struct {
	keys     int
	seconds  float64 // since the first key
	disk     float64 // bytes for each key
	written  float64 // the same, of all that was handed to the disk
	resident int64   // bytes of this process
	absent   time.Duration
	present  time.Duration // one look-up of a key that is, and is not, there
}

func (m measured) String() string {
	return fmt.Sprintf("%11d keys  %6.0f s  %4.0f bytes of disk, %5.0f written for each  %4d MiB resident  look-up: %4d µs absent, %4d µs present",
		m.keys, m.seconds, m.disk, m.written, m.resident>>20, m.absent.Microseconds(), m.present.Microseconds())
}

// filling is a table under way.
type filling struct {
	dir    *store.Dir
	random *rand.ChaCha8
	raw    []byte
	index  uint64 // of the last entry
	begun  time.Time
	wrote  int64 // by this process before
	backup string
	some   []onced.ID
}

// fillTable stores keys in the table of a data directory without raft, by reserves and completes as a node would apply them, and
// tells after each portion what it took: the part of a node that grows with the keys, alone. At the end it writes a backup, if it is told where, of which
// `onced restore` makes a cluster with so many keys.
func fillTable(path, backup string, keys, portion int, tell func(any)) (err error) {
	opening := time.Now()
	d, err := store.Open(path, store.Options{Fatal: func(err error) { fmt.Fprintln(os.Stderr, err); os.Exit(1) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	tell(fmt.Sprintf("opened: %d ms", time.Since(opening).Milliseconds()))
	// A directory with a table and no term is refused when it is opened again.
	if err := d.Stable().SetUint64([]byte("CurrentTerm"), 1); err != nil {
		return err
	}
	f := &filling{dir: d, random: rand.NewChaCha8([32]byte{1}), raw: make([]byte, 225), backup: backup, index: d.Table().Applied(), begun: time.Now()}
	if f.wrote, err = system.Written([]int{os.Getpid()}); err != nil {
		return err
	}
	for done := 0; done < keys; {
		for next := min(done+portion, keys); done < next; {
			n := min(perEntry, next-done)
			if err := f.entry(n); err != nil {
				return err
			}
			done += n
		}
		m, err := f.measure(done)
		if err != nil {
			return err
		}
		tell(m)
	}
	return f.finish(tell)
}

// entry reserves n new keys by one log entry and completes them by the next.
func (f *filling) entry(n int) error {
	ids, rows := make([]onced.ID, n), make([]*fsm.Row, n)
	err := f.commit(func(tx *store.Tx, token uint64) error {
		for i := range ids {
			ids[i] = onced.ID{Tenant: "default", Key: f.key()}
			old, err := tx.Row(ids[i])
			if err != nil {
				return err
			}
			rows[i] = &fsm.Row{Phase: fsm.PhaseRunning, Fingerprint: "bench", Attempt: 1, Token: token + uint64(i), Owner: "0123456789abcdef01234567",
				Lease: leaseMS, Retention: retentionMS, CreatedAt: int64(token), LeaseUntil: int64(token) + leaseMS}
			tx.PutRow(ids[i], old, rows[i])
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.some = append(f.some, ids[0])
	return f.commit(func(tx *store.Tx, token uint64) error {
		for i, id := range ids {
			old, err := tx.Row(id)
			if err != nil {
				return err
			}
			row := *rows[i]
			row.Phase, row.LeaseUntil, row.CompletedAt = fsm.PhaseCompleted, 0, int64(token)
			f.random.Read(f.raw) // it never fails
			row.Response = []byte(base64.StdEncoding.EncodeToString(f.raw))
			tx.PutRow(id, old, &row)
		}
		return nil
	})
}

func (f *filling) commit(put func(tx *store.Tx, token uint64) error) error {
	f.index++
	tx := f.dir.Table().Begin()
	defer tx.Close()
	token := f.index * perEntry
	if err := put(tx, token); err != nil {
		return err
	}
	m := tx.Meta()
	m.LastToken, m.Clock, m.ClusterID = token+perEntry, int64(token), "scale" // a backup of no cluster is refused
	tx.PutMeta(m)
	return tx.Commit(f.index, 1)
}

// key is a random one, of a UUID's length.
func (f *filling) key() onced.Key {
	return onced.Key(fmt.Sprintf("%016x-%019d", f.random.Uint64(), f.random.Uint64()))
}

// measure takes the figures as they are.
func (f *filling) measure(keys int) (measured, error) {
	m := measured{keys: keys, seconds: time.Since(f.begun).Seconds()}
	m.disk = float64(f.dir.Table().Metrics().DiskBytes) / float64(keys)
	self := []int{os.Getpid()}
	written, err := system.Written(self)
	if err != nil {
		return m, err
	}
	m.written = float64(written-f.wrote) / float64(keys)
	if m.resident, err = system.Memory(self); err != nil {
		return m, err
	}
	if m.absent, err = f.lookUp(func(int) onced.ID { return onced.ID{Tenant: "default", Key: f.key()} }); err != nil {
		return m, err
	}
	m.present, err = f.lookUp(func(int) onced.ID { return f.some[f.random.Uint64()%uint64(len(f.some))] })
	return m, err
}

// lookUp is the mean time of a look-up at random.
func (f *filling) lookUp(id func(int) onced.ID) (time.Duration, error) {
	begun := time.Now()
	for i := range lookUps {
		if _, err := f.dir.Table().Row(id(i)); err != nil {
			return 0, err
		}
	}
	return time.Since(begun) / lookUps, nil
}

// finish tells how long a snapshot is (the flush of the table), and how fast the table's bytes are read for a follower.
func (f *filling) finish(tell func(any)) error {
	begun := time.Now()
	if err := f.dir.Table().Flush(); err != nil {
		return err
	}
	tell(fmt.Sprintf("snapshot (a flush): %d ms", time.Since(begun).Milliseconds()))
	begun = time.Now()
	b, err := f.dir.Table().OpenBackup()
	if err != nil {
		return err
	}
	to, done := io.Discard, func() error { return nil }
	if f.backup != "" {
		file, err := os.OpenFile(f.backup, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return errors.Join(err, b.Close())
		}
		to, done = file, file.Close
	}
	n, err := io.Copy(to, b)
	if err = errors.Join(err, b.Close(), done()); err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	tell(fmt.Sprintf("read as a snapshot: %d MiB in %.1f s, %.0f MiB/s", n>>20, took, float64(n)/took/(1<<20)))
	return nil
}
