package store

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPagesThatDoNotHangTogether has a branch of the log's tree lead to one page twice, on which bbolt ends the
// process by a panic that nobody can catch.
func TestPagesThatDoNotHangTogether(t *testing.T) {
	path := t.TempDir()
	d := mustOpenLog(t, path, LogBolt)
	storeEntries(t, d.Logs(), 1, 400, 300)
	mustClose(t, d)
	file := filepath.Join(path, "raft", "log.db")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const branch, header, element = 1, 16, 16 // of bbolt's file format
	size, changed := os.Getpagesize(), 0
	for at := 0; at+size <= len(raw); at += size {
		page := raw[at : at+size]
		if binary.NativeEndian.Uint64(page) != uint64(at/size) || binary.NativeEndian.Uint16(page[8:]) != branch || binary.NativeEndian.Uint16(page[10:]) < 2 {
			continue
		}
		copy(page[header+8:header+16], page[header+element+8:header+element+16])
		changed++
	}
	if changed == 0 {
		t.Fatal("there is no branch page")
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err = Open(path, Options{Fatal: noFatal(t)})
	if err == nil {
		d.Close()
	}
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), file) {
		t.Errorf("it opens: %v", err)
	}
}
