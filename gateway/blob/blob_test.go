package blob_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"onced/gateway/blob"
	"onced/gateway/blob/blobtest"
)

func TestDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "blobs")
	d, err := blob.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	blobtest.Check(t, d, 3<<20)
	left, err := filepath.Glob(filepath.Join(path, "*", "*"))
	if err != nil || len(left) != 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

// TestDirIsPrivate looks at what others of the machine may do with an answer.
func TestDirIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blobs")
	d, err := blob.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	blobtest.Put(t, d, blob.NewName(time.Now()), []byte("secret"))
	err = filepath.WalkDir(path, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDirThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := blob.OpenDir(filepath.Join(file, "blobs")); err == nil {
		t.Fatal("a file was taken for a directory")
	}
}

// TestDirSweepLeavesOthersAlone has files in the directory that are not blobs, and a writer that died.
func TestDirSweepLeavesOthersAlone(t *testing.T) {
	path := t.TempDir()
	d, err := blob.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"README": 1000 * time.Hour, "tmp/blob-dead": 49 * time.Hour, "tmp/blob-live": 47 * time.Hour} {
		p := filepath.Join(path, name)
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(p, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"2001", "2001010199", "20010101xx"} {
		if err := os.Mkdir(filepath.Join(path, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := d.Sweep(context.Background(), time.Now()); n != 0 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for name, there := range map[string]bool{"README": true, "tmp/blob-dead": false, "tmp/blob-live": true, "2001": true, "2001010199": true, "20010101xx": true} {
		if _, err := os.Stat(filepath.Join(path, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDirCommitFails takes the place away under a writer.
func TestDirCommitFails(t *testing.T) {
	path := t.TempDir()
	d, err := blob.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	n := blob.NewName(time.Now())
	w, err := d.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, n.Hour()), nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if left, _ := os.ReadDir(filepath.Join(path, "tmp")); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestNames(t *testing.T) {
	at := time.Date(2026, 12, 1, 15, 0, 1, 0, time.UTC)
	n := blob.NewName(at)
	if !strings.HasPrefix(string(n), "2026120116/") || n == blob.NewName(at) {
		t.Fatalf("the name is %s", n)
	}
	if got, err := blob.ParseName(string(n)); got != n || err != nil {
		t.Fatalf("%s, %v", got, err)
	}
	if exact := blob.NewName(at.Truncate(time.Hour)); exact.Hour() != "2026120115" {
		t.Fatalf("the name is %s", exact)
	}
	id := strings.Repeat("a", 64)
	for _, bad := range []string{"", "2026120116", "../../etc/passwd", "2026120116/../" + id, "2026120116/" + id + "/..", "2026120116/" + strings.ToUpper(id), "2026129916/" + id, "2026120116\\" + id, "2026120116/" + id + "\n"} {
		if _, err := blob.ParseName(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
