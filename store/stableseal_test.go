package store

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// voted makes a stable.db with a term and a vote, and returns its path and bytes.
func voted(t *testing.T) (path string, raw []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "stable.db")
	s := mustOpenStable(t, path)
	err := errors.Join(s.SetUint64([]byte(currentTermKey), 7), s.SetUint64([]byte(voteTermKey), 7), s.Set([]byte(voteCandidate), []byte("n2")), s.close())
	if err != nil {
		t.Fatal(err)
	}
	return path, mustRead(t, path)
}

var votes = map[string]string{currentTermKey: "\x00\x00\x00\x00\x00\x00\x00\x07", voteTermKey: "\x00\x00\x00\x00\x00\x00\x00\x07", voteCandidate: "n2"}

// TestChangedVoteIsRefused changes one bit of each byte that holds something: no term and no vote is ever another one, or gone. Where
// the bit says nothing, the file opens; else it is refused with one line.
func TestChangedVoteIsRefused(t *testing.T) {
	path, raw := voted(t)
	refused, value := 0, strings.LastIndex(string(raw), "LastVoteCandn2")
	for at, b := range raw {
		if b == 0 && at%16 > 0 { // most of it is empty
			continue
		}
		changed := []byte(string(raw))
		changed[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		s := newStable(newGuard(DefaultStallLimit, noFatal(t), nil))
		err := s.open(path)
		if err == nil {
			if got := stableValues(s); !maps.Equal(got, votes) {
				t.Errorf("byte %d changed: it is read as %q", at, got)
			}
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		refused++
		if !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "join the cluster again") {
			t.Errorf("byte %d changed: %v: expected one line that says what to do", at, err)
		}
	}
	if value < 0 || refused < 100 {
		t.Errorf("%d refused; the vote is at %d: it means nothing", refused, value)
	}
}

// TestDamagedMetaIsRefused: bbolt would go back to before the last commit.
func TestDamagedMetaIsRefused(t *testing.T) {
	path, raw := voted(t)
	for n := range 2 {
		changed := []byte(string(raw))
		changed[n*os.Getpagesize()+boltPageHeader+20] ^= 4
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		err := newStable(newGuard(DefaultStallLimit, noFatal(t), nil)).open(path)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "meta page") {
			t.Errorf("with meta page %d changed: %v", n+1, err)
		}
	}
}

// writeUnsealed sets a value as a release does that writes no seal.
func writeUnsealed(t *testing.T, path, key, value string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, boltOptions())
	if err != nil {
		t.Fatal(err)
	}
	put := func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(stableBucket)
		if err != nil {
			return err
		}
		return b.Put([]byte(key), []byte(value))
	}
	if err := errors.Join(db.Update(put), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestStableOfAnOlderRelease opens what a release has written that writes no seal, before and after one that does, and seals it.
func TestStableOfAnOlderRelease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stable.db")
	for _, candidate := range []string{"n1", "n2", "n3"} {
		writeUnsealed(t, path, voteCandidate, candidate)
		s := mustOpenStable(t, path)
		if got, err := s.Get([]byte(voteCandidate)); string(got) != candidate || err != nil {
			t.Errorf("the vote is %q, %v, expected %q", got, err, candidate)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	raw := []byte(string(mustRead(t, path)))
	changed := strings.ReplaceAll(string(raw), "LastVoteCandn3", "LastVoteCandn1")
	if changed == string(raw) {
		t.Fatal("the vote is not in the file as it is")
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newStable(newGuard(DefaultStallLimit, noFatal(t), nil)).open(path); !errors.Is(err, ErrDamaged) {
		t.Errorf("it was not sealed: %v", err)
	}
}
