package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"onced/internal/progress"
)

// input is one of Inputs, for people.
type input struct {
	flag, title string
	value       *float64
	write       func(float64) string
	how         string
}

func (in *Inputs) list() []input {
	return []input{
		{"record", "table, for each key with an answer of 300 bytes", &in.Record, bytes, "measured"},
		{"log", "log entries, for each pair", &in.Log, bytes, "measured"},
		{"log-written", "written by a log of kind `wal`, for each pair", &in.LogWritten, bytes, "measured"},
		{"flush", "written by flushes, for each byte of a record", &in.Flush, plain, "fitted"},
		{"level", "written by each level, for each byte of a record", &in.Level, plain, "fitted"},
		{"base", "first level", &in.Base, bytes, "code"},
		{"between", "log between two snapshots", &in.Between, bytes, "code"},
		{"trailing", "log kept behind a snapshot", &in.Trailing, bytes, "code"},
		{"held", "log held while a table is on its way", &in.Held, bytes, "code"},
		{"memory", "resident memory of a node", &in.Memory, bytes, "measured"},
		{"processor", "processor time of all nodes, for each pair", &in.Processor, seconds, "measured"},
		{"apply", "processor time of applying, for each pair on each node", &in.Apply, seconds, "measured"},
		{"stream", "a new member gets and unpacks its table, a second", &in.Stream, bytes, "guess"},
		{"read", "one read of a disk", &in.Read, seconds, "guess"},
		{"sync", "one sync of a disk", &in.Sync, seconds, "guess"},
	}
}

// Markdown is the tables of docs/scale.md.
func (in *Inputs) Markdown() string {
	var b strings.Builder
	b.WriteString("| input | value | known by | flag |\n|---|---:|---|---|\n")
	for _, p := range in.list() {
		fmt.Fprintf(&b, "| %s | %s | %s | `--%s` |\n", p.title, p.write(*p.value), p.how, p.flag)
	}
	b.WriteString("\n")
	in.loads(&b)
	b.WriteString("\n")
	in.groups(&b)
	return b.String()
}

// loads is a column for each load, all of it in one group.
func (in *Inputs) loads(b *strings.Builder) {
	b.WriteString("| one group, each node |")
	for _, l := range Loads() {
		b.WriteString(" " + l.Title + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(Loads())) + "\n")
	row := func(title string, of func(Load) string) {
		fmt.Fprintf(b, "| %s |", title)
		for _, l := range Loads() {
			b.WriteString(" " + of(l) + " |")
		}
		b.WriteString("\n")
	}
	row("new keys a second", func(l Load) string { return plain(l.Rate) })
	row("disk", func(l Load) string { return bytes(in.Disk(l)) })
	row("disk while a snapshot comes in", func(l Load) string { return bytes(3*in.Table(l) + in.Held + in.Trailing) })
	row("memory", func(Load) string { return bytes(in.Memory) })
	row("written by the table, for each key", func(l Load) string { return bytes(in.TableWritten(l)) })
	row("written by log and table, for each byte kept", func(l Load) string { return plain((in.LogWritten + in.TableWritten(l)) / in.Record) })
	row("written, a second", func(l Load) string { return bytes(in.WrittenPerSecond(l)) })
	row("processors, of all nodes", func(l Load) string { return plain(in.Processors(l)) })
	row("share of what one reader of the disk can apply", func(l Load) string { return plain(100*l.Rate/in.MostRate()) + " %" })
	row("a new member has the table after", func(l Load) string { return seconds(in.Replace(l)) })
	row("log that came meanwhile", func(l Load) string { return bytes(in.Grown(l)) })
	row("which may be at most", func(Load) string { return bytes(in.Kept()) })
	row("so it comes back", func(l Load) string { return map[bool]string{true: "yes", false: "**no**"}[in.ComesBack(l)] })
	row("keys up to which one does, at that rate", func(l Load) string { return many(in.MostKeys(l)) })
	row("groups at least", func(l Load) string { return fmt.Sprint(in.Groups(l)) })
}

// groups is the last load, split.
func (in *Inputs) groups(b *strings.Builder) {
	l := Loads()[len(Loads())-1]
	fmt.Fprintf(b, "| %s, groups | keys of each | table of each | new member, each | log meanwhile | comes back | syncs a second, each node | largest group over mean |\n|---:|---:|---:|---:|---:|---|---:|---:|\n", l.Title)
	in1 := counted()
	counts := []int{1, 4, 16, in.Groups(l), 64}
	slices.Sort(counts)
	for _, n := range slices.Compact(counts) {
		s := l.Share(n)
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s | %v | %s | %.3f |\n", n, many(s.Keys), bytes(in.Table(s)), seconds(in.Replace(s)), bytes(in.Grown(s)),
			map[bool]string{true: "yes", false: "no"}[in.ComesBack(s)], plain(in.Syncs(l, n)), spread(in1, n))
	}
}

// three is v with three digits.
func three(v float64) string {
	if v >= 100 {
		return progress.Thousands(int(math.Round(v)))
	}
	return fmt.Sprintf("%.3g", v)
}

func plain(v float64) string { return three(v) }

func many(v float64) string { return three(v/1e6) + " million" }

func bytes(v float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for v >= 10_000 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	return three(v) + " " + units[i]
}

func seconds(v float64) string {
	switch {
	case v < 1e-3:
		return three(v*1e6) + " µs"
	case v < 1:
		return three(v*1e3) + " ms"
	case v < 600:
		return three(v) + " s"
	case v < 36_000:
		return three(v/60) + " min"
	}
	return three(v/3600) + " h"
}
