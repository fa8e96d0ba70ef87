// Package blobtest holds every kind of blob.Store to what the interface promises.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"onced/gateway/blob"
)

// Put writes a blob in pieces and commits it.
func Put(t *testing.T, s blob.Store, n blob.Name, body []byte) {
	t.Helper()
	w, err := s.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	for piece := range slices.Chunk(body, 30_000) {
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Abort() // does nothing any more
}

// Expect fails the test unless the blob is body, read twice as a replay does; nil = it is not there.
func Expect(t *testing.T, s blob.Store, n blob.Name, body []byte) {
	t.Helper()
	r, err := s.Open(t.Context(), n)
	if body == nil {
		if !errors.Is(err, blob.ErrNotFound) {
			t.Fatalf("opening %s: %v, expected that it is not there", n, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 {
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%s has %d bytes, expected %d (%v)", n, len(got), len(body), err)
		}
		if at, err := r.Seek(0, io.SeekStart); at != 0 || err != nil {
			t.Fatalf("seeking: %d, %v", at, err)
		}
	}
}

// Check runs the tests on an empty store. large is the size of the largest blob that is tried.
func Check(t *testing.T, s blob.Store, large int) {
	ctx := context.Background()
	now := time.Now()
	n := blob.NewName(now.Add(time.Hour))
	Expect(t, s, n, nil)
	if err := s.Delete(ctx, n); err != nil {
		t.Fatalf("deleting nothing: %v", err)
	}
	if count, err := s.Sweep(ctx, now); count != 0 || err != nil {
		t.Fatalf("sweeping nothing: %d, %v", count, err)
	}

	w, err := s.Create(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "half of it")
	Expect(t, s, n, nil)
	w.Abort()
	w.Abort()
	Expect(t, s, n, nil)

	for _, body := range [][]byte{{}, []byte("a"), bytes.Repeat([]byte("line\n"), 1000), bytes.Repeat([]byte{'x', '\n', 0}, large/3)} {
		n := blob.NewName(now.Add(time.Hour))
		Put(t, s, n, body)
		Expect(t, s, n, body)
		if err := s.Delete(ctx, n); err != nil {
			t.Fatal(err)
		}
		Expect(t, s, n, nil)
	}
	checkSweep(t, s, now)
}

// checkSweep lets several sweep at once.
func checkSweep(t *testing.T, s blob.Store, now time.Time) {
	var due []blob.Name
	for i := range 20 {
		due = append(due, blob.NewName(now.Add(-time.Duration(i+2)*time.Hour)))
		Put(t, s, due[i], []byte("due"))
	}
	kept := blob.NewName(now)
	Put(t, s, kept, []byte("kept"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := s.Sweep(context.Background(), now); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, n := range due {
		Expect(t, s, n, nil)
	}
	Expect(t, s, kept, []byte("kept"))
	if count, err := s.Sweep(context.Background(), now.Add(time.Hour+time.Second)); count != 1 || err != nil {
		t.Fatalf("the last one: %d, %v", count, err)
	}
	Expect(t, s, kept, nil)
}
