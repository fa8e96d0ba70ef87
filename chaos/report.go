//go:build linux

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// result is what is known by now.
func (c *campaign) result() result {
	r := resultOf(c.Seed, c.sums, c.usable)
	r.Began, r.Containers, r.LeftOut = c.begun.UTC().Format(time.RFC3339), c.Compose, append(r.LeftOut, c.leftOut...)
	r.Remarks = append(append(r.Remarks, c.past...), c.remarks...)
	for _, f := range c.found {
		r.Violations = append(r.Violations, f.String())
	}
	return r
}

// report tells a person what was done and what was found.
func (c *campaign) report(w io.Writer, r result) {
	for _, p := range r.Logs {
		fmt.Fprintf(w, "\nSeed %d, log %s, %s\n", r.Seed, p.Log, p.sentences())
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "FAULT\tALONE\tLASTED\tPAUSE IN WRITES\tWORST\tWITH ANOTHER\tLASTED\tPAUSE\tWORST\t")
		for _, f := range p.Faults {
			fmt.Fprintf(t, "%s\t%s\t%s\t\n", f.Fault, f.Alone.join("\t"), f.Mixed.join("\t"))
		}
		t.Flush()
		if len(p.NeverAlone) > 0 {
			fmt.Fprintf(w, "NEVER ALONE, the run was too short for all: %s\n", strings.Join(p.NeverAlone, ", "))
		}
		if p.Undecided > 0 {
			fmt.Fprintf(w, "NOT DECIDED in %s each: the order of %d keys.\n", orderTime, p.Undecided)
		}
	}
	fmt.Fprintln(w, "\nLasted and pause are medians; the pause is the longest between two acknowledged writes of any client.")
	for _, text := range r.Remarks {
		fmt.Fprintf(w, "Remark: %s\n", text)
	}
	if c.Out != "" {
		fmt.Fprintf(w, "The same is in %s and %s.\n", filepath.Join(c.Out, "campaign.md"), filepath.Join(c.Out, "campaign.json"))
	}
	if len(r.Violations) == 0 {
		fmt.Fprintf(w, "\nNo violation.\n")
		return
	}
	fmt.Fprintf(w, "\nVIOLATIONS: %d. Seed %d, round %d, log %s. Histories and pictures are in %s, the logs in %s.\n", len(r.Violations), c.Seed, c.rounds,
		c.cluster.LogStore, filepath.Join(c.dir, "violation"), c.cluster.Dir)
	for i, text := range r.Violations {
		if i == 20 {
			fmt.Fprintf(w, "  … and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Fprintf(w, "  %s\n", text)
	}
}
