//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestLostAnswer kills the leader while reserves are under way, each at a moment of its own, and repeats
// every one with its owner: the owner is told that it owns the key, and nobody else's reservation stands in its way.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	lost, repeated := 0, 0
	for round := range rounds(12, 2) {
		leader := c.leader()
		answers := c.reserveAroundKill(leader, fmt.Sprintf("lost-%d", round))
		c.start(leader)
		for i, first := range answers {
			key := fmt.Sprintf("lost-%d-%d", round, i)
			a := c.insist(i, func(n *node) answer { return n.reserve(key, object{"owner": "o-" + key}) })
			r := a.record()
			if a.status != 201 || r.Attempt != 1 || r.Owner != "o-"+key {
				t.Errorf("%s: the owner that asks again is told %s", key, a)
			}
			if first.status == 201 && (!r.Repeated || first.record().Token != r.Token) {
				t.Errorf("%s: the first answer was %s, the next one %s", key, first, a)
			}
			if first.undecided() {
				lost++
				if r.Repeated {
					repeated++
				}
			}
		}
		c.ready(leader)
	}
	t.Logf("%d answers were lost, %d of them of a reserve that had taken effect", lost, repeated)
	if lost == 0 {
		t.Error("no answer was lost: the test shows nothing")
	}
	c.equalTables()
}

// reserveAroundKill sends 40 reserves within 20 ms, some of them to the leader, and kills it
// after a part of that time.
func (c *cluster) reserveAroundKill(leader *node, name string) []answer {
	answers := make([]answer, 40)
	moment := rand.N(20 * time.Millisecond)
	at := slices.Index(c.nodes, leader)
	var senders sync.WaitGroup
	for i := range answers {
		senders.Go(func() {
			time.Sleep(time.Duration(i) * 500 * time.Microsecond)
			key := fmt.Sprintf("%s-%d", name, i)
			answers[i] = c.nodes[(at+i%3)%3].reserve(key, object{"owner": "o-" + key})
		})
	}
	time.Sleep(moment)
	leader.kill()
	senders.Wait()
	return answers
}

// TestUnavailableLeavesNothing has reserves end in 503 while the others are stopped, so that their
// entries may lie in a log: once the others go on, no reservation of theirs is there.
func TestUnavailableLeavesNothing(t *testing.T) {
	t.Parallel()
	c := begin(t, func(_ int, n *node) { n.settings = append(n.settings, "request_timeout: 1s") })
	for round := range rounds(6, 2) {
		leader := c.leader()
		at := slices.Index(c.nodes, leader)
		asked := leader // which has the entry in its log
		if round%2 == 1 {
			asked = c.nodes[(at+1)%3] // which can only have sent it
		}
		for _, n := range c.others(asked) {
			n.freeze()
		}
		key := fmt.Sprintf("nothing-%d", round)
		var senders sync.WaitGroup
		for _, owner := range []string{"", "mine"} { // made by the node, and by the caller
			senders.Go(func() {
				more := object{}
				if owner != "" {
					more["owner"] = owner
				}
				if a := asked.reserve(key+owner, more); a.status != 503 || a.code() != "unavailable" {
					t.Errorf("without a majority %s is told %s", key+owner, a)
				}
			})
		}
		senders.Wait()
		for _, n := range c.others(asked) {
			n.thaw()
		}
		c.nothingLeft(asked, key)
	}
	c.equalTables()
}

// cancelled waits until the node has cancelled every owner that it made for a reserve that was told 503.
func (n *node) cancelled() {
	n.t.Helper()
	eventually(n.t, n.id+" has cancelled its owners", func() error {
		if pending := n.metric("onced_pending_cancels"); pending != 0 {
			return fmt.Errorf("%v cancels are pending", pending)
		}
		return nil
	})
}

// nothingLeft checks that the reserves of key, by an owner that node asked made, and of key+"mine", by
// the caller's, have left nothing once they are cancelled.
func (c *cluster) nothingLeft(asked *node, key string) {
	c.t.Helper()
	asked.cancelled()
	cancel := func(n *node) answer { return n.post(key+"mine", "release", object{"owner": "mine"}) }
	if a := c.insist(1, cancel); a.status != 200 {
		c.t.Errorf("cancelling: %s", a)
	}
	for i, name := range []string{key, key + "mine"} {
		if a := c.insist(i, func(n *node) answer { return n.look(name) }); a.code() != "key_not_found" {
			c.t.Errorf("after the 503 %s is there: %s", name, a)
		}
	}
	if a := c.insist(2, func(n *node) answer { return n.reserve(key+"mine", object{"owner": "mine"}) }); a.code() != "stale_token" {
		c.t.Errorf("a cancelled owner is told %s", a)
	}
	for _, name := range []string{key, key + "mine"} {
		a := c.insist(0, func(n *node) answer { return n.reserve(name, object{"owner": "next"}) })
		if r := a.record(); a.status != 201 || r.Attempt != 1 || r.Owner != "next" {
			c.t.Errorf("the next reserve of %s is told %s", name, a)
		}
	}
}
