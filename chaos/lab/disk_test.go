//go:build linux

package lab

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDamage: each kind of log is found where it lies, and exactly one file is changed.
func TestDamage(t *testing.T) {
	for _, files := range [][]string{
		{"raft/log.db"},
		{"raft/wal/segments.json", "raft/wal/00000000000000000001-0000000000000001.wal"},
	} {
		for _, cut := range []bool{false, true} {
			n := &Node{data: t.TempDir()}
			whole := append(bytes.Repeat([]byte("entry"), 100), make([]byte, 5000)...)
			for _, file := range append(files, "raft/stable.db") {
				path := filepath.Join(n.data, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, whole, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			said, err := Damage{What: "log", Truncate: cut}.Apply(n, rand.New(rand.NewPCG(1, 2)))
			if err != nil {
				t.Fatal(err)
			}
			changed := 0
			for _, file := range files {
				got, err := os.ReadFile(filepath.Join(n.data, file))
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Equal(got, whole) {
					continue
				}
				if changed++; (len(got) < len(whole)) != cut || !strings.Contains(said, file) {
					t.Errorf("%s has %d bytes, and it says %q", file, len(got), said)
				}
			}
			if vote, err := os.ReadFile(filepath.Join(n.data, "raft/stable.db")); err != nil || !bytes.Equal(vote, whole) {
				t.Errorf("the vote was changed: %v", err)
			}
			if changed != 1 || !n.Damaged() {
				t.Errorf("%v: %d files were changed, damaged %v", files, changed, n.Damaged())
			}
		}
	}
}
