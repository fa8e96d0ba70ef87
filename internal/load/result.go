package load

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"onced/internal/histogram"
	"onced/internal/progress"
)

// Result is what a run measured.
type Result struct {
	Mode        Mode           `json:"mode"`
	Prefix      string         `json:"key_prefix"`
	Seconds     float64        `json:"seconds"`
	Concurrency int            `json:"concurrency"`
	Nodes       int            `json:"nodes"`
	BodyBytes   int            `json:"body_bytes"`
	Pairs       *Figures       `json:"pairs,omitempty"` // reserve and complete together
	Reserve     *Figures       `json:"reserve,omitempty"`
	Complete    *Figures       `json:"complete,omitempty"`
	Replays     *Figures       `json:"replays,omitempty"`
	Errors      map[string]int `json:"errors"` // by problem code
	Wrong       int            `json:"wrong"`  // answers that broke a promise
	Example     string         `json:"wrong_example,omitempty"`
}

// Figures are of one kind of call. Times are in milliseconds.
type Figures struct {
	Count     uint64  `json:"count"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P90       float64 `json:"p90_ms"`
	P99       float64 `json:"p99_ms"`
	P999      float64 `json:"p999_ms"`
	Max       float64 `json:"max_ms"`
}

func newResult(r *run, callers []*caller, took time.Duration) Result {
	result := Result{Mode: r.Mode, Prefix: r.prefix, Seconds: took.Seconds(), Concurrency: len(callers), Nodes: len(r.keepers), BodyBytes: r.BodyBytes, Errors: map[string]int{}}
	for _, c := range callers {
		for code, n := range c.errors {
			result.Errors[string(code)] += n
		}
		if result.Wrong += c.wrong; c.example != "" {
			result.Example = c.example
		}
	}
	result.Pairs, result.Reserve, result.Complete = figures(&r.took.pairs, took), figures(&r.took.reserve, took), figures(&r.took.complete, took)
	result.Replays = figures(&r.took.replays, took)
	return result
}

// figures returns nil where nothing was measured.
func figures(h *histogram.Histogram, took time.Duration) *Figures {
	n := h.Count()
	if n == 0 {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return &Figures{
		Count: n, PerSecond: float64(n) / took.Seconds(),
		P50: ms(h.Quantile(0.5)), P90: ms(h.Quantile(0.9)), P99: ms(h.Quantile(0.99)), P999: ms(h.Quantile(0.999)), Max: ms(h.Max()),
	}
}

// Err returns what must not be overlooked: wrong answers, or none at all.
func (r Result) Err() error {
	switch {
	case r.Wrong > 0:
		return fmt.Errorf("%w: %d, such as: %s", ErrWrong, r.Wrong, r.Example)
	case r.Pairs == nil && r.Replays == nil:
		return fmt.Errorf("no call succeeded (%s)", r.errors())
	}
	return nil
}

// errors is the number of each problem, in one line.
func (r Result) errors() string {
	if len(r.Errors) == 0 {
		return "no errors"
	}
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		parts = append(parts, progress.Thousands(r.Errors[code])+" "+code)
	}
	return strings.Join(parts, ", ")
}

// WriteJSON writes the result as one line of JSON.
func (r Result) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteTable writes the result for people.
func (r Result) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s for %.1f s, answers of %s bytes, keys %s-*\n\n", count(r.Concurrency, "caller"), count(r.Nodes, "node"), r.Seconds,
		progress.Thousands(r.BodyBytes), r.Prefix)
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tcount\tper second\tp50\tp90\tp99\tp99.9\tmax\t")
	row := func(name string, f *Figures) {
		if f != nil {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, progress.Thousands(int(f.Count)), progress.Thousands(int(f.PerSecond+0.5)),
				milliseconds(f.P50), milliseconds(f.P90), milliseconds(f.P99), milliseconds(f.P999), milliseconds(f.Max))
		}
	}
	row("pair", r.Pairs)
	row("reserve", r.Reserve)
	row("complete", r.Complete)
	row("replay", r.Replays)
	t.Flush()
	fmt.Fprintf(&b, "\n%s\n", r.errors())
	_, err := io.WriteString(w, b.String())
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return progress.Thousands(n) + " " + what + "s"
}

func milliseconds(ms float64) string {
	if ms < 10 {
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
