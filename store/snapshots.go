package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

var _ raft.SnapshotStore = (*SnapshotStore)(nil)

const (
	snapshotsDir  = "snapshots"
	metaFile      = "meta.json"
	stateFile     = "state"
	keptSnapshots = 2
)

// SnapshotStore keeps what raft calls snapshots. One that this node takes is a note in
// meta.json that the table on disk has everything up to an index: nothing is copied, and
// Open makes the bytes from the table as it is by then. One that comes from elsewhere has its
// bytes until they are restored.
type SnapshotStore struct {
	files files
	table *Table
	log   *slog.Logger

	mu   sync.Mutex
	list []snapshot // newest first
	seq  uint64     // of the last id given out
	sent sending
}

// snapshot is meta.json.
type snapshot struct {
	FormatVersion      int                  `json:"format_version"`
	ID                 string               `json:"id"`
	Seq                uint64               `json:"seq"` // of a later one of the same index is larger
	Index              uint64               `json:"index"`
	Term               uint64               `json:"term"`
	Version            raft.SnapshotVersion `json:"raft_version"`
	Configuration      raft.Configuration   `json:"configuration"`
	ConfigurationIndex uint64               `json:"configuration_index"`
	StateBytes         int64                `json:"state_bytes"` // of the body that came in; 0 = taken by this node
	Rebase             bool                 `json:"rebase"`      // the body is of another log and stands for Index

	hasState bool // the body is still there
}

func (s snapshot) raftMeta() *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: s.Version, ID: s.ID, Index: s.Index, Term: s.Term,
		Configuration: s.Configuration.Clone(), ConfigurationIndex: s.ConfigurationIndex,
	}
}

// label is that of the bytes that came in.
func (s snapshot) label() label {
	kind := byte(labelSnapshot)
	if s.Rebase {
		kind = labelRebase
	}
	return label{kind, s.Index, s.Term}
}

// openSnapshots reads what is there, and removes what a crash left unfinished.
func openSnapshots(f files, t *Table, log *slog.Logger) (*SnapshotStore, error) {
	s := &SnapshotStore{files: f, table: t, log: log}
	dir := f.path(snapshotsDir)
	if err := f.makeDir(snapshotsDir); err != nil {
		return nil, err
	}
	if err := f.sweep(dir); err != nil {
		return nil, err
	}
	names, err := f.List(dir)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, name := range names {
		snap, err := readSnapshot(f, f.PathJoin(dir, name))
		if err != nil {
			return nil, err
		}
		s.insert(snap)
	}
	return s, nil
}

func readSnapshot(f files, dir string) (snapshot, error) {
	var s snapshot
	data, err := f.read(f.PathJoin(dir, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("reading snapshot %s: %w: it has no %s", dir, ErrDamaged, metaFile)
	}
	if err != nil {
		return s, err
	}
	if err := unseal(data, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w", f.PathJoin(dir, metaFile), err)
	}
	switch {
	case s.FormatVersion != FormatVersion:
		return s, fmt.Errorf("snapshot %s has format version %d; this release reads %d", dir, s.FormatVersion, FormatVersion)
	case s.ID != f.PathBase(dir) || s.Index == 0:
		return s, fmt.Errorf("reading snapshot %s: %w: it says it is %q of index %d", dir, ErrDamaged, s.ID, s.Index)
	}
	s.hasState, err = f.exists(f.PathJoin(dir, stateFile))
	return s, err
}

// insert keeps the list in order. The caller holds mu, or is alone.
func (s *SnapshotStore) insert(snap snapshot) {
	s.list = append(s.list, snap)
	slices.SortFunc(s.list, func(a, b snapshot) int {
		return cmp.Or(cmp.Compare(b.Index, a.Index), cmp.Compare(b.Seq, a.Seq))
	})
	s.seq = max(s.seq, snap.Seq)
}

func (s *SnapshotStore) dir(id string) string { return s.files.path(snapshotsDir, id) }

// newest returns the newest snapshot; false when there is none.
func (s *SnapshotStore) newest() (snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return snapshot{}, false
	}
	return s.list[0], true
}

// LastIndex returns the index of the newest snapshot; 0 when there is none.
func (s *SnapshotStore) LastIndex() uint64 {
	newest, _ := s.newest()
	return newest.Index
}

// List implements raft.SnapshotStore: newest first. Only Open tells a size.
func (s *SnapshotStore) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var metas []*raft.SnapshotMeta
	for _, snap := range s.list {
		metas = append(metas, snap.raftMeta())
	}
	return metas, nil
}

// Open implements raft.SnapshotStore. The size in the returned meta data is that of the stream,
// which may have more than the snapshot's index.
func (s *SnapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, st, err := s.open(id)
	if err != nil {
		return nil, nil, fmt.Errorf("opening snapshot %s: %w", id, err)
	}
	meta.Size = st.size
	end, whole := s.sent.begin(), st.close
	st.close = func() error { end(); return whole() }
	return meta, st, nil
}

// Sending tells whether a table is on its way to a member, or has just been and the member has yet to get what came into the
// log meanwhile: it is given as long as the table took. Until then the log is needed from the snapshot's index on.
func (s *SnapshotStore) Sending() bool { return s.sent.now() }

// sending are the streams that are being read.
type sending struct {
	mu    sync.Mutex
	open  int
	until time.Time // of the members' time after the last ones
}

// begin counts one more, until end.
func (s *sending) begin() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	began := time.Now()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		now := time.Now()
		if until := now.Add(now.Sub(began)); until.After(s.until) {
			s.until = until
		}
	})
}

func (s *sending) now() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0 || time.Now().Before(s.until)
}

func (s *SnapshotStore) open(id string) (*raft.SnapshotMeta, *stream, error) {
	snap, received, err := s.find(id)
	if err != nil || received != nil {
		return snap.raftMeta(), received, err
	}
	if applied := s.table.Applied(); applied < snap.Index {
		return nil, nil, fmt.Errorf("%w: it is at %d, the snapshot at %d", ErrBehind, applied, snap.Index)
	}
	// Never a rebase: what was restored goes on with our log, and may be newer than the index by now.
	st, err := s.table.stream(label{labelSnapshot, snap.Index, snap.Term})
	return snap.raftMeta(), st, err
}

// find returns a snapshot, and its received bytes if they are there still.
func (s *SnapshotStore) find(id string) (snapshot, *stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(snap snapshot) bool { return snap.ID == id })
	if i < 0 {
		return snapshot{}, nil, errors.New("there is none of that id")
	}
	snap := s.list[i]
	if !snap.hasState {
		return snap, nil, nil
	}
	received, err := s.openState(snap)
	return snap, received, err
}

// openState gives the bytes that came in, under the snapshot's own label.
func (s *SnapshotStore) openState(snap snapshot) (*stream, error) {
	file, err := s.files.Open(s.files.PathJoin(s.dir(snap.ID), stateFile))
	if err != nil {
		return nil, err
	}
	return &stream{
		Reader: io.MultiReader(strings.NewReader(string(snap.label().bytes())), io.LimitReader(file, snap.StateBytes)),
		size:   int64(labelSize) + snap.StateBytes,
		close:  file.Close,
	}, nil
}
