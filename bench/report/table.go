package report

import (
	"fmt"
	"slices"
	"strings"

	"onced/internal/progress"
)

// titles are the names of systems for people.
var titles = map[string]string{"onced": "onced", "etcd": "etcd", "redis": "Redis", "postgres": "PostgreSQL", "memory": "memory (ceiling)"}

// Markdown is the whole report.
func (r *Results) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s. %s\n\n", r.Begun.UTC().Format("2006-01-02 15:04 MST"), r.Settings, r.Machine)
	if len(r.Versions) > 0 {
		var said []string
		for _, s := range r.Systems {
			if v := r.Versions[s]; v != "" {
				said = append(said, titles[s]+" "+v)
			}
		}
		fmt.Fprintf(&b, "Versions: %s.\n\n", strings.Join(said, ", "))
	}
	for _, s := range sortedKeys(r.Skipped) {
		fmt.Fprintf(&b, "Skipped: %s: %s.\n\n", titles[s], r.Skipped[s])
	}
	r.table(&b)
	r.bars(&b)
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "\nFAILED: %s\n", strings.ReplaceAll(f, "\n", " "))
	}
	return b.String()
}

// table has a row for each metric, a column for each system, and how many times better onced is.
func (r *Results) table(b *strings.Builder) {
	var others []string
	for _, s := range r.Systems {
		if s != "onced" && s != "memory" {
			others = append(others, s)
		}
	}
	b.WriteString("| |")
	for _, s := range r.Systems {
		fmt.Fprintf(b, " %s |", titles[s])
	}
	for _, s := range others {
		fmt.Fprintf(b, " × %s |", titles[s])
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(r.Systems)+len(others)) + "\n")
	for _, m := range Metrics() {
		if len(r.Samples[m.Key]) == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s |", title(m))
		for _, s := range r.Systems {
			cell := "–"
			if v, ok := r.Value(m, s); ok {
				cell = number(v)
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		for _, s := range others {
			cell := ""
			if ratio, ok := r.Ratio(m.Key, s); ok && !m.Fault && m.Unit != "" {
				cell = fmt.Sprintf("%.2f", ratio)
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		b.WriteString("\n")
	}
}

func (r *Results) bars(b *strings.Builder) {
	b.WriteString("\n| bar | measured | |\n|---|---:|---|\n")
	for _, bar := range r.Bars() {
		got := bar.Got
		if !bar.Known {
			got = "–"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", bar.Text, got, bar.Verdict())
	}
}

func title(m Metric) string {
	switch m.Unit {
	case "":
		return m.Title
	case "/s":
		return m.Title + ", a second"
	}
	return m.Title + ", " + m.Unit
}

// number writes v with about three digits.
func number(v float64) string {
	size := max(v, -v)
	switch {
	case v == float64(int(v)) && size < 1000:
		return fmt.Sprint(int(v))
	case size >= 1000:
		if v < 0 {
			return "-" + progress.Thousands(int(-v+0.5))
		}
		return progress.Thousands(int(v + 0.5))
	case size >= 100:
		return fmt.Sprintf("%.0f", v)
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	case size >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func sortedKeys(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
