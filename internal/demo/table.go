package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"onced/internal/progress"
)

// outcome is one column of the table: a workload and its judgement.
type outcome struct {
	tally   tally
	verdict verdict
}

// report is everything that the table tells.
type report struct {
	options Options
	with    outcome
	without outcome
	kill    *failover // nil without --kill
}

// write prints the table, what needs an explanation, and the verdict.
func (r *report) write(w io.Writer) error {
	var b strings.Builder
	r.table(&b)
	r.notes(&b)
	fmt.Fprintf(&b, "\n%s\n", r.sentence())
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *report) table(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name, with, without string) { fmt.Fprintf(t, "%-24s\t%s\t%s\t\n", name, with, without) }
	a, o := r.with, r.without
	fmt.Fprintln(b)
	row("", "with onced", "without")
	row("keys", thousands(r.options.Keys), thousands(r.options.Keys))
	row("requests", thousands(a.tally.requests), thousands(o.tally.requests))
	row("answers lost on purpose", thousands(a.tally.lost), thousands(o.tally.lost))
	row("answers replayed", thousands(a.tally.replayed), thousands(o.tally.replayed))
	row("charges", thousands(a.verdict.charges), thousands(o.verdict.charges))
	row("keys charged twice", thousands(a.verdict.doubles), thousands(o.verdict.doubles))
	row("conflicts refused", fmt.Sprintf("%s of %s", thousands(a.verdict.conflicts), thousands(a.verdict.reused)), "nobody looks")
	row("unique  p50 / p99", a.tally.unique.String(), o.tally.unique.String())
	row("repeats p50 / p99", a.tally.repeats.String(), o.tally.repeats.String())
	row("sent again on advice", thousands(a.tally.retried()), thousands(o.tally.retried()))
	row("outcomes unknown", thousands(a.verdict.unknowns()), "nobody looks")
	row("time", seconds(a.tally.took), seconds(o.tally.took))
	t.Flush()
}

// notes explain what a reader would ask about.
func (r *report) notes(b *strings.Builder) {
	if v := r.with.verdict; v.reused > 0 {
		fmt.Fprintf(b, "\nConflicts: at the end %s sent again for another amount, beside the requests above.", count(v.reused, "key was", "keys were"))
	}
	b.WriteString("\nTimes run from a request's first send to its answer, repeats and pauses on the way included.\n")
	if f := r.kill; f != nil && f.err == nil {
		fmt.Fprintf(b, "Killed: %s, the leader, with SIGKILL after %s requests; %s led %s later, %s was back after %s.\n",
			f.killed, thousands(f.after), f.next, f.newLeader.Round(time.Millisecond), f.killed, f.back.Round(time.Millisecond))
	}
	if t := r.with.tally; t.retried() > 0 {
		var parts []string
		for _, reason := range t.reasons() {
			parts = append(parts, fmt.Sprintf("%s %s", thousands(t.retries[reason]), reason))
		}
		fmt.Fprintf(b, "Sent again, with the same key: %s.\n", strings.Join(parts, ", "))
	}
	r.noteUnknown(b)
	for i, fault := range r.with.verdict.faults {
		if i == maxFaults {
			fmt.Fprintf(b, "FAULT: and %s more\n", thousands(len(r.with.verdict.faults)-maxFaults))
			break
		}
		fmt.Fprintf(b, "FAULT: %s\n", fault)
	}
}

// noteUnknown explains the outcomes that nobody can tell.
func (r *report) noteUnknown(b *strings.Builder) {
	v := r.with.verdict
	if v.unknowns() == 0 {
		return
	}
	why := "the answer could not be stored in time"
	if r.kill != nil {
		why = "the node was killed between sending the charge and storing its answer"
	}
	fmt.Fprintf(b, "Unknown, for %s: %s. The provider made %s of these charges,\n"+
		"once, and %s not at all. onced cannot know which, says so (outcome_unknown) and never sends one a second time.\n",
		count(v.unknowns(), "key", "keys"), why, thousands(v.unknownCharged), thousands(v.unknownNot))
}

// sentence is the verdict.
func (r *report) sentence() string {
	v := r.with.verdict
	if len(v.faults) > 0 {
		return fmt.Sprintf("FAILED: %s charged twice, %s found in all.",
			count(v.doubles, "key was", "keys were"), count(len(v.faults), "fault was", "faults were"))
	}
	return fmt.Sprintf("With onced no key was charged twice and no stored answer was lost; without it %s charged twice or more.",
		count(r.without.verdict.doubles, "key was", "keys were"))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

func (p percentiles) String() string {
	if p.n == 0 {
		return "none"
	}
	return milliseconds(p.p50) + " / " + milliseconds(p.p99)
}

func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func thousands(n int) string { return progress.Thousands(n) }
