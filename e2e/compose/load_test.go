package compose

import (
	"context"
	"fmt"
	"sync"
	"time"

	"onced/internal/demo"
)

const (
	lanes  = 3
	charge = 30 * time.Millisecond // the provider's, unless it is told another
	shown  = 10                    // faults that are told one by one
)

// load sends rounds of requests, in several lanes, until it is ended.
type load struct {
	c     *cluster
	stop  chan struct{} // closed when no further round is wanted
	lanes sync.WaitGroup

	mu    sync.Mutex
	sent  []*demo.Sent
	tally demo.Tally
	errs  []error
	over  chan struct{} // closed and replaced when a round is over
}

// begin starts the load through doors; name is the beginning of its keys.
func (c *cluster) begin(name string, doors []string) *load {
	l := &load{c: c, stop: make(chan struct{}), over: make(chan struct{})}
	ctx := c.t.Context()
	for lane := range lanes {
		l.lanes.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-l.stop:
					return
				default:
				}
				l.round(ctx, doors, fmt.Sprintf("%s-%d-%d", name, lane, round))
			}
		})
	}
	return l
}

func (l *load) round(ctx context.Context, doors []string, prefix string) {
	s, err := demo.Round{Gateways: doors, Prefix: prefix, Keys: 60, Repeats: 40, Concurrency: 3, Charge: charge}.Run(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errs = append(l.errs, err)
	} else {
		l.sent = append(l.sent, s)
		l.tally.Add(s.Tally)
	}
	close(l.over)
	l.over = make(chan struct{})
}

// wait waits until so many further rounds are over.
func (l *load) wait(rounds int) {
	l.c.t.Helper()
	late := time.After(patience)
	l.mu.Lock()
	want := len(l.sent) + rounds
	l.mu.Unlock()
	for {
		l.mu.Lock()
		n, over, errs := len(l.sent), l.over, l.errs
		l.mu.Unlock()
		if len(errs) > 0 {
			l.c.t.Fatal(errs)
		}
		if n >= want {
			return
		}
		select {
		case <-over:
		case <-late:
			l.c.t.Fatalf("only %d of %d rounds are over after %s", n, want, patience)
		}
	}
}

// end waits until every request has come to its end, and judges.
func (l *load) end() {
	l.c.t.Helper()
	close(l.stop)
	l.lanes.Wait()
	for _, err := range l.errs {
		l.c.t.Fatal(err)
	}
	for _, n := range l.c.nodes {
		n.ready()
	}
	ledger := l.c.charged()
	var faults []string
	for _, s := range l.sent {
		faults = append(faults, s.Judge(l.c.t.Context(), l.c.apis(), ledger)...)
		l.c.history = append(l.c.history, judged{s, ledger})
	}
	l.c.tell(faults)
	l.c.t.Logf("%d requests, %d answered, %d told that the outcome is unknown, %d sent again on advice; %d charges, keys charged twice: %d",
		l.tally.Requests, l.tally.Answered, l.tally.Unknown, l.tally.Again, ledger.Total(), len(ledger.Doubles()))
	if doubles := ledger.Doubles(); len(doubles) > 0 {
		l.c.t.Errorf("charged twice: %v", doubles)
	}
	if l.tally.Answered == 0 {
		l.c.t.Error("no request was answered")
	}
}

// judged is a round with the ledger of its end. The provider has another one after down and up.
type judged struct {
	sent   *demo.Sent
	ledger *demo.Ledger
}

// replay sends every key of every round to each of doors again: all answers have to be there, and nothing may be charged.
func (c *cluster) replay(doors []string) {
	c.t.Helper()
	before := c.charged().Total()
	var faults []string
	replayed := 0
	for _, round := range c.history {
		n, found := round.sent.Replay(c.t.Context(), doors, round.ledger)
		replayed += n
		faults = append(faults, found...)
	}
	c.tell(faults)
	if after := c.charged().Total(); after != before {
		c.t.Errorf("the provider was asked for %d more charges", after-before)
	}
	if replayed == 0 {
		c.t.Error("nothing was replayed")
	}
	c.t.Logf("%d answers replayed, nothing charged", replayed)
}

// tell makes faults the test's.
func (c *cluster) tell(faults []string) {
	c.t.Helper()
	for i, fault := range faults {
		if i == shown {
			c.t.Errorf("and %d more", len(faults)-shown)
			return
		}
		c.t.Error(fault)
	}
}
