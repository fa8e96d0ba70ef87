package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
)

// LogKind says what raft's log lies in.
type LogKind string

// The kinds of log.
const (
	LogBolt LogKind = "bolt" // one bbolt file, by raft-boltdb
	LogWAL  LogKind = "wal"  // a folder of segments that are only ever appended to, by raft-wal
)

// LogKinds are all there are. A directory of before there was a choice has the first.
var LogKinds = []LogKind{LogBolt, LogWAL}

// newLogKind is what the log of a new directory lies in where nothing else is asked for.
const newLogKind = LogWAL

func (k LogKind) check() error {
	if k != "" && !slices.Contains(LogKinds, k) {
		return fmt.Errorf("the log is to be of kind %.40q: expected bolt or wal", string(k))
	}
	return nil
}

// raftCurrent, in the folder raft, holds the name of the log that is in force. Directories of before there was a second
// kind have none until they are opened.
const raftCurrent = "CURRENT"

var logNames = map[LogKind]string{LogBolt: "log.db", LogWAL: "wal"}

func (f files) logPath(k LogKind) string { return f.path("raft", logNames[k]) }

// logInForce returns the kind of the log in force, "" where there is none yet.
func (f files) logInForce() (LogKind, error) {
	path := f.path("raft", raftCurrent)
	data, err := f.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.logWithoutCurrent()
	}
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(string(data), "\n")
	for kind, n := range logNames {
		if n != name {
			continue
		}
		there, err := f.exists(f.logPath(kind))
		if err == nil && !there {
			err = fmt.Errorf("opening %s: %w: raft's log is missing; remove this data directory and join the cluster again as a new node", f.logPath(kind), ErrDamaged)
		}
		return kind, err
	}
	return "", fmt.Errorf("reading %s: %w: it says %.40q, expected %q or %q", path, ErrDamaged, name, logNames[LogBolt], logNames[LogWAL])
}

// logWithoutCurrent is for a directory that is new, or older than the second kind. Where both are there
// the second one is an unfinished conversion's.
func (f files) logWithoutCurrent() (LogKind, error) {
	for _, kind := range LogKinds {
		if there, err := f.exists(f.logPath(kind)); err != nil || there {
			return kind, err
		}
	}
	return "", nil
}

// putLogInForce is durable when it returns nil.
func (f files) putLogInForce(k LogKind) error {
	if err := f.replace("log.current", f.path("raft", raftCurrent), []byte(logNames[k]+"\n")); err != nil {
		return fmt.Errorf("putting raft's log of kind %s in force: %w", k, err)
	}
	return nil
}

// openLog opens the log in force, after it has made one or converted it to the kind that is asked for.
func (d *Dir) openLog() (*LogStore, error) {
	if err := d.files.sweep(d.files.path("raft")); err != nil {
		return nil, err
	}
	have, err := d.files.logInForce()
	if err != nil {
		return nil, err
	}
	want := cmp.Or(d.want, have, newLogKind)
	switch {
	case have == "":
		err = d.makeLog(want)
	case have != want:
		err = d.convertLog(have, want)
	}
	if err != nil {
		return nil, err
	}
	return d.settleLog(want)
}

// settleLog opens the log of a kind, says durably that it is the one in force, and removes what a conversion has left.
func (d *Dir) settleLog(kind LogKind) (*LogStore, error) {
	l, err := d.openLogAt(kind, d.files.logPath(kind))
	if err != nil {
		return nil, err
	}
	if there, existsErr := d.files.exists(d.files.path("raft", raftCurrent)); existsErr != nil {
		err = existsErr
	} else if !there {
		err = d.files.putLogInForce(kind)
	}
	for _, other := range LogKinds {
		if other == kind || err != nil {
			continue
		}
		if err = d.files.guard.step("log.leftover"); err == nil {
			err = d.files.RemoveAll(d.files.logPath(other))
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// openLogAt opens the log of a kind that lies at path.
func (d *Dir) openLogAt(kind LogKind, path string) (*LogStore, error) {
	if kind == LogWAL {
		e, err := openWAL(d.files, path, d.walOptions())
		if err != nil {
			return nil, err
		}
		return newLogStore(e, math.MaxUint64, d.files.guard)
	}
	e, err := openBoltLog(path)
	if err != nil {
		return nil, err
	}
	return newLogStore(e, deleteEntries, d.files.guard)
}

func (d *Dir) walOptions() walOptions {
	return walOptions{covered: d.snapshots.LastIndex, log: d.log}
}

// LogKind returns what raft's log lies in.
func (d *Dir) LogKind() LogKind {
	if _, ok := d.logs.engine.(*walLog); ok {
		return LogWAL
	}
	return LogBolt
}
