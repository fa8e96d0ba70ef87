package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

var oneServer = raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "host:1", Suffrage: raft.Voter}}}

// take makes a periodic snapshot as raft does.
func take(d *Dir, index, term uint64) (string, error) {
	fsmSnapshot := d.Table().Snapshot()
	defer fsmSnapshot.Release()
	sink, err := d.Snapshots().Create(1, index, term, oneServer, 1, nil)
	if err != nil {
		return "", err
	}
	if err := fsmSnapshot.Persist(sink); err != nil {
		return "", errors.Join(err, sink.Cancel())
	}
	return sink.ID(), sink.Close()
}

// receive stores a stream as raft does when a leader sends one.
func receive(d *Dir, index, term uint64, stream []byte) (string, error) {
	sink, err := d.Snapshots().Create(1, index, term, oneServer, 1, nil)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(sink, bytes.NewReader(stream)); err != nil {
		return "", errors.Join(err, sink.Cancel())
	}
	return sink.ID(), sink.Close()
}

// install is receive and what raft does next.
func install(d *Dir, index, term uint64, stream []byte) error {
	id, err := receive(d, index, term, stream)
	if err != nil {
		return err
	}
	_, r, err := d.Snapshots().Open(id)
	if err != nil {
		return err
	}
	return errors.Join(d.Restore(r), r.Close())
}

func streamOf(t testing.TB, d *Dir, id string) []byte {
	t.Helper()
	meta, r, err := d.Snapshots().Open(id)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if int64(len(data)) != meta.Size {
		t.Errorf("the stream has %d bytes, its meta data says %d", len(data), meta.Size)
	}
	return data
}

// sourceStream is a snapshot at entry 40 of a table whose content is at 50.
func sourceStream(t testing.TB) []byte {
	t.Helper()
	source := mustOpenMem(t, vfs.NewMem())
	fill(t, source.Table(), 1, 40)
	id, err := take(source, 40, 1)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, source.Table(), 41, 50)
	return streamOf(t, source, id)
}

func TestPeriodicSnapshotCopiesNothing(t *testing.T) {
	fs := vfs.NewMem()
	d := mustOpenMem(t, fs)
	fill(t, d.Table(), 1, 10)
	snap, err := take(d, 12, 3) // 11 and 12 are raft's own
	if err != nil {
		t.Fatal(err)
	}
	if names, _ := fs.List(d.Snapshots().dir(snap)); len(names) != 1 || names[0] != metaFile {
		t.Errorf("the snapshot's folder has %v, expected %s alone", names, metaFile)
	}
	if d.Table().Applied() != 12 || d.Table().AppliedTerm() != 3 {
		t.Errorf("the table is at %d of term %d, expected 12 of 3", d.Table().Applied(), d.Table().AppliedTerm())
	}
	metas, err := d.Snapshots().List()
	want := []*raft.SnapshotMeta{{Version: 1, ID: snap, Index: 12, Term: 3, Configuration: oneServer, ConfigurationIndex: 1}}
	if diff := cmp.Diff(want, metas); err != nil || diff != "" {
		t.Errorf("List: %v %s", err, diff)
	}
	streamOf(t, d, snap)
	if names, _ := fs.List("data/snapshots"); len(names) != 1 {
		t.Errorf("a checkpoint stays after its stream was closed: %v", names)
	}
}

func TestInstalledSnapshotReplacesTheTable(t *testing.T) {
	stream := sourceStream(t)
	fs := vfs.NewMem()
	d := mustOpenMem(t, fs)
	fill(t, d.Table(), 1, 20)
	commit(t, d.Table(), 21, func(tx *Tx) { tx.PutRow(id("t", "", "only here"), nil, running(1)) })
	old := d.Table().Begin()
	if err := install(d, 40, 1, stream); err != nil {
		t.Fatal(err)
	}
	checkFilled(t, d.Table(), 60)
	if d.Table().Applied() != 50 {
		t.Errorf("the table is at %d, expected 50", d.Table().Applied())
	}
	if row, _ := d.Table().Row(id("t", "", "only here")); row != nil {
		t.Error("a row of the old table is still there")
	}
	if err := old.Commit(51, 1); err == nil {
		t.Error("a transaction on the old table was committed")
	}
	newest, _ := d.Snapshots().newest()
	if names, _ := fs.List(d.Snapshots().dir(newest.ID)); len(names) != 1 {
		t.Errorf("the received bytes stay: %v", names)
	}
	names, _ := fs.List("data")
	if slices.Sort(names); fmt.Sprint(names) != "[CURRENT snapshots table-2]" {
		t.Errorf("the directory has %v", names)
	}
	// What was received can be handed on, though its bytes are gone.
	third := mustOpenMem(t, vfs.NewMem())
	if err := install(third, 40, 1, streamOf(t, d, newest.ID)); err != nil {
		t.Fatal(err)
	}
	checkFilled(t, third.Table(), 60)
	mustClose(t, d)
	checkFilled(t, mustOpenMem(t, fs).Table(), 60)
}

func TestOlderSnapshotThanOurOwnDoesNotTurnBack(t *testing.T) {
	stream := sourceStream(t) // at 40, content at 50
	fs := vfs.NewMem()
	d := mustOpenMem(t, fs)
	for i := uint64(60); i <= 80; i += 10 {
		fill(t, d.Table(), d.Table().Applied()+1, i)
		if _, err := take(d, i, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := install(d, 40, 1, stream); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if d.Table().Applied() != 80 || d.Snapshots().LastIndex() != 80 {
			t.Errorf("the table is at %d, the newest snapshot at %d", d.Table().Applied(), d.Snapshots().LastIndex())
		}
		checkFilled(t, d.Table(), 81)
		mustClose(t, d)
		d = mustOpenMem(t, fs)
	}
}

func TestBackupOfAnotherLogStandsForTheNewIndex(t *testing.T) {
	source := mustOpenMem(t, vfs.NewMem())
	fill(t, source.Table(), 1, 50)
	var backup bytes.Buffer
	if err := source.Table().Backup(&backup); err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	d := mustOpenMem(t, fs)
	fill(t, d.Table(), 1, 3)
	if err := install(d, 5, 9, backup.Bytes()); err != nil { // raft.Restore: the index is made up
		t.Fatal(err)
	}
	if d.Table().Applied() != 5 || d.Table().AppliedTerm() != 9 || d.Table().Meta().LastToken != 50 {
		t.Errorf("the table is at %d with token %d, expected 5 and 50", d.Table().Applied(), d.Table().Meta().LastToken)
	}
	commit(t, d.Table(), 6, func(*Tx) {})
	// A follower that gets it from here must not fall back to 5: it would do 6 again.
	newest, _ := d.Snapshots().newest()
	follower := mustOpenMem(t, vfs.NewMem())
	if err := install(follower, 5, 9, streamOf(t, d, newest.ID)); err != nil {
		t.Fatal(err)
	}
	if follower.Table().Applied() != 6 {
		t.Errorf("the follower's table is at %d, expected 6", follower.Table().Applied())
	}
	mustClose(t, d)
	if again := mustOpenMem(t, fs); again.Table().Applied() < 5 {
		t.Errorf("after the next start the table is at %d", again.Table().Applied())
	}
}

func TestDamagedStreamsAreRefused(t *testing.T) {
	stream := sourceStream(t)
	damage := map[string]func() []byte{
		"empty":           func() []byte { return nil },
		"the label alone": func() []byte { return stream[:labelSize] },
		"half a label":    func() []byte { return stream[:10] },
		"one byte short":  func() []byte { return stream[:len(stream)-1] },
		"half":            func() []byte { return stream[:len(stream)/2] },
		"one byte more":   func() []byte { return append(bytes.Clone(stream), 0) },
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		at := rng.IntN(len(stream))
		damage[fmt.Sprintf("byte %d flipped", at)] = func() []byte {
			b := bytes.Clone(stream)
			b[at] ^= 1 << rng.IntN(8)
			return b
		}
	}
	fs := vfs.NewMem()
	d := mustOpenMem(t, fs)
	fill(t, d.Table(), 1, 20)
	for name, bad := range damage {
		if id, err := receive(d, 40, 1, bad()); err == nil {
			t.Errorf("%s: taken as snapshot %s", name, id)
		}
		if name == "one byte more" {
			continue // Restore does not look beyond the end
		}
		if err := d.Restore(bytes.NewReader(bad())); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: restored, or refused otherwise: %v", name, err)
		}
		if d.Table().Applied() != 20 {
			t.Fatalf("%s: the table is at %d after it was refused", name, d.Table().Applied())
		}
	}
	if names, _ := fs.List("data/snapshots"); len(names) != 0 {
		t.Errorf("refused snapshots stay: %v", names)
	}
	if names, _ := fs.List("data"); strings.Contains(fmt.Sprint(names), tmpSuffix) {
		t.Errorf("refused tables stay: %v", names)
	}
}

func TestStreamCannotWriteOutside(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "LOCK", ".hidden", "a\x00", strings.Repeat("n", maxFileName+1)} {
		if plainName(name) {
			t.Errorf("%q is taken as the name of a file", name)
		}
	}
}

func TestSnapshotOlderThanItsIndexIsRefused(t *testing.T) {
	d := mustOpenMem(t, vfs.NewMem())
	fill(t, d.Table(), 1, 5)
	var b bytes.Buffer
	if err := d.Table().copy(&b, label{labelSnapshot, 9, 1}); err != nil {
		t.Fatal(err)
	}
	if err := d.Restore(&b); !errors.Is(err, ErrDamaged) {
		t.Errorf("a table at 5 was restored for index 9: %v", err)
	}
	checkFilled(t, d.Table(), 6)
}

func TestOnlyTheNewestAreKept(t *testing.T) {
	fs := vfs.NewMem()
	d := mustOpenMem(t, fs)
	for i := uint64(1); i <= 5; i++ {
		fill(t, d.Table(), i, i)
		if _, err := take(d, i, 10-i); err != nil { // the index decides, not the term
			t.Fatal(err)
		}
	}
	if _, err := take(d, 5, 5); err != nil { // the same index once more: the later one is first
		t.Fatal(err)
	}
	for range 2 {
		metas, _ := d.Snapshots().List()
		if len(metas) != 2 || metas[0].ID != "5-5-6" || metas[1].ID != "5-5-5" {
			t.Errorf("List: %v", metas)
		}
		if names, _ := fs.List("data/snapshots"); len(names) != 2 {
			t.Errorf("folders: %v", names)
		}
		mustClose(t, d)
		d = mustOpenMem(t, fs)
	}
	if d.Snapshots().LastIndex() != 5 {
		t.Errorf("LastIndex = %d", d.Snapshots().LastIndex())
	}
	if _, _, err := d.Snapshots().Open("5-4-4"); err == nil {
		t.Error("a snapshot that was removed was opened")
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	fs := vfs.NewMem()
	d := mustOpenMem(t, fs)
	sink, err := d.Snapshots().Create(1, 40, 1, oneServer, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	stream := sourceStream(t)
	if _, err := sink.Write(stream[:len(stream)/2]); err != nil {
		t.Fatal(err)
	}
	if err := sink.Cancel(); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err == nil {
		t.Error("a cancelled snapshot was closed as if it were one")
	}
	if names, _ := fs.List("data/snapshots"); len(names) != 0 {
		t.Errorf("a cancelled snapshot stays: %v", names)
	}
	if metas, _ := d.Snapshots().List(); len(metas) != 0 {
		t.Errorf("a cancelled snapshot is listed: %v", metas)
	}
}

func TestPersistIntoAnyOtherSinkCopiesTheTable(t *testing.T) {
	source := mustOpenMem(t, vfs.NewMem())
	fill(t, source.Table(), 1, 8)
	other := raft.NewInmemSnapshotStore()
	_, transport := raft.NewInmemTransport("n1")
	sink, err := other.Create(1, 8, 1, oneServer, 1, transport)
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Table().Snapshot().Persist(sink); err != nil {
		t.Fatal(err)
	}
	_, r, err := other.Open(sink.ID())
	if err != nil {
		t.Fatal(err)
	}
	d := mustOpenMem(t, vfs.NewMem())
	if err := d.Restore(r); err != nil {
		t.Fatal(err)
	}
	checkFilled(t, d.Table(), 9)
}

// TestSending: as long as a table is on its way, and for as long again.
func TestSending(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	fill(t, d.Table(), 1, 10)
	id, err := take(d, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if d.Snapshots().Sending() {
		t.Error("nothing is on its way")
	}
	_, r, err := d.Snapshots().Open(id)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Snapshots().Sending() {
		t.Error("a table is on its way")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if d.Snapshots().sent.open != 0 {
		t.Error("it has arrived")
	}

	synctest.Test(t, func(t *testing.T) {
		var s sending
		expect := func(want bool) {
			t.Helper()
			if got := s.now(); got != want {
				t.Errorf("sending: %v, expected %v", got, want)
			}
		}
		long := s.begin()
		time.Sleep(50 * time.Second)
		short := s.begin()
		time.Sleep(10 * time.Second)
		long() // took a minute
		expect(true)
		short()
		short() // closed twice
		time.Sleep(59 * time.Second)
		expect(true)
		time.Sleep(time.Second)
		expect(false)
		if s.open != 0 {
			t.Errorf("%d are open", s.open)
		}
	})
}
