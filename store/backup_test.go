package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"onced"
)

var newCluster = NewCluster{ClusterID: "new", NodeID: "n9", Address: "127.0.0.1:1"}

// backupOf is a backup of a cluster's table with records up to entry last.
func backupOf(t testing.TB, last uint64) []byte {
	t.Helper()
	d := mustOpen(t, t.TempDir())
	fill(t, d.Table(), 1, last)
	commit(t, d.Table(), last+1, func(tx *Tx) {
		m := tx.Meta()
		m.ClusterID, m.MarkIndex, m.MarkHistory = "old", 7, 8
		tx.PutMeta(m)
		tx.PutRow(id("t", "", "open"), nil, running(last))
	})
	b, err := d.Table().OpenBackup()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	raw, err := io.ReadAll(b)
	if err != nil || int64(len(raw)) != b.Size || b.Index != last+1 {
		t.Fatalf("%d bytes of %d, index %d: %v", len(raw), b.Size, b.Index, err)
	}
	return raw
}

// checkRestored opens what a restore has made, as a node would.
func checkRestored(t *testing.T, path string, last uint64) {
	t.Helper()
	d := mustOpen(t, path)
	if got, ok := d.Identity(); !ok || got.ClusterID != "new" || got.NodeID != "n9" || got.Phase != PhaseMember {
		t.Errorf("the identity is %+v, %v", got, ok)
	}
	m := d.Table().Meta()
	if m.ClusterID != "new" || m.LastToken != last+TokenGap || m.MarkIndex != 0 || m.MarkHistory != 0 {
		t.Errorf("the table's meta data are %+v", m)
	}
	for i := uint64(1); i <= last; i++ {
		row, err := d.Table().Row(keyOf(i))
		if err != nil || row == nil || row.Token != i || string(row.Response) != "body" {
			t.Fatalf("row %d: %+v, %v", i, row, err)
		}
	}
	if row, err := d.Table().Row(id("t", "", "open")); err != nil || row == nil || row.Token != last {
		t.Errorf("the open row: %+v, %v", row, err)
	}
	metas, err := d.Snapshots().List()
	if err != nil || len(metas) != 1 || metas[0].Index != last+1 || metas[0].Term != 1 {
		t.Fatalf("the snapshots are %+v, %v", metas, err)
	}
	if got := fmt.Sprint(metas[0].Configuration.Servers); got != "[{Voter n9 127.0.0.1:1}]" {
		t.Errorf("the configuration is %s", got)
	}
	if term, err := d.Stable().GetUint64([]byte(currentTermKey)); err != nil || term != 1 {
		t.Errorf("the term is %d, %v", term, err)
	}
}

func TestRestoreBackup(t *testing.T) {
	backup := backupOf(t, 50)
	for name, prepare := range map[string]func(path string) error{
		"no directory":     func(string) error { return nil },
		"an empty one":     func(path string) error { return os.MkdirAll(path, 0o700) },
		"a fresh volume's": func(path string) error { return os.MkdirAll(filepath.Join(path, "lost+found"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a", "data")
			if err := prepare(path); err != nil {
				t.Fatal(err)
			}
			got, err := RestoreBackup(path, bytes.NewReader(backup), RestoreOptions{NewCluster: newCluster})
			if want := (Refounded{From: "old", Index: 51, LastToken: 50, First: 50 + TokenGap, Clock: 50}); err != nil || got != want {
				t.Fatalf("%+v, %v, expected %+v", got, err, want)
			}
			checkRestored(t, path, 50)
		})
	}
}

// TestRestoreRefused: what is not restored leaves nothing of it, and touches nothing that was there.
func TestRestoreRefused(t *testing.T) {
	backup := backupOf(t, 20)
	snapshot := sourceStream(t)
	flipped := bytes.Clone(backup)
	flipped[len(flipped)/2] ^= 1
	used := func(path string) error { return os.WriteFile(filepath.Join(path, "file"), []byte("mine"), 0o600) }
	for name, tc := range map[string]struct {
		prepare func(path string) error
		backup  []byte
		text    string
	}{
		"not empty":         {used, backup, "is not empty"},
		"a node's":          {func(path string) error { mustClose(t, mustOpen(t, path)); return nil }, backup, "is not empty"},
		"an interrupted":    {func(path string) error { return os.WriteFile(filepath.Join(path, unfinishedFile), nil, 0o600) }, backup, "interrupted"},
		"cut short":         {nil, backup[:len(backup)-1], "cut short"},
		"cut in its label":  {nil, backup[:10], "cut short"},
		"changed":           {nil, flipped, "damaged"},
		"with more":         {nil, append(bytes.Clone(backup), 'x'), "after its end"},
		"another file":      {nil, bytes.Repeat([]byte("no backup "), 100), "does not begin"},
		"a snapshot's form": {nil, snapshot, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			if tc.prepare != nil {
				if err := tc.prepare(path); err != nil {
					t.Fatal(err)
				}
			}
			before := listing(t, path)
			_, err := RestoreBackup(path, bytes.NewReader(tc.backup), RestoreOptions{NewCluster: newCluster})
			if err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("expected %q: %v", tc.text, err)
			}
			if after := listing(t, path); after != before {
				t.Errorf("there was %q, and is %q", before, after)
			}
		})
	}
}

func listing(t *testing.T, path string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(path, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}

// copyLive copies a directory from which files that nothing needs any more may go at any time.
func copyLive(t *testing.T, to, from string) {
	t.Helper()
	err := os.CopyFS(to, os.DirFS(from))
	for errors.Is(err, os.ErrNotExist) {
		if err = os.RemoveAll(to); err == nil {
			err = os.CopyFS(to, os.DirFS(from))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRestoreInterrupted stops a restore at each of its steps. An error leaves nothing; what a crash at that moment would leave is
// either as empty as before, or refused.
func TestRestoreInterrupted(t *testing.T) {
	backup := backupOf(t, 20)
	early, refused := 0, 0
	for n := 1; ; n++ {
		path := filepath.Join(t.TempDir(), "data")
		image := filepath.Join(t.TempDir(), "image")
		step, stopped := 0, errors.New("stopped")
		var at string
		fault := func(name string) error {
			if strings.HasPrefix(name, "table.") { // Pebble's own
				return nil
			}
			if step++; step != n {
				return nil
			}
			at = name
			copyLive(t, image, path)
			return stopped
		}
		_, err := RestoreBackup(path, bytes.NewReader(backup), RestoreOptions{NewCluster: newCluster, Fault: fault})
		if at == "" {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, stopped) {
			t.Errorf("step %d, %s: %v", n, at, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("step %d, %s: it left\n%s", n, at, listing(t, path))
		}
		d, err := Open(image, Options{Fatal: noFatal(t)})
		switch {
		case err == nil && d.Empty() && n <= 3: // before the mark: as empty as before
			early++
			mustClose(t, d)
		case errors.Is(err, ErrUnfinished):
			refused++
			_, err := RestoreBackup(image, bytes.NewReader(backup), RestoreOptions{NewCluster: newCluster})
			if err == nil || !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("step %d, %s: restoring again: %v", n, at, err)
			}
		default:
			t.Errorf("step %d, %s: after a crash it opens: %v", n, at, err)
		}
	}
	if early == 0 || refused < 15 {
		t.Errorf("%d steps before the mark, %d after it: too few to mean anything", early, refused)
	}
}

func TestRestoreTokensExhausted(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	for last, ok := range map[uint64]bool{uint64(onced.MaxToken) - TokenGap - 1: true, uint64(onced.MaxToken) - TokenGap: false} {
		commit(t, d.Table(), d.Table().Applied()+1, func(tx *Tx) {
			m := tx.Meta()
			m.ClusterID, m.LastToken = "old", last
			tx.PutMeta(m)
		})
		var backup bytes.Buffer
		if err := d.Table().Backup(&backup); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "data")
		got, err := RestoreBackup(path, &backup, RestoreOptions{NewCluster: newCluster})
		if ok && (err != nil || got.First >= uint64(onced.MaxToken)) || !ok && (err == nil || !strings.Contains(err.Error(), "no room")) {
			t.Errorf("last token %d: %+v, %v", last, got, err)
		}
		if _, err := os.Stat(path); !ok && !errors.Is(err, os.ErrNotExist) {
			t.Error("it left something")
		}
	}
}

func TestVerifyBackup(t *testing.T) {
	backup := backupOf(t, 20)
	info, err := VerifyBackup(bytes.NewReader(backup))
	if err != nil || info.Bytes != int64(len(backup)) || info.Index != 21 {
		t.Errorf("%+v, %v", info, err)
	}
	for i := range backup {
		flipped := bytes.Clone(backup)
		flipped[i] ^= 0x10
		if _, err := VerifyBackup(bytes.NewReader(flipped)); err == nil {
			t.Fatalf("byte %d changed, and nobody notices", i)
		}
		if i%7 == 0 {
			if _, err := VerifyBackup(bytes.NewReader(backup[:i])); !errors.Is(err, ErrDamaged) {
				t.Fatalf("cut after %d bytes: %v", i, err)
			}
		}
	}
	if _, err := VerifyBackup(bytes.NewReader(append(bytes.Clone(backup), 0))); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a byte more: %v", err)
	}
	if _, err := VerifyBackup(bytes.NewReader(sourceStream(t))); !errors.Is(err, ErrDamaged) {
		t.Errorf("a snapshot: %v", err)
	}
}
