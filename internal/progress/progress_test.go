package progress

import (
	"strings"
	"testing"
	"time"
)

// TestLines is about what stands in a file or a pipe: no carriage return, and a last line.
func TestLines(t *testing.T) {
	var b strings.Builder
	p := New(&b)
	p.Begin("with onced", "requests")
	for i := range 1000 {
		p.Step(i+1, 1000)
	}
	p.Say("killed %s", "n1")
	if strings.ContainsAny(b.String(), "\r█") || strings.Count(b.String(), "\n") != 2 || !strings.Contains(b.String(), "with onced: 1,000 of 1,000 requests") {
		t.Errorf("%q", b.String())
	}
}

// TestBar is about a terminal: the bar is drawn over itself and is closed before a line.
func TestBar(t *testing.T) {
	var b strings.Builder
	p := &Bar{w: &b, terminal: true}
	p.Begin("with onced", "requests")
	p.last = time.Time{}
	p.Step(500, 1000)
	p.Say("killed n1")
	p.Step(1000, 1000)
	if got := strings.Split(b.String(), "\n"); len(got) != 4 || !strings.HasPrefix(got[0], "\rwith onced") || got[1] != "killed n1" {
		t.Errorf("%q", got)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// TestTell is about the words of a caller: a shorter text leaves nothing of a longer one.
func TestTell(t *testing.T) {
	var b strings.Builder
	p := &Bar{w: &b, terminal: true}
	p.Begin("load", "")
	for _, text := range []string{"1,000 pairs", "9 pairs"} {
		p.last = time.Time{}
		p.Tell(0.5, text)
	}
	p.Finish()
	if !strings.HasSuffix(b.String(), "9 pairs     \n") || strings.Count(b.String(), "\r") != 2 {
		t.Errorf("%q", b.String())
	}
}

// TestSlowly: lines come as seldom as is asked for.
func TestSlowly(t *testing.T) {
	var b strings.Builder
	p := New(&b)
	p.Slowly(time.Hour)
	p.Begin("load", "")
	for _, ago := range []time.Duration{2 * lineEvery, 61 * time.Minute, 59 * time.Minute} {
		p.last = time.Now().Add(-ago)
		p.Tell(0.5, ago.String())
	}
	if got := b.String(); got != "load: 1h1m0s\n" {
		t.Errorf("%q", got)
	}
}
