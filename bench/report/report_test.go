package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		want    float64
		samples []float64
	}{{0, nil}, {3, []float64{3}}, {2, []float64{3, 1, 2}}, {2.5, []float64{4, 1, 3, 2}}, {5, []float64{5, 1000, 1}}} {
		if got := Median(c.samples); got != c.want {
			t.Errorf("the median of %v is %v, expected %v", c.samples, got, c.want)
		}
	}
}

// measured are results whose figures are easy to judge.
func measured() *Results {
	r := New()
	r.Systems = []string{"onced", "etcd", "redis", "postgres"}
	for _, v := range []float64{6000, 7000, 100} {
		r.Add("pairs64.rate", "onced", v)
	}
	r.Add("pairs64.rate", "etcd", 1000)
	r.Add("pairs64.rate", "redis", 5000)
	r.Add("pairs1.p50", "onced", 3)
	r.Add("pairs1.p50", "postgres", 1.5)
	r.Add("pairs1.p50", "etcd", 6)
	r.Add("charge.double", "onced", 0)
	r.Add("charge.double", "onced", 1)
	r.Skipped["memory"] = "nobody asked"
	return r
}

func TestBars(t *testing.T) {
	want := map[string]string{
		"no key charged twice":                                 "**not met**", // two runs, one fault: a median would hide it
		"no key charged twice with the leader killed half-way": "not measured",
		"pairs ≥ 6 × etcd, 64 callers":                         "met",
		"pairs ≥ 1.5 × Redis, 64 callers":                      "**not met**",
		"1 caller: pair p50 ≤ PostgreSQL's + 2 ms":             "met",
		"1 caller: pair p50 under etcd's":                      "met",
	}
	r := measured()
	for _, b := range r.Bars() {
		if verdict, ok := want[b.Text]; ok && b.Verdict() != verdict {
			t.Errorf("%s: %s (%s), expected %s", b.Text, b.Verdict(), b.Got, verdict)
		}
		delete(want, b.Text)
	}
	for text := range want {
		t.Errorf("there is no bar %q", text)
	}
	if !r.Faults() {
		t.Error("a double charge is no fault")
	}
}

// TestFlat holds the bar of memory to what the nodes have themselves, between a fifth of the keys and all of them.
func TestFlat(t *testing.T) {
	r := measured()
	if r.flat().Known {
		t.Error("it is judged without a measurement")
	}
	r.Add("size5m.fifth", "onced", 500)
	r.Add("size5m.own", "onced", 520)
	r.Add("size5m.memory", "onced", 5000)
	if b := r.flat(); b.Verdict() != "met" {
		t.Errorf("20 MiB for 4 million keys: %s, %s", b.Got, b.Verdict())
	}
	r.Add("size5m.own", "onced", 900)
	if b := r.flat(); b.Verdict() != "**not met**" {
		t.Errorf("210 MiB for 4 million keys: %s, %s", b.Got, b.Verdict())
	}
}

// TestChoresWithoutASnapshot holds a stall that was not put to the test to be unknown.
func TestChoresWithoutASnapshot(t *testing.T) {
	r := measured()
	r.Add("chores.with_stall", "onced", 5)
	r.Add("chores.snapshots", "onced", 0)
	if b := r.chores(); b.Known {
		t.Errorf("no snapshot was taken, and it is %s", b.Verdict())
	}
}

func TestMarkdown(t *testing.T) {
	r := measured()
	r.Failures = []string{"redis: replays: refused"}
	got := r.Markdown()
	for _, want := range []string{
		"| pairs, 64 callers, a second | 6,000 | 1,000 | 5,000 | – | 6.00 | 1.20 |  |\n",
		"| pair p50, 1 caller, ms | 3 | 6 | – | 1.50 | 2.00 |  | 0.50 |\n",
		"Skipped: memory (ceiling): nobody asked.", "FAILED: redis: replays: refused",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
}

func TestJSON(t *testing.T) {
	raw, err := measured().JSON()
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Samples map[string]map[string][]float64
		Medians map[string]map[string]float64
	}
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if back.Medians["pairs64.rate"]["onced"] != 6000 || len(back.Samples["pairs64.rate"]["onced"]) != 3 {
		t.Errorf("it holds %+v", back)
	}
}

func TestRead(t *testing.T) {
	r := measured()
	data, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := back.Markdown(), r.Markdown(); got != want {
		t.Errorf("read again its report is\n%s\nexpected\n%s", got, want)
	}
	for _, bad := range []string{"", "[]", "{}"} {
		if _, err := Read([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// TestLabelsFollowTheirLines: names at the ends of lines that lie close together are apart, and in the order of the lines.
func TestLabelsFollowTheirLines(t *testing.T) {
	got := apart([]label{{"a", 0, 100}, {"b", 0, 130}, {"c", 0, 101}, {"d", 0, 99}})
	want := []label{{"d", 0, 99}, {"a", 0, 112}, {"c", 0, 125}, {"b", 0, 138}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}

func TestPlot(t *testing.T) {
	if got := New().Plot(); got != "" {
		t.Errorf("a plot of nothing: %s", got)
	}
	r := measured()
	r.Add("replays.rate", "redis", 7400)
	drawn := r.Plot()
	for d := xml.NewDecoder(strings.NewReader(drawn)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("it is no XML: %v\n%s", err, drawn)
		}
	}
	for _, want := range []string{"Redis: 7,400", ">etcd<"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("the plot lacks %q", want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 12: "12", 1234.5: "1,235", 123.45: "123", 12.345: "12.3", 1.234: "1.23", 0.25: "0.250", -2000: "-2,000"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %q, expected %q", v, got, want)
		}
	}
}
