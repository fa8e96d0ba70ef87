package demo

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"onced/internal/progress"
)

// runFake runs a small workload against a fake gateway and judges it.
func runFake(t *testing.T, fault func(f *fakeGateway)) (outcome, *execution) {
	t.Helper()
	provider, err := NewProvider(freePort, 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	f, url := newFakeGateway(t, provider.URL())
	fault(f)
	p := newPlan(60, 40, "k", 7)
	transport := newTransport(8)
	defer transport.CloseIdleConnections()
	h := &http.Client{Transport: transport}
	tell := progress.New(io.Discard)
	e := &execution{client: &client{plan: p, doors: []string{url, url}, http: h, charge: 2 * time.Millisecond}, concurrency: 8, progress: tell.Step}
	e.run(t.Context())
	reused := &execution{client: &client{plan: p.reuse(), doors: []string{url}, http: h}, concurrency: 8, progress: tell.Step}
	reused.run(t.Context())
	held := readBack(t.Context(), h, []string{url}, p, 8)
	o := outcome{newTally(p, e.results, e.took), judge(p, e.results, provider, held)}
	o.verdict.judgeReuse(p.reuse(), reused.results)
	return o, e
}

func TestFaithfulGateway(t *testing.T) {
	o, _ := runFake(t, func(*fakeGateway) {})
	if len(o.verdict.faults) > 0 || o.verdict.charges != 60 || o.verdict.doubles != 0 || o.verdict.unknowns() != 0 {
		t.Errorf("verdict %+v", o.verdict)
	}
	if o.verdict.reused != 1 || o.verdict.conflicts != 1 {
		t.Errorf("%d of %d reused keys were refused", o.verdict.conflicts, o.verdict.reused)
	}
	if o.tally.requests != 100 || o.tally.lost != 20 || o.tally.unique.n != 40 || o.tally.repeats.n != 40 {
		t.Errorf("tally %+v", o.tally)
	}
}

// one is true for one key of the plan that is sent again.
func one(t *testing.T) func(string) bool {
	p := newPlan(60, 40, "k", 7)
	for _, s := range p.steps {
		if s.repeat {
			key := p.key(s.key)
			return func(k string) bool { return k == key }
		}
	}
	t.Fatal("nothing is repeated")
	return never
}

func TestFaultsAreFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(f *fakeGateway)
		want  string
	}{
		{"double charge", func(f *fakeGateway) { f.forget = one(t) }, "was charged 2 times"},
		{"other replay", func(f *fakeGateway) { f.mangle = one(t) }, "has another answer than the first"},
		{"reused key", func(f *fakeGateway) { f.careless = func(string) bool { return true } }, "was sent for another amount and not refused as a conflict"},
		{"lost record", func(f *fakeGateway) { f.lose = one(t) }, "is lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, _ := runFake(t, c.fault)
			if all := strings.Join(o.verdict.faults, "\n"); !strings.Contains(all, c.want) {
				t.Errorf("faults %q, want %q", all, c.want)
			}
		})
	}
}

func TestUnknownIsCountedAndNoFault(t *testing.T) {
	o, _ := runFake(t, func(f *fakeGateway) { f.unknown = one(t) })
	if o.verdict.unknownCharged != 1 || o.verdict.unknownNot != 0 || len(o.verdict.faults) > 0 {
		t.Errorf("verdict %+v", o.verdict)
	}
	if o.tally.retries["outcome_unknown"] < unknownTries || o.tally.unknown == 0 {
		t.Errorf("tally %+v", o.tally)
	}
}

// TestBareProviderChargesTwice shows that the comparison compares: with nothing in between
// every repeat is a second charge.
func TestBareProviderChargesTwice(t *testing.T) {
	provider, err := NewProvider(freePort, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	p := newPlan(60, 40, "k", 7)
	for i := range p.steps {
		if p.steps[i].loss == hungUp {
			p.steps[i].loss = unread // net/http tells that a request is written before it is on its way: who hangs up then may have sent nothing
		}
	}
	transport := newTransport(8)
	defer transport.CloseIdleConnections()
	e := &execution{client: &client{plan: p, doors: []string{provider.URL()}, http: &http.Client{Transport: transport}}, concurrency: 8, progress: func(int, int) {}}
	e.run(t.Context())
	if v := judge(p, e.results, provider, nil); v.doubles != 40 || v.charges != 100 {
		t.Errorf("verdict %+v", v)
	}
}

func TestPlan(t *testing.T) {
	for _, c := range []struct{ keys, repeats, lost int }{{8000, 4000, 2000}, {10, 0, 0}, {3, 7, 1}, {1, 4, 0}} {
		p := newPlan(c.keys, c.repeats, "k", 1)
		seen, lost := map[int]int{}, 0
		for i, s := range p.steps {
			if s.repeat != (seen[s.key] > 0) {
				t.Fatalf("step %d of %v is %+v after %d sends", i, c, s, seen[s.key])
			}
			if s.loss != kept {
				lost++
				if s.repeat {
					t.Fatalf("a repeat of %v loses its answer", c)
				}
			}
			seen[s.key]++
		}
		if len(p.steps) != c.keys+c.repeats || len(seen) != c.keys || lost != c.lost {
			t.Errorf("%v: %d steps, %d keys, %d lost", c, len(p.steps), len(seen), lost)
		}
		for _, s := range p.steps {
			if s.loss != kept && seen[s.key] < 2 {
				t.Errorf("%v: key %d loses its answer and is never sent again", c, s.key)
			}
		}
	}
}
