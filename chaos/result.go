//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"onced/chaos/check"
	"onced/chaos/history"
	"onced/internal/progress"
)

// tally is how much was judged.
type tally struct {
	Ordered int `json:"calls_ordered"`
	Keys    int `json:"keys_reserved"`
	Grants  int `json:"reservations"`
	Records int `json:"records_read_on_every_node"`
	Sights  int `json:"records_seen_on_the_way"`
	Charges int `json:"charges_asked_for"`
	Orphans int `json:"reserves_refused_by_503"`
}

func (t *tally) add(other tally) {
	t.Ordered += other.Ordered
	t.Keys += other.Keys
	t.Grants += other.Grants
	t.Records += other.Records
	t.Sights += other.Sights
	t.Charges += other.Charges
	t.Orphans += other.Orphans
}

// sum is what was done and found with one kind of log.
type sum struct {
	rounds     int
	lasted     time.Duration // rounds and checks
	calls      int
	undecided  int // keys whose order porcupine did not find in time
	violations int
	writes     []int64
	stops      []int64 // when the clients stopped; a pause ends there too
	windows    []history.Window
	judged     tally
}

func (s *sum) add(other *sum) {
	s.rounds += other.rounds
	s.lasted += other.lasted
	s.calls += other.calls
	s.undecided += other.undecided
	s.violations += other.violations
	s.writes = append(s.writes, other.writes...)
	s.stops = append(s.stops, other.stops...)
	s.windows = append(s.windows, other.windows...)
	s.judged.add(other.judged)
}

// result is a campaign, for those who read and for programs. Times are seconds.
type result struct {
	Seed       uint64   `json:"seed"`
	Began      string   `json:"began"`
	Containers bool     `json:"containers"`
	Logs       []part   `json:"logs"` // of all kinds of log together, and then of each where there are two
	LeftOut    []string `json:"faults_left_out"`
	Remarks    []string `json:"remarks"`
	Violations []string `json:"violations"`
}

// part is a sum in a result.
type part struct {
	Log        string   `json:"log"`
	Seconds    float64  `json:"seconds"`
	Rounds     int      `json:"rounds"`
	Calls      int      `json:"calls"`
	Writes     int      `json:"writes_acknowledged"`
	Harmed     int      `json:"faults_injected"` // two at once are one time
	Mixed      int      `json:"two_at_once"`
	Violations int      `json:"violations"`
	Undecided  int      `json:"keys_of_undecided_order"`
	Judged     tally    `json:"judged"`
	Faults     []row    `json:"faults"`
	NeverAlone []string `json:"faults_never_alone"`
}

// row is what one fault did.
type row struct {
	Fault string `json:"fault"`
	Alone pauses `json:"alone"`
	Mixed pauses `json:"with_another"`
}

type pauses struct {
	Times        int     `json:"times"`
	LastedMedian float64 `json:"lasted_median"`
	PauseMedian  float64 `json:"pause_median"`
	PauseWorst   float64 `json:"pause_worst"`
}

// resultOf sums up what there is by now. faults are the names of those that the machine can do.
func resultOf(seed uint64, sums map[string]*sum, faults []string) result {
	r := result{Seed: seed, LeftOut: []string{}, Remarks: []string{}, Violations: []string{}}
	kinds := slices.Sorted(maps.Keys(sums))
	if len(kinds) > 1 {
		all := &sum{}
		for _, kind := range kinds {
			all.add(sums[kind])
		}
		r.Logs = append(r.Logs, partOf(strings.Join(kinds, " and "), all, faults))
	}
	for _, kind := range kinds {
		r.Logs = append(r.Logs, partOf(kind, sums[kind], faults))
	}
	return r
}

func partOf(log string, s *sum, faults []string) part {
	p := part{Log: log, Seconds: s.lasted.Round(time.Second).Seconds(), Rounds: s.rounds, Calls: s.calls, Writes: len(s.writes), Harmed: len(s.windows),
		Violations: s.violations, Undecided: s.undecided, Judged: s.judged, Faults: []row{}, NeverAlone: []string{}}
	alone := map[string]bool{}
	for _, w := range s.windows {
		if strings.Contains(w.Fault, check.Together) {
			p.Mixed++
		} else {
			alone[w.Fault] = true
		}
	}
	for _, g := range check.Gaps(slices.Concat(s.writes, s.stops), s.windows) {
		p.Faults = append(p.Faults, row{g.Fault, pausesOf(g.Alone), pausesOf(g.Mixed)})
	}
	for _, f := range faults {
		if !alone[f] {
			p.NeverAlone = append(p.NeverAlone, f)
		}
	}
	return p
}

func pausesOf(p check.Pauses) pauses {
	rounded := func(d time.Duration) float64 { return d.Round(10 * time.Millisecond).Seconds() }
	return pauses{p.Times, rounded(p.Lasted), rounded(p.Median), rounded(p.Worst)}
}

// sentences say what was done and judged, in words.
func (p part) sentences() string {
	n := progress.Thousands
	return fmt.Sprintf("%s in %d rounds: %s calls, %s writes acknowledged, %d times harmed (%d times by two faults at once).\n"+
		"Judged: the order of %s calls, %s reservations of %s keys, %s records on every node, %s records seen on the way, %s charges asked for, %s reserves refused by 503.\n",
		time.Duration(p.Seconds*float64(time.Second)), p.Rounds, n(p.Calls), n(p.Writes), p.Harmed, p.Mixed,
		n(p.Judged.Ordered), n(p.Judged.Grants), n(p.Judged.Keys), n(p.Judged.Records), n(p.Judged.Sights), n(p.Judged.Charges), n(p.Judged.Orphans))
}

// markdown writes the result as a page whose tables can be quoted.
func (r result) markdown(w io.Writer) {
	nodes := "processes"
	if r.Containers {
		nodes = "containers"
	}
	fmt.Fprintf(w, "# Campaign with seed %d\n\nBegan %s, on three %s. Violations: %d.\n", r.Seed, r.Began, nodes, len(r.Violations))
	for _, p := range r.Logs {
		fmt.Fprintf(w, "\n## Log: %s\n\n%sViolations: %d.\n\n", p.Log, p.sentences(), p.Violations)
		fmt.Fprint(w, "| fault | alone | lasted (median) | longest pause (median) | worst | with another | lasted (median) | longest pause (median) | worst |\n|---|---|---|---|---|---|---|---|---|\n")
		for _, f := range p.Faults {
			fmt.Fprintf(w, "| %s | %s | %s |\n", f.Fault, f.Alone.join(" | "), f.Mixed.join(" | "))
		}
		if len(p.NeverAlone) > 0 {
			fmt.Fprintf(w, "\nNever alone: %s.\n", strings.Join(p.NeverAlone, ", "))
		}
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"Left out", r.LeftOut}, {"Remarks", r.Remarks}, {"Violations", r.Violations}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(w, "\n## %s\n\n- %s\n", list.title, strings.Join(list.lines, "\n- "))
		}
	}
}

// join is four cells.
func (p pauses) join(between string) string {
	if p.Times == 0 {
		return strings.Join([]string{"–", "", "", ""}, between)
	}
	return strings.Join([]string{fmt.Sprint(p.Times), seconds(p.LastedMedian), seconds(p.PauseMedian), seconds(p.PauseWorst)}, between)
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

// write writes the result into a directory, as campaign.md and campaign.json.
func (r result) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the directory for the result: %w", err)
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	var page strings.Builder
	r.markdown(&page)
	for name, text := range map[string]string{"campaign.json": string(raw) + "\n", "campaign.md": page.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return nil
}
