package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

var _ raft.StableStore = (*StableStore)(nil)

// errNotFound has the text that raft compares with.
var errNotFound = errors.New("not found")

var (
	stableBucket = []byte("stable")
	sealedBucket = []byte("sealed") // has stableSeal under sealKey
	sealKey      = []byte("seal")
	// raft's names; it writes a vote as these two, in this order.
	voteTermKey    = "LastVoteTerm"
	voteCandidate  = "LastVoteCand"
	currentTermKey = "CurrentTerm"
)

// StableStore is raft's term and vote on bbolt. The term of a vote is held until its candidate comes
// and both are written at once: with one durable and not the other, a node that crashes in between would take
// the old candidate for the one it voted for in the new term, and vote twice (raft#661).
//
// The values are read from the disk once, when it is opened, and judged then: see stableSeal.
type StableStore struct {
	bolt  *bbolt.DB
	guard *guard

	mu       sync.Mutex
	values   map[string][]byte // what is durable; the bytes of a value are never changed
	voteTerm []byte            // held; nil = none
}

func newStable(g *guard) *StableStore {
	return &StableStore{guard: g, values: map[string][]byte{}}
}

// openStable opens stable.db, or makes it. One that is made gets its name once it is whole.
func openStable(f files) (*StableStore, error) {
	path := f.path("raft", "stable.db")
	s := newStable(f.guard)
	there, err := f.exists(path)
	if err != nil {
		return nil, err
	}
	if !there {
		if err := s.create(f, path); err != nil {
			return nil, fmt.Errorf("making %s: %w", path, err)
		}
	}
	if err := s.open(path); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *StableStore) create(f files, path string) error {
	if err := f.guard.step("stable.make"); err != nil {
		return err
	}
	if err := s.open(path + tmpSuffix); err != nil {
		return errors.Join(err, f.RemoveAll(path+tmpSuffix))
	}
	if err := s.close(); err != nil {
		return errors.Join(err, f.RemoveAll(path+tmpSuffix))
	}
	return f.publish("stable", path)
}

// open opens the file at path, judges what is in it, and seals it.
func (s *StableStore) open(path string) error {
	return openBolt(path, func() (err error) {
		if s.bolt, err = bbolt.Open(path, 0o600, boltOptions()); err != nil {
			return err
		}
		err = s.bolt.Update(func(tx *bbolt.Tx) error {
			if s.values, err = readStable(tx); err != nil {
				return err
			}
			_, err1 := tx.CreateBucketIfNotExists(stableBucket)
			_, err2 := tx.CreateBucketIfNotExists(sealedBucket)
			return errors.Join(err1, err2, sealStable(tx, s.values))
		})
		if err != nil {
			return errors.Join(err, s.bolt.Close())
		}
		return nil
	})
}

// stableSeal is what makes a changed bit of a term or a vote known: bbolt has checksums of its two meta pages only.
// It is written in each transaction, beside the values:
//
//	0   number of the transaction
//	8   checksum of all values and their names
//	16  checksum of the 16 bytes before
//
// Numbers are big-endian. bbolt counts the transactions in its meta pages. Where it has counted further than the seal, a release that
// writes no seal was the last to write, and its values are taken as they are.
type stableSeal [24]byte

func newStableSeal(transaction int, values map[string][]byte) (seal stableSeal) {
	var d xxhash.Digest
	d.Reset()
	part := func(b []byte) { // never errs
		d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		d.Write(b)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		part([]byte(key))
		part(values[key])
	}
	binary.BigEndian.PutUint64(seal[:], uint64(transaction))
	binary.BigEndian.PutUint64(seal[8:], d.Sum64())
	binary.BigEndian.PutUint64(seal[16:], xxhash.Sum64(seal[:16]))
	return seal
}

// sealStable writes the seal of what values are when tx is through.
func sealStable(tx *bbolt.Tx, values map[string][]byte) error {
	seal := newStableSeal(tx.ID(), values)
	return tx.Bucket(sealedBucket).Put(sealKey, seal[:])
}

// readStable returns the values as they were before tx, which has not written yet; ErrDamaged where they are not what was written.
func readStable(tx *bbolt.Tx) (map[string][]byte, error) {
	last := tx.ID() - 1 // of the last one that was written
	var names []string
	values := map[string][]byte{}
	err := tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		names = append(names, string(name))
		if !bytes.Equal(name, stableBucket) {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return fmt.Errorf("%w: %.40q is no value", ErrDamaged, k)
			}
			values[string(k)] = append([]byte{}, v...)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	switch {
	case len(names) == 0 && last <= 1: // bbolt's own two; nobody has written yet
		return values, nil
	case slices.Equal(names, []string{string(stableBucket)}): // of a release that wrote no seal
		return values, nil
	case !slices.Equal(names, []string{string(sealedBucket), string(stableBucket)}):
		return nil, fmt.Errorf("%w: it has the parts %.100q, expected %q and %q", ErrDamaged, names, sealedBucket, stableBucket)
	}
	var seal stableSeal
	if raw := tx.Bucket(sealedBucket).Get(sealKey); len(raw) != len(seal) {
		return nil, fmt.Errorf("%w: the checksum of raft's term and vote has %d bytes, expected %d", ErrDamaged, len(raw), len(seal))
	} else {
		copy(seal[:], raw)
	}
	written := binary.BigEndian.Uint64(seal[:])
	switch {
	case binary.BigEndian.Uint64(seal[16:]) != xxhash.Sum64(seal[:16]) || written > uint64(last):
		return nil, fmt.Errorf("%w: the checksum of raft's term and vote is not what was written", ErrDamaged)
	case written == uint64(last) && seal != newStableSeal(last, values):
		return nil, fmt.Errorf("%w: raft's term and vote are not what was written", ErrDamaged)
	}
	return values, nil
}

// Set implements raft.StableStore: durable when it returns nil.
func (s *StableStore) Set(key, val []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := maps.Clone(s.values)
	if s.voteTerm != nil && string(key) == voteCandidate {
		values[voteTermKey] = s.voteTerm
	}
	values[string(key)] = append([]byte{}, val...)
	err := s.guard.do("stable.set", "writing raft's term and vote", func() error {
		return s.bolt.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(stableBucket)
			for k, v := range values {
				if err := b.Put([]byte(k), v); err != nil {
					return err
				}
			}
			return sealStable(tx, values)
		})
	})
	if err != nil {
		return err
	}
	s.values = values
	if string(key) == voteCandidate {
		s.voteTerm = nil
	}
	return nil
}

// Get implements raft.StableStore; the error of a missing key is "not found".
func (s *StableStore) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	val, ok := s.values[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return append([]byte{}, val...), nil
}

// SetUint64 implements raft.StableStore: durable when it returns nil, but for LastVoteTerm, which
// becomes so together with the next LastVoteCand.
func (s *StableStore) SetUint64(key []byte, val uint64) error {
	encoded := binary.BigEndian.AppendUint64(nil, val)
	if string(key) == voteTermKey {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.voteTerm = encoded
		return s.guard.err()
	}
	return s.Set(key, encoded)
}

// GetUint64 implements raft.StableStore; the error of a missing key is "not found".
func (s *StableStore) GetUint64(key []byte) (uint64, error) {
	val, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(val) != 8 {
		return 0, fmt.Errorf("reading %s: %w: it has %d bytes, expected 8", key, ErrDamaged, len(val))
	}
	return binary.BigEndian.Uint64(val), nil
}

func (s *StableStore) close() error {
	if err := s.bolt.Close(); err != nil {
		return fmt.Errorf("closing raft's term and vote: %w", err)
	}
	return nil
}
