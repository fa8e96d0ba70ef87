package cluster_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"onced"
	"onced/cluster"
	"onced/cluster/peer/memnet"
)

// A fixture is two files of testdata: NAME.tar.gz, a data directory, and NAME.txt, what it holds.
var newFixture = flag.String("new-fixture", "", "write a fixture of this name, such as dir-2: for a new format, beside the old ones")

// TestOldDataDirectory opens a data directory that an earlier binary wrote, of each format that there was, and reads
// everything in it: half of it stands in the table, half only in the log. A binary that cannot is not to be released.
func TestOldDataDirectory(t *testing.T) {
	if *newFixture != "" {
		writeFixture(t, filepath.Join("testdata", *newFixture))
	}
	files, err := filepath.Glob("testdata/dir-*.tar.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".tar.gz")
		t.Run(filepath.Base(name), func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, file, dir)
			want, err := os.ReadFile(name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), heldIn(t, dir)); diff != "" {
				t.Errorf("the directory holds other things than it did (-then +now):\n%s", diff)
			}
		})
	}
}

// then is when the fixture was written, and when it is opened: its leases and retentions would be over today.
func then() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// openAlone opens the directory as a cluster of one.
func openAlone(t *testing.T, dir string) *cluster.Node {
	t.Helper()
	net := memnet.New()
	link, err := net.Join("n1", "n1.test:8481", nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := cluster.Open(context.Background(), cluster.Config{NodeID: "n1", DataDir: dir, Link: link, Wall: then, Logger: testLogger(t)})
	if err != nil {
		t.Fatalf("opening the directory: %v", err)
	}
	eventually(t, "the node is ready", n.Ready)
	return n
}

func closeAlone(t *testing.T, n *cluster.Node) {
	t.Helper()
	if err := n.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// writeFixture writes a record of each kind before a snapshot, and another after it, and takes the directory as it is
// then, as a power loss would leave it: once closed, the table would have all that the log has.
func writeFixture(t *testing.T, name string) {
	t.Helper()
	dir := t.TempDir()
	n := openAlone(t, dir)
	writeRecords(t, n, "snapshot")
	if err := n.SnapshotNow(); err != nil {
		t.Fatal(err)
	}
	writeRecords(t, n, "log")
	pack(t, dir, name+".tar.gz")
	closeAlone(t, n)
	if err := os.WriteFile(name+".txt", []byte(heldIn(t, dir)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeRecords(t *testing.T, n *cluster.Node, name string) {
	t.Helper()
	ctx := context.Background()
	reserve := func(key string, r onced.ReserveRequest) onced.Token {
		r.ID = onced.ID{Tenant: "acme", Scope: "POST /" + name, Key: onced.Key(key)}
		r.Fingerprint, r.Owner = "of "+key, "owner of "+key
		got, err := n.Reserve(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		return got.Record.Token
	}
	settle := func(key string, r onced.CompleteRequest) {
		r.ID = onced.ID{Tenant: "acme", Scope: "POST /" + name, Key: onced.Key(key)}
		if _, err := n.Complete(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	reserve("running", onced.ReserveRequest{Lease: time.Hour, Retention: 2 * time.Hour, Tombstone: 3 * time.Hour})
	token := reserve("checkpoint", onced.ReserveRequest{Lease: time.Hour, OnLapse: onced.Retry})
	id := onced.ID{Tenant: "acme", Scope: "POST /" + name, Key: "checkpoint"}
	if _, err := n.Renew(ctx, onced.RenewRequest{ID: id, Token: token, Checkpoint: []byte(`{"step":2}`)}); err != nil {
		t.Fatal(err)
	}
	settle("text", onced.CompleteRequest{Token: reserve("text", onced.ReserveRequest{Tombstone: time.Hour}), Response: &onced.Response{
		Status: 201, Headers: []onced.Header{{Name: "Link", Value: "</a>"}, {Name: "Link", Value: "</b>"}}, Body: []byte("grüße")}})
	settle("bytes", onced.CompleteRequest{Token: reserve("bytes", onced.ReserveRequest{}), Response: &onced.Response{Status: 200, Body: []byte{0, 255, 10}}, Retention: 48 * time.Hour})
	settle("elsewhere", onced.CompleteRequest{Token: reserve("elsewhere", onced.ReserveRequest{}), Response: &onced.Response{Status: 200, BodyOmitted: true, Reference: "file:1"}})
	settle("unknown", onced.CompleteRequest{Token: reserve("unknown", onced.ReserveRequest{}), Unknown: true})
	gone := onced.ID{Tenant: "acme", Scope: "POST /" + name, Key: "cancelled"}
	reserve("cancelled", onced.ReserveRequest{})
	if err := n.Release(ctx, onced.ReleaseRequest{ID: gone, Owner: "owner of cancelled"}); err != nil {
		t.Fatal(err)
	}
}

// heldIn opens the directory and describes what it holds: every record, then what must be refused.
func heldIn(t *testing.T, dir string) string {
	t.Helper()
	n := openAlone(t, dir)
	defer closeAlone(t, n)
	ctx := context.Background()
	page, err := n.List(ctx, onced.ListRequest{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range page.Records {
		full, err := n.Get(ctx, onced.GetRequest{ID: r.ID})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s: %s, attempt %d, token %d, owner %q, fingerprint %q\n", full.Scope, full.Key, full.State, full.Attempt, full.Token, full.Owner, full.Fingerprint)
		fmt.Fprintf(&b, "  %s, lease %s, retention %s, tombstone %s, checkpoint %s\n", full.OnLapse, full.Lease, full.Retention, full.Tombstone, full.Checkpoint)
		if a := full.Response; a != nil {
			fmt.Fprintf(&b, "  %d %q %q, omitted %v, reference %q\n", a.Status, a.Headers, a.Body, a.BodyOmitted, a.Reference)
		}
	}
	for _, name := range []string{"snapshot", "log"} {
		_, err := n.Reserve(ctx, onced.ReserveRequest{ID: onced.ID{Tenant: "acme", Scope: "POST /" + name, Key: "cancelled"}, Fingerprint: "of cancelled", Owner: "owner of cancelled"})
		fmt.Fprintf(&b, "POST /%s, its cancelled owner again: %s\n", name, onced.CodeOf(err))
	}
	next, err := n.Reserve(ctx, onced.ReserveRequest{ID: onced.ID{Tenant: "acme", Key: "next"}})
	fmt.Fprintf(&b, "the next token: %d, %v\n", next.Record.Token, err)
	return b.String()
}

func pack(t *testing.T, dir, file string) {
	t.Helper()
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(zip)
	err = errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close(), zip.Close(), out.Close())
	if err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, file, dir string) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(zip); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if path := filepath.Join(dir, entry.Name); entry.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = writeFile(path, archive, entry.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func writeFile(path string, from io.Reader, mode fs.FileMode) error {
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}
