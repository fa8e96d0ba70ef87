//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"onced/chaos/history"
)

// TestResult: what is written is of both kinds of log together and of each, and says what never came alone.
func TestResult(t *testing.T) {
	ms := int64(time.Millisecond)
	sums := map[string]*sum{
		"wal": {rounds: 1, calls: 10, writes: []int64{0, 100 * ms, 400 * ms}, stops: []int64{450 * ms}, violations: 1, windows: []history.Window{
			{Fault: "kill-all", From: 50 * ms, Until: 450 * ms}, {Fault: "cut-all + kill-all", From: 50 * ms, Until: 450 * ms}}},
		"bolt": {rounds: 2, calls: 32, writes: []int64{1000 * ms, 1700 * ms}, judged: tally{Records: 3}, windows: []history.Window{
			{Fault: "kill-all", From: 1000 * ms, Until: 1700 * ms}, {Fault: "cut-all", From: 1000 * ms, Until: 1100 * ms}}},
	}
	r := resultOf(7, sums, []string{"cut-all", "kill-all"})
	r.Violations = append(r.Violations, "records: lost")
	dir := filepath.Join(t.TempDir(), "new")
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "campaign.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back result
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Logs) != 3 {
		t.Fatalf("%d parts, expected 3: %s", len(back.Logs), raw)
	}
	for i, want := range []struct {
		log                                  string
		rounds, calls, harmed, mixed, broken int
		never                                string
		kill                                 pauses // alone
	}{
		{"bolt and wal", 3, 42, 4, 1, 1, "", pauses{2, 0.4, 0.3, 0.7}},
		{"bolt", 2, 32, 2, 0, 0, "", pauses{1, 0.7, 0.7, 0.7}},
		{"wal", 1, 10, 2, 1, 1, "cut-all", pauses{1, 0.4, 0.3, 0.3}},
	} {
		p := back.Logs[i]
		if p.Log != want.log || p.Rounds != want.rounds || p.Calls != want.calls || p.Harmed != want.harmed || p.Mixed != want.mixed || p.Violations != want.broken {
			t.Errorf("%+v, expected %+v", p, want)
		}
		if never := strings.Join(p.NeverAlone, " "); never != want.never {
			t.Errorf("%s: never alone were %q, expected %q", p.Log, never, want.never)
		}
		if kill := p.Faults[len(p.Faults)-1]; kill.Fault != "kill-all" || kill.Alone != want.kill {
			t.Errorf("%s: %+v, expected %+v", p.Log, kill, want.kill)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "campaign.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## Log: bolt and wal\n", "## Log: wal\n", "Never alone: cut-all.", "| kill-all | 2 | 0.40 s | 0.30 s | 0.70 s | 1 |", "- records: lost"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

// TestTurns: with both kinds of log each has its turn also in a short run.
func TestTurns(t *testing.T) {
	for _, tc := range []struct {
		duration, round time.Duration
		want            int
	}{{time.Hour, 25 * time.Second, 4}, {2 * time.Minute, 25 * time.Second, 1}, {50 * time.Second, 25 * time.Second, 1}, {5 * time.Minute, 25 * time.Second, 3}} {
		if got := lives(tc.duration, tc.round); got != tc.want {
			t.Errorf("a cluster lives for %d rounds of %s in %s, expected %d", got, tc.round, tc.duration, tc.want)
		}
	}
}
