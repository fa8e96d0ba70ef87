package fsm_test

import (
	"encoding/hex"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"onced/fsm"
	"onced/fsm/command"
)

var fullRow = fsm.Row{
	Phase: fsm.PhaseCompleted, Fingerprint: "f1:abc", Attempt: 2, Token: 1 << 50, Owner: "owner-1", Retry: true, Lease: 30_000, Retention: 86_400_000,
	Tombstone: 5, CreatedAt: 1_800_000_000_000, LeaseUntil: 1_800_000_030_000, GaveUp: true, CompletedAt: 1_800_000_000_031, Checkpoint: []byte(`{"a":1}`), Response: []byte("answer"),
}

func TestRowCodec(t *testing.T) {
	for name, row := range map[string]fsm.Row{
		"full":           fullRow,
		"small":          {Phase: fsm.PhaseRunning, Token: 1},
		"empty not none": {Phase: fsm.PhaseRunning, Checkpoint: []byte{}, Response: []byte{}},
	} {
		got, err := fsm.DecodeRow(row.Append(nil))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(&row, got); diff != "" {
			t.Errorf("%s (-in +out):\n%s", name, diff)
		}
	}
}

// TestRowGolden pins the bytes on disk: a change here needs a new rowVersion.
func TestRowGolden(t *testing.T) {
	golden(t, "row.golden", fullRow.Append(nil))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(hex.EncodeToString(got)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(got) != strings.TrimSpace(string(want)) {
		t.Errorf("%s: the bytes changed:\n was %s now %x", name, want, got)
	}
}

// everyKind is one command of each kind with every field set.
func everyKind() []*command.Command {
	id := &command.ID{Tenant: "t", Scope: "s", Key: []byte("k")}
	answer := &command.Response{Status: 201, Headers: []*command.Header{{Name: []byte("A"), Value: []byte("b")}}, Body: []byte("c"), BodyOmitted: true, Reference: "d"}
	return []*command.Command{
		{NotAfterMs: 9, Kind: &command.Command_Reserve{Reserve: &command.Reserve{Id: id, Fingerprint: []byte("f"), Owner: "o", LeaseMs: 1, RetentionMs: 2, TombstoneMs: 3, Retry: true, Takeover: 4, MaxKeys: 5}}},
		{Kind: &command.Command_Complete{Complete: &command.Complete{Id: id, Token: 1, Response: answer, RetentionMs: 2}}},
		{Kind: &command.Command_Release{Release: &command.Release{Id: id, Token: 1, RememberMs: 2}}},
		{Kind: &command.Command_Cancel{Cancel: &command.Cancel{Id: id, Owner: "o", RememberMs: 2}}},
		{Kind: &command.Command_Renew{Renew: &command.Renew{Id: id, Token: 1, LeaseMs: 2, Checkpoint: []byte("3"), SetCheckpoint: true}}},
		{Kind: &command.Command_Resolve{Resolve: &command.Resolve{Id: id, SawToken: 1, Response: answer, Force: true}}},
		{Kind: &command.Command_Forget{Forget: &command.Forget{Id: id, SawToken: 1, Force: true}}},
		{Kind: &command.Command_Expire{Expire: &command.Expire{Limit: 1}}},
		{Kind: &command.Command_Mark{Mark: &command.Mark{}}},
		{Kind: &command.Command_Verdict{Verdict: &command.Verdict{MarkIndex: 1, History: 2}}},
		{Kind: &command.Command_Found{Found: &command.Found{ClusterId: "c", FirstToken: 1}}},
		{Kind: &command.Command_Tick{Tick: &command.Tick{}}},
	}
}

// TestCommandGolden pins the log's language: bytes that an older release wrote must be read for ever.
func TestCommandGolden(t *testing.T) {
	entry := &command.Entry{Version: fsm.Version, StampMs: 1_800_000_000_000, Commands: everyKind()}
	got, err := proto.MarshalOptions{Deterministic: true}.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "entry.golden", got)
	back, err := fsm.DecodeEntry(got)
	if err != nil || !proto.Equal(entry, back) {
		t.Errorf("decoding the golden entry: %v, equal %v", err, proto.Equal(entry, back))
	}
	kinds := (&command.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields().Len()
	if kinds != len(entry.Commands) {
		t.Errorf("the golden entry has %d kinds of %d: add the new kind", len(entry.Commands), kinds)
	}
}

// TestUnknownCommandStops: what a newer release wrote is never skipped.
func TestUnknownCommandStops(t *testing.T) {
	newKind := append([]byte{0x08, 0x01, 0x1a, 0x03}, 0xfa, 0x07, 0x00) // commands{field 127: ""}
	newVersion, _ := proto.Marshal(&command.Entry{Version: fsm.Version + 1})
	for name, data := range map[string][]byte{"kind": newKind, "version": newVersion} {
		if _, err := fsm.DecodeEntry(data); !errors.Is(err, fsm.ErrUnknownCommand) {
			t.Errorf("%s: %v, want ErrUnknownCommand", name, err)
		}
	}
}

// TestMachineIsPure: nothing in the machine can read a clock, a file, a socket or chance.
func TestMachineIsPure(t *testing.T) {
	allowed := map[string]bool{"bytes": true, "cmp": true, "encoding/binary": true, "errors": true, "fmt": true, "slices": true, "onced": true, "onced/fsm/command": true,
		"github.com/cespare/xxhash/v2": true, "google.golang.org/protobuf/proto": true}
	files, _ := filepath.Glob("*.go")
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range f.Imports {
			if path := strings.Trim(imported.Path.Value, `"`); !allowed[path] {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}

func FuzzDecodeRow(f *testing.F) {
	f.Add(fullRow.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		row, err := fsm.DecodeRow(b)
		if err != nil {
			if !errors.Is(err, fsm.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := fsm.DecodeRow(row.Append(nil))
		if err != nil || !cmp.Equal(row, again) {
			t.Fatalf("a row does not survive its own encoding: %v", err)
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add([]byte{1, 0, 201, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := fsm.DecodeResponse(b); err != nil && !errors.Is(err, fsm.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeEntry(f *testing.F) {
	data, _ := proto.Marshal(&command.Entry{Version: fsm.Version, Commands: everyKind()})
	f.Add(data)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := fsm.DecodeEntry(b); err != nil && !errors.Is(err, fsm.ErrCorrupt) && !errors.Is(err, fsm.ErrUnknownCommand) {
			t.Fatal(err)
		}
	})
}
