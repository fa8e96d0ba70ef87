package demo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tryWithin is how long a client of a Round waits for one answer: a door that was cut off says nothing.
const tryWithin = 20 * time.Second

// Round is the demo's workload, sent through the gateways of a cluster that somebody else keeps and does things to.
type Round struct {
	Gateways    []string // base URLs, all equal
	Prefix      string   // of the keys, so that two rounds never share one
	Keys        int
	Repeats     int // requests beyond the first of each key
	Concurrency int
	Charge      time.Duration // how long the provider takes
}

// Sent is a round that is over, and what its clients were told.
type Sent struct {
	plan    plan
	results []result
	settled []bool // by key: completed when it was judged
	Tally   Tally
}

// Tally is what a round, or several, looked like from the clients' side.
type Tally struct {
	Requests int // repeats on advice are not in it
	Answered int
	Unknown  int // ended without an answer that anybody could give
	Again    int // sent again on advice
}

// Add adds what other says.
func (t *Tally) Add(other Tally) {
	t.Requests += other.Requests
	t.Answered += other.Answered
	t.Unknown += other.Unknown
	t.Again += other.Again
}

// Run sends the round's requests and returns when the end of each is known to its client.
// The error is ctx's, which ended before.
func (r Round) Run(ctx context.Context) (*Sent, error) {
	transport := newTransport(r.Concurrency)
	defer transport.CloseIdleConnections()
	p := newPlan(r.Keys, r.Repeats, r.Prefix, seed)
	e := &execution{
		client:      &client{plan: p, doors: r.Gateways, http: &http.Client{Transport: transport, Timeout: tryWithin}, charge: r.Charge},
		concurrency: r.Concurrency,
		progress:    func(int, int) {},
	}
	e.run(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := newTally(p, e.results, e.took)
	return &Sent{plan: p, results: e.results, Tally: Tally{t.requests, t.unique.n + t.repeats.n, t.unknown, t.retried()}}, nil
}

// Judge holds what the clients were told and what the nodes, by the base URLs of their APIs, have kept against what the
// provider has charged. It returns a sentence for each fault.
func (s *Sent) Judge(ctx context.Context, apis []string, l *Ledger) []string {
	h, done := newReaders()
	defer done()
	all := readBack(ctx, h, apis, s.plan, readersAtOnce)
	s.settled = make([]bool, s.plan.keys)
	for i, held := range all {
		s.settled[i] = held.state == "completed"
	}
	return judge(s.plan, s.results, l, all).faults
}

// Replay sends every key to every one of gateways once more, after Judge. Each has to replay the answer to the only charge of
// a key that was completed, l being the ledger of then, or else to say that the outcome is unknown. It returns how many
// answers were replayed and a sentence for each fault. Whether anything was charged again is for the caller to see.
func (s *Sent) Replay(ctx context.Context, gateways []string, l *Ledger) (replayed int, faults []string) {
	h, done := newReaders()
	defer done()
	var mu sync.Mutex
	var next atomic.Int64
	var workers sync.WaitGroup
	for range readersAtOnce {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				key, door := i/len(gateways), gateways[i%len(gateways)]
				if key >= s.plan.keys {
					return
				}
				got := (&client{plan: s.plan, doors: []string{door}, http: h}).again(ctx, key)
				fault := s.checkReplay(key, l.Of(s.plan.key(key)), got)
				mu.Lock()
				if fault != "" {
					faults = append(faults, fmt.Sprintf("%s at %s: %s", s.plan.key(key), door, fault))
				} else if got.replayed {
					replayed++
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return replayed, faults
}

// readersAtOnce is how many requests Judge and Replay send at once.
const readersAtOnce = 32

func newReaders() (h *http.Client, done func()) {
	transport := newTransport(readersAtOnce)
	return &http.Client{Transport: transport, Timeout: tryWithin}, transport.CloseIdleConnections
}

// again sends key until there is an answer, or a refusal that does not mean "later".
func (c *client) again(ctx context.Context, key int) reply {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		got := c.send(ctx, step{key: key, repeat: true}, 0, func() {})
		later := got.err != nil || got.problem != nil && got.problem.Retry == "same_key" && got.problem.Code != "outcome_unknown"
		if !later || sleep(ctx, got.after) != nil {
			return got
		}
	}
}

// checkReplay says what is wrong with an answer to a key whose charges are known; "" if nothing is.
func (s *Sent) checkReplay(key int, charges []string, got reply) string {
	switch {
	case got.err != nil:
		return got.err.Error()
	case got.problem != nil && got.problem.Code == "outcome_unknown" && !s.settled[key]:
		return ""
	case got.problem != nil:
		return fmt.Sprintf("the answer is lost: %s: %s", got.problem.Code, got.problem.Detail)
	case !got.replayed:
		return "it was run again"
	}
	var v verdict
	v.checkAnswer(s.plan.key(key), s.plan.order(key), charges, "the replay", got.answer)
	return strings.Join(v.faults, "; ")
}
