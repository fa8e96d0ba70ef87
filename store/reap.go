package store

import (
	"errors"
	"slices"
)

// added takes a snapshot in whose folder is durable, and removes those that are too many.
func (s *SnapshotStore) added(snap snapshot) {
	if !snap.hasState {
		s.dropStates(snap.Index) // the table on disk has come further
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.insert(snap)
	for i := len(s.list) - 1; i >= keptSnapshots; i-- {
		old := s.list[i]
		if old.ID == snap.ID {
			continue // raft opens it next, even where it is older than ours
		}
		if err := s.remove(old.ID); err != nil {
			s.log.Warn("an old snapshot stays", "id", old.ID, "error", err)
		}
		s.list = slices.Delete(s.list, i, i+1)
	}
}

// remove renames first: a folder that is removed half-way would be a damaged snapshot.
func (s *SnapshotStore) remove(id string) error {
	dir := s.dir(id)
	if err := s.files.Rename(dir, dir+tmpSuffix); err != nil {
		return err
	}
	return errors.Join(s.files.syncDir(s.files.path(snapshotsDir)), s.files.RemoveAll(dir+tmpSuffix))
}

// dropStates removes received bytes that the table on disk covers.
func (s *SnapshotStore) dropStates(applied uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		snap := &s.list[i]
		if !snap.hasState || snap.Index > applied {
			continue
		}
		if err := s.files.Remove(s.files.PathJoin(s.dir(snap.ID), stateFile)); err != nil {
			s.log.Warn("the bytes of a restored snapshot stay", "id", snap.ID, "error", err)
			continue
		}
		snap.hasState = false
	}
}
