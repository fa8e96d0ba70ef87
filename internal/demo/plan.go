package demo

import (
	"fmt"
	"math/rand/v2"
)

// loss is the way in which the answer of a request gets lost on purpose.
type loss uint8

const (
	kept   loss = iota
	hungUp      // the client closes the connection while the charge runs
	unread      // the answer arrives, and the client dies before it has read it
)

// step is one request of the workload.
type step struct {
	key    int
	repeat bool // the key was sent before
	loss   loss // of a first request only, and only where a repeat follows
	other  bool // the key stands for another amount than before: to be refused
}

// plan is the workload: its steps in the order in which they are sent.
type plan struct {
	prefix string // of the keys, so that two runs never share one
	keys   int
	steps  []step
}

// newPlan shuffles keys first requests and repeats repeats. The repeats fall on
// as many keys as possible; half of the keys that are repeated lose their first
// answer. The same seed gives the same plan.
func newPlan(keys, repeats int, prefix string, seed uint64) plan {
	random := rand.New(rand.NewPCG(seed, 0))
	p := plan{prefix: prefix, keys: keys}
	times := make([]int, keys)
	order := random.Perm(keys)
	for i := range repeats {
		times[order[i%keys]]++
	}
	losses := make([]loss, keys)
	for i, key := range order[:min(repeats, keys)] {
		losses[key] = []loss{kept, hungUp, kept, unread}[i%4]
	}
	for key := range keys {
		for range times[key] + 1 {
			p.steps = append(p.steps, step{key: key})
		}
	}
	random.Shuffle(len(p.steps), func(i, j int) { p.steps[i], p.steps[j] = p.steps[j], p.steps[i] })
	seen := make([]bool, keys)
	for i := range p.steps {
		s := &p.steps[i]
		if s.repeat = seen[s.key]; !s.repeat {
			s.loss = losses[s.key]
		}
		seen[s.key] = true
	}
	return p
}

// reuse is the plan of what must be refused: one key of a hundred, one at least, is sent again for another amount.
func (p plan) reuse() plan {
	q := plan{prefix: p.prefix, keys: p.keys}
	for key := 0; key < p.keys; key += 100 {
		q.steps = append(q.steps, step{key: key, other: true})
	}
	return q
}

// key returns the idempotency key of number i.
func (p plan) key(i int) string { return fmt.Sprintf("%s-%06d", p.prefix, i) }

// order returns what key i is a request for.
func (p plan) order(i int) order {
	return order{Order: fmt.Sprintf("order-%06d", i), Amount: 100 + i%9900}
}

// orderOf returns what a step asks for.
func (p plan) orderOf(s step) order {
	o := p.order(s.key)
	if s.other {
		o.Amount++
	}
	return o
}
