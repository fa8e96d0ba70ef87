package fsm_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"onced"
	"onced/fsm"
	"onced/fsm/command"
	"onced/fsm/memtable"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// TestTranscripts runs the scripts of testdata. A line is a time, a verb and its
// arguments; what it came to stands below it, behind "> ". Read them: they are the machine's
// behaviour, one rule of the contract a file.
func TestTranscripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no transcripts in testdata")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := transcript(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want), got); diff != "" && !*update {
				t.Errorf("the machine answers otherwise (-file +now):\n%s", diff)
			}
		})
	}
}

func transcript(t *testing.T, script string) string {
	t.Helper()
	s := &scripted{table: memtable.New()}
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		if strings.HasPrefix(line, "> ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || line[0] == '#' {
			continue
		}
		fmt.Fprintf(&out, "> %s\n", s.run(t, line))
	}
	return out.String()
}

// scripted is a table that is driven by lines.
type scripted struct {
	table *memtable.Table
	index uint64
	clock int64
}

func (s *scripted) run(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	at, err := time.ParseDuration(words[0])
	if err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
	s.clock = at.Milliseconds()
	key, args := "", map[string]string{}
	for i, w := range words[2:] {
		name, value, found := strings.Cut(w, "=")
		if !found && i == 0 {
			key = name
			continue
		}
		args[name] = value
	}
	if words[1] == "get" {
		row, _ := s.table.Row(scriptID(key))
		return describe(row, s.clock)
	}
	c := scriptCommand(t, words[1], key, args)
	if at, ok := args["not_after"]; ok {
		d, _ := time.ParseDuration(at)
		c.NotAfterMs = d.Milliseconds()
	}
	s.index++
	results, err := fsm.Apply(s.table, s.index, &command.Entry{Version: fsm.Version, StampMs: s.clock, Commands: []*command.Command{c}})
	if err != nil {
		return "FATAL " + err.Error()
	}
	return results[0].Outcome.String() + describeIf(results[0].Row, results[0].Now)
}

func scriptID(key string) onced.ID { return onced.ID{Tenant: "t", Key: onced.Key(key)} }

func scriptCommand(t *testing.T, verb, key string, args map[string]string) *command.Command {
	t.Helper()
	id := &command.ID{Tenant: "t", Key: []byte(key)}
	token, _ := strconv.ParseUint(args["token"], 10, 64)
	ms := func(name string, or int64) int64 {
		if args[name] == "" {
			return or
		}
		d, err := time.ParseDuration(args[name])
		if err != nil {
			t.Fatalf("%s=%s: %v", name, args[name], err)
		}
		return d.Milliseconds()
	}
	var answer *command.Response
	if body, ok := args["answer"]; ok {
		answer = &command.Response{Status: 201, Body: []byte(body)}
	}
	_, force := args["force"]
	switch verb {
	case "reserve":
		takeover, _ := strconv.ParseUint(args["takeover"], 10, 64)
		quota, _ := strconv.ParseInt(args["max_keys"], 10, 64)
		return &command.Command{Kind: &command.Command_Reserve{Reserve: &command.Reserve{
			Id: id, Fingerprint: []byte(args["fp"]), Owner: args["owner"], LeaseMs: ms("lease", 30_000), RetentionMs: ms("retention", 3_600_000),
			TombstoneMs: ms("tombstone", 0), Retry: args["on_lapse"] == "retry", Takeover: takeover, MaxKeys: quota}}}
	case "complete":
		return &command.Command{Kind: &command.Command_Complete{Complete: &command.Complete{Id: id, Token: token, Response: answer, RetentionMs: ms("retention", 0)}}}
	case "release":
		return &command.Command{Kind: &command.Command_Release{Release: &command.Release{Id: id, Token: token, RememberMs: ms("remember", 60_000)}}}
	case "cancel":
		return &command.Command{Kind: &command.Command_Cancel{Cancel: &command.Cancel{Id: id, Owner: args["owner"], RememberMs: ms("remember", 60_000)}}}
	case "renew":
		_, set := args["checkpoint"]
		return &command.Command{Kind: &command.Command_Renew{Renew: &command.Renew{Id: id, Token: token, LeaseMs: ms("lease", 0), Checkpoint: []byte(args["checkpoint"]), SetCheckpoint: set}}}
	case "resolve":
		return &command.Command{Kind: &command.Command_Resolve{Resolve: &command.Resolve{Id: id, SawToken: token, Response: answer, Force: force}}}
	case "forget":
		return &command.Command{Kind: &command.Command_Forget{Forget: &command.Forget{Id: id, SawToken: token, Force: force}}}
	case "expire":
		return &command.Command{Kind: &command.Command_Expire{Expire: &command.Expire{Limit: 100}}}
	case "mark":
		return &command.Command{Kind: &command.Command_Mark{Mark: &command.Mark{}}}
	case "tick":
		return &command.Command{Kind: &command.Command_Tick{Tick: &command.Tick{}}}
	case "found":
		return &command.Command{Kind: &command.Command_Found{Found: &command.Found{ClusterId: args["cluster"], FirstToken: token}}}
	}
	t.Fatalf("no verb %q", verb)
	return nil
}

func describeIf(row *fsm.Row, now int64) string {
	if row == nil {
		return ""
	}
	return ": " + describe(row, now)
}

// describe is a record in one line.
func describe(row *fsm.Row, now int64) string {
	state := row.StateAt(now)
	if state == onced.StateAbsent {
		return state.String()
	}
	s := fmt.Sprintf("%s attempt=%d token=%d owner=%s", state, row.Attempt, row.Token, row.Owner)
	switch {
	case row.Settled():
		s += fmt.Sprintf(" completed=%v until=%v", ms(row.CompletedAt), ms(row.ExpiresAt()))
	default:
		s += fmt.Sprintf(" lease_until=%v", ms(row.LeaseUntil))
	}
	if row.Checkpoint != nil {
		s += " checkpoint=" + string(row.Checkpoint)
	}
	if row.Phase == fsm.PhaseCompleted {
		answer, err := fsm.DecodeResponse(row.Response)
		if err != nil {
			return err.Error()
		}
		s += fmt.Sprintf(" answer=%d:%s", answer.Status, answer.Body)
	}
	return s
}

func ms(v int64) time.Duration { return time.Duration(v) * time.Millisecond }
