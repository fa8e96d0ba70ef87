package demo

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// sendRound sends a small round through a fake gateway and judges it.
func sendRound(t *testing.T) (f *fakeGateway, doors []string, s *Sent, l *Ledger, faults []string) {
	t.Helper()
	provider, err := NewProvider(freePort, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Close)
	f, url := newFakeGateway(t, provider.URL())
	f.unknown = func(key string) bool { return key == "r-000003" }
	doors = []string{url, url}
	s, err = Round{Gateways: doors, Prefix: "r", Keys: 30, Repeats: 20, Concurrency: 4, Charge: time.Millisecond}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l, err = ReadLedger(t.Context(), provider.URL()); err != nil {
		t.Fatal(err)
	}
	return f, doors, s, l, s.Judge(t.Context(), doors, l)
}

func TestRound(t *testing.T) {
	_, doors, s, l, faults := sendRound(t)
	if len(faults) > 0 || l.Total() != 30 || len(l.Doubles()) > 0 {
		t.Errorf("faults %q, %d charges, twice %v", faults, l.Total(), l.Doubles())
	}
	if s.Tally.Requests != 50 || s.Tally.Answered < 35 || s.Tally.Unknown == 0 {
		t.Errorf("tally %+v", s.Tally)
	}
	replayed, faults := s.Replay(t.Context(), doors, l)
	if replayed != 2*29 || len(faults) > 0 {
		t.Errorf("%d replayed, want those of 29 keys at 2 doors; faults %q", replayed, faults)
	}
}

// TestReplayFindsFaults lets a gateway go wrong after the round.
func TestReplayFindsFaults(t *testing.T) {
	five := func(key string) bool { return key == "r-000005" }
	for _, c := range []struct {
		name, want string
		fault      func(f *fakeGateway)
	}{
		{"other answer", "r-000005 at http", func(f *fakeGateway) { f.mangle = five }},
		{"answer gone", "the answer is lost: outcome_unknown", func(f *fakeGateway) { f.unknown = five }},
		{"charged again", "has another answer than the first", func(f *fakeGateway) { f.forget = five }},
		{"record gone", "it was run again", func(f *fakeGateway) { delete(f.records, "r-000005") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, doors, s, l, _ := sendRound(t)
			c.fault(f)
			if _, faults := s.Replay(t.Context(), doors[:1], l); !strings.Contains(strings.Join(faults, "\n"), c.want) {
				t.Errorf("faults %q, want %q", faults, c.want)
			}
		})
	}
}

// TestLedgerCountsTwice holds the ledger of a provider elsewhere to the provider's own word.
func TestLedgerCountsTwice(t *testing.T) {
	provider, err := NewProvider(freePort, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	p := newPlan(2, 1, "k", 1)
	c := &client{plan: p, doors: []string{provider.URL()}, http: http.DefaultClient}
	for _, key := range []int{0, 1, 1} {
		if got := c.again(t.Context(), key); got.err != nil || got.problem != nil {
			t.Fatalf("%+v", got)
		}
	}
	l, err := ReadLedger(t.Context(), provider.URL())
	if err != nil {
		t.Fatal(err)
	}
	if l.Total() != 3 || strings.Join(l.Doubles(), " ") != "k-000001" || strings.Join(l.Of("k-000001"), " ") != "ch_000002 ch_000003" {
		t.Errorf("ledger %+v", l)
	}
	response, err := http.Get(provider.URL() + "/readyz")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", response, err)
	}
	response.Body.Close()
}
