//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// kept is a record that was acknowledged.
type kept struct {
	key    string
	token  uint64
	answer *stored // nil = no complete was acknowledged
	asked  *stored // a complete that was sent, acknowledged or not
}

// verify returns an error unless node n, asked by look, has the record as it was acknowledged.
func (k kept) verify(a answer) error {
	r := a.record()
	switch {
	case a.status != 200:
		return fmt.Errorf("%s: %s", k.key, a)
	case r.Token != k.token:
		return fmt.Errorf("%s: the token is %d, %d was given out", k.key, r.Token, k.token)
	case r.State == "completed" && k.asked != nil:
		if err := k.asked.same(r.Response); err != nil {
			return fmt.Errorf("%s: %w", k.key, err)
		}
		return nil
	case k.answer != nil:
		return fmt.Errorf("%s: was completed and is %s", k.key, r.State)
	case r.State != "in_progress":
		return fmt.Errorf("%s: was reserved for long and is %s", k.key, r.State)
	}
	return nil
}

// verifyAll asks every node for every record, from its own table.
func (c *cluster) verifyAll(records []kept) {
	c.t.Helper()
	for _, n := range c.nodes {
		faults := 0
		for _, k := range records {
			if err := k.verify(n.lookStale(k.key)); err != nil {
				if faults++; faults <= 5 {
					c.t.Errorf("on %s: %v", n.id, err)
				}
			}
		}
		if faults > 5 {
			c.t.Errorf("on %s: %d of %d records are wrong", n.id, faults, len(records))
		}
	}
}

// TestLeaderKilledAfterEachComplete kills the leader at the moment at which a complete has been
// acknowledged, again and again: nothing that was acknowledged is missing on any node. The log is small, so
// that tables are on disk in part and nodes come back behind a log that was cut.
func TestLeaderKilledAfterEachComplete(t *testing.T) {
	t.Parallel()
	c := begin(t, smallLog)
	var records []kept
	for i := range rounds(50, 6) {
		key, s := fmt.Sprintf("killed-%d", i), kind(i, i)
		leader := c.leader()
		a := c.insist(i, func(n *node) answer { return n.reserve(key, object{"owner": "o-" + key, "lease": "24h"}) })
		if a.status != 201 {
			t.Fatalf("reserve: %s", a)
		}
		token := a.record().Token
		// To the leader itself, or by way of a follower.
		at := slices.Index(c.nodes, leader) + i%2
		if a = c.insist(at, func(n *node) answer { return n.complete(key, token, s.object()) }); a.status != 200 {
			t.Fatalf("complete: %s", a)
		}
		leader.kill()
		c.start(leader)
		records = append(records, kept{key, token, &s, &s})
	}
	c.ready(c.nodes...)
	c.equalTables()
	c.verifyAll(records)
	for i, k := range records[:kinds] { // and what a duplicate gets
		a := c.nodes[i%3].reserve(k.key, nil)
		if err := k.answer.same(a.record().Response); a.status != 200 || err != nil {
			t.Errorf("the replay of %s is %.100s: %v", k.key, a, err)
		}
	}
}

// TestAllKilledUnderLoad kills all nodes at once while many writers write: after the restart
// everything that was acknowledged is there, and all tables are equal.
func TestAllKilledUnderLoad(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	var records []kept
	for round := range rounds(3, 1) {
		load := c.load(fmt.Sprintf("all-%d", round), 32)
		time.Sleep(1500 * time.Millisecond) // of load
		c.kill(c.nodes...)
		acked := load.stop()
		completed := 0
		for _, k := range acked {
			if k.answer != nil {
				completed++
			}
		}
		t.Logf("round %d: %d reserves and %d completes were acknowledged before the kill", round, len(acked), completed)
		if completed < 20 {
			t.Errorf("too few to mean something")
		}
		records = append(records, acked...)
		c.start(c.nodes...)
		c.ready(c.nodes...)
		c.equalTables()
	}
	c.verifyAll(records)
}

// load is writers that reserve and complete one key after the other, through all nodes.
type load struct {
	ended   chan struct{}
	writers sync.WaitGroup

	mu    sync.Mutex
	acked []kept
}

// load starts the writers. A call whose fate is not known is not sent again.
func (c *cluster) load(name string, writers int) *load {
	l := &load{ended: make(chan struct{})}
	for w := range writers {
		l.writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-l.ended:
					return
				default:
				}
				l.write(c.nodes[(w+i)%3], c.nodes[(w+2*i+1)%3], fmt.Sprintf("%s-%d-%d", name, w, i), kind(2-i%3, i))
			}
		})
	}
	return l
}

// write is one pair, the two calls on nodes of their own.
func (l *load) write(first, second *node, key string, s stored) {
	a := first.reserve(key, object{"owner": "o", "lease": "24h"})
	if a.status != 201 {
		if a.err != nil {
			time.Sleep(5 * time.Millisecond) // the node is down
		}
		return
	}
	k := kept{key: key, token: a.record().Token, asked: &s}
	if a = second.complete(key, k.token, s.object()); a.status == 200 {
		k.answer = &s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = append(l.acked, k)
}

// stop ends the writers and returns what was acknowledged.
func (l *load) stop() []kept {
	close(l.ended)
	l.writers.Wait()
	return l.acked
}
