package store

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

const (
	copyBytes     = 1 << 20 // of one append of a conversion, about
	copyEntries   = 1024    // at most
	progressEvery = 5 * time.Second
)

// makeLog makes an empty log of a kind.
func (d *Dir) makeLog(kind LogKind) error {
	nothing := func(engine) error { return nil }
	return d.buildLog(kind, nothing, func(string) error { return nil })
}

// buildLog makes a log beside, as its final name with ".tmp", fills it, checks it, and gives it the name once everything in it is
// durable. After an error what there is of it is removed: the disk may be full. Nothing that is in force is touched, so no error
// is fatal.
func (d *Dir) buildLog(kind LogKind, fill func(engine) error, check func(path string) error) error {
	path := d.files.logPath(kind)
	if err := d.files.RemoveAll(path); err != nil { // of an earlier try
		return fmt.Errorf("clearing %s: %w", path, err)
	}
	err := d.fillLog(kind, path+tmpSuffix, fill)
	if err == nil {
		err = check(path + tmpSuffix)
	}
	if err != nil {
		return errors.Join(err, d.files.RemoveAll(path+tmpSuffix))
	}
	return d.files.publish("log."+string(kind), path)
}

func (d *Dir) fillLog(kind LogKind, path string, fill func(engine) error) error {
	if err := d.files.guard.step("log.make"); err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	e, err := d.newEngine(kind, path)
	if err != nil {
		return err
	}
	return errors.Join(fill(e), e.Close())
}

// newEngine makes an empty log.
func (d *Dir) newEngine(kind LogKind, path string) (engine, error) {
	if kind == LogBolt {
		return openBoltLog(path)
	}
	if err := d.files.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making directory %s: %w", path, err)
	}
	o := d.walOptions()
	o.beside = true
	return startWAL(&walDir{files: d.files, dir: path}, o)
}

// convertLog copies the log in force to one of another kind and puts that in force:
//
//	copy      beside, in log.db.tmp or wal.tmp
//	compare   opened anew, each entry with the one that it was copied from
//	rename    it has its name, durably
//	CURRENT   names it, durably: from here on it is in force
//
// A crash before the last step leaves the old one in force, and the next try begins anew. settleLog removes the old one
// after the new one was opened.
func (d *Dir) convertLog(from, to LogKind) error {
	began := time.Now()
	l, err := d.openLogAt(from, d.files.logPath(from))
	if err != nil {
		return err
	}
	n, err := d.convertTo(to, l)
	if err = errors.Join(err, l.close()); err != nil {
		return fmt.Errorf("converting raft's log from %s to %s: %w", from, to, err)
	}
	d.log.Info("converted raft's log", "from", from, "to", to, "entries", n, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// convertTo returns how many entries there were.
func (d *Dir) convertTo(to LogKind, l *LogStore) (uint64, error) {
	first, last, err := d.convertible(l)
	if err != nil {
		return 0, err
	}
	n := uint64(0)
	if last > 0 {
		n = last - first + 1
	}
	size := l.BytesAfter(0)
	if err := d.files.room(size + segmentBytes); err != nil {
		return n, err
	}
	d.log.Info("converting raft's log", "to", to, "entries", n, "bytes", size)
	err = d.buildLog(to, func(e engine) error { return d.copyLog(e, l, first, last) },
		func(path string) error { return d.compareLog(to, path, l, first, last) })
	if err == nil {
		err = d.files.putLogInForce(to)
	}
	return n, err
}

// convertible returns which entries to copy: those after the last gap, if there is one. raft leaves one in a log of kind bolt when
// a snapshot has come in; the entries before it are then in the snapshot.
func (d *Dir) convertible(l *LogStore) (first, last uint64, err error) {
	low, err := l.FirstIndex()
	if err != nil {
		return 0, 0, err
	}
	if last, err = l.LastIndex(); err != nil || last == 0 {
		return 0, 0, err
	}
	var entry raft.Log
	for first = last; first > low; first-- {
		if err := l.engine.GetLog(first-1, &entry); errors.Is(err, raft.ErrLogNotFound) {
			break
		} else if err != nil {
			return 0, 0, fmt.Errorf("%w: entry %d: %w", ErrDamaged, first-1, err)
		}
	}
	if newest := d.snapshots.LastIndex(); first > low && first > newest+1 {
		return 0, 0, fmt.Errorf("%w: entry %d is missing and the newest snapshot ends at %d", ErrDamaged, first-1, newest)
	}
	if first > low {
		d.log.Info("entries before a gap are in the newest snapshot and are left behind", "from", low, "to", first-1)
	}
	return first, last, nil
}

// copyLog appends the entries from first to last to e.
func (d *Dir) copyLog(e engine, l *LogStore, first, last uint64) error {
	told := time.Now()
	var batch []*raft.Log
	var size int64
	for i := first; last > 0 && i <= last; i++ {
		entry := new(raft.Log)
		if err := l.engine.GetLog(i, entry); err != nil {
			return fmt.Errorf("reading entry %d: %w", i, err)
		}
		batch, size = append(batch, entry), size+entryBytes(entry)
		if size < copyBytes && len(batch) < copyEntries && i < last {
			continue
		}
		err := d.files.guard.step("log.copy")
		if err == nil {
			err = e.StoreLogs(batch)
		}
		if err != nil {
			return fmt.Errorf("copying entries up to %d: %w", i, err)
		}
		if batch, size = nil, 0; time.Since(told) > progressEvery {
			told = time.Now()
			d.log.Info("converting raft's log", "done", i-first+1, "of", last-first+1)
		}
	}
	return nil
}

// compareLog opens the log at path and compares it with the one that it was copied from.
func (d *Dir) compareLog(kind LogKind, path string, l *LogStore, first, last uint64) (err error) {
	if err := d.files.guard.step("log.compare"); err != nil {
		return fmt.Errorf("comparing the copy: %w", err)
	}
	c, err := d.openLogAt(kind, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	low, err1 := c.FirstIndex()
	high, err2 := c.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("reading the copy: %w", err)
	}
	if low != first || high != last {
		return fmt.Errorf("%w: the copy has entries %d to %d, expected %d to %d", ErrDamaged, low, high, first, last)
	}
	for i := first; last > 0 && i <= last; i++ {
		var is, was raft.Log
		if err := errors.Join(c.engine.GetLog(i, &is), l.engine.GetLog(i, &was)); err != nil {
			return fmt.Errorf("comparing entry %d: %w", i, err)
		}
		if !sameEntry(&is, &was) {
			return fmt.Errorf("%w: entry %d of the copy is another one", ErrDamaged, i)
		}
	}
	return nil
}

func sameEntry(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && a.AppendedAt.Equal(b.AppendedAt) &&
		bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Extensions, b.Extensions)
}
