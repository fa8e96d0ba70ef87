//go:build linux

package e2e

import (
	"fmt"
	"sync"
	"testing"
)

// TestIdenticalReservesAtOnce sends two hundred equal reserves over all nodes at the same moment: one
// gets the reservation, the others are told so, and nobody gets a 5xx. Once it is completed, all get the answer.
func TestIdenticalReservesAtOnce(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	for round := range rounds(10, 3) {
		key := fmt.Sprintf("once-%d", round)
		tally := map[string]int{}
		var granted record
		for _, a := range c.crowd(200, func(n *node) answer { return n.reserve(key, nil) }) {
			tally[fmt.Sprint(a.status, " ", a.code())]++
			if a.err != nil {
				t.Error(a.err)
			}
			if a.status == 201 {
				granted = a.record()
			}
		}
		if tally["201 "] != 1 || tally["409 request_in_progress"] != 199 {
			t.Errorf("round %d: the answers are %v, expected one 201 and 199 times request_in_progress", round, tally)
		}
		s := kind(round, round)
		if a := c.nodes[round%3].complete(key, granted.Token, s.object()); a.status != 200 {
			t.Fatalf("completing: %s", a)
		}
		for _, a := range c.crowd(50, func(n *node) answer { return n.reserve(key, nil) }) {
			if err := s.same(a.record().Response); a.status != 200 || err != nil {
				t.Errorf("round %d: a duplicate got %.100s: %v", round, a, err)
			}
		}
	}
	c.equalTables()
}

// crowd sends a call count times at the same moment, spread over the nodes.
func (c *cluster) crowd(count int, call func(n *node) answer) []answer {
	answers := make([]answer, count)
	begin := make(chan struct{})
	var senders sync.WaitGroup
	for i := range answers {
		senders.Go(func() {
			<-begin
			answers[i] = call(c.nodes[i%len(c.nodes)])
		})
	}
	close(begin)
	senders.Wait()
	return answers
}
