//go:build linux

package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestRepeatsAroundTheEndOfRetention sends repeats through all nodes while retention ends and the records are swept away.
// Each key is replayed until one repeat, and no second one, is granted a first attempt; nobody is told that something runs
// that nobody was granted, and nothing old is replayed after it. (F22)
func TestRepeatsAroundTheEndOfRetention(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	const retention = time.Second
	var keys sync.WaitGroup
	for i := range rounds(24, 8) {
		keys.Go(func() {
			key, s := fmt.Sprintf("ends-%d", i), kind(i%3, i)
			token := c.insist(i, func(n *node) answer {
				return n.reserve(key, object{"owner": "first", "retention": retention.String()})
			}).record().Token
			// stale_token: an earlier try of it took effect, was told 503, and retention is over. Were it a lie, the
			// first owner would stand in the way of the repeats.
			if a := c.insist(i, func(n *node) answer { return n.complete(key, token, s.object()) }); a.status != 200 && a.code() != "stale_token" {
				t.Errorf("completing %s: %s", key, a)
				return
			}
			c.repeatUntilFreed(key, s)
		})
	}
	keys.Wait()
	c.equalTables()
}

// repeatUntilFreed sends repeats, each by an owner of its own, until one is granted, and some more.
func (c *cluster) repeatUntilFreed(key string, s stored) {
	c.t.Helper()
	granted, after := "", 0
	for i, end := 0, time.Now().Add(patience); after < 10; i++ {
		if time.Now().After(end) {
			c.t.Errorf("%s is never freed", key)
			return
		}
		owner := fmt.Sprintf("%s-%d", key, i)
		a := c.insist(i, func(n *node) answer { return n.reserve(key, object{"owner": owner, "lease": "1h"}) })
		r := a.record()
		switch {
		case granted == "" && a.status == 200:
			if err := s.same(r.Response); err != nil {
				c.t.Errorf("the replay of %s: %v", key, err)
			}
		case granted == "" && a.status == 201 && r.Attempt == 1 && r.Owner == owner:
			granted = owner
		case granted != "" && a.code() == "request_in_progress":
			after++
		default:
			c.t.Errorf("%s, granted to %q, is told %s", key, granted, a)
			return
		}
	}
	for i := range c.nodes {
		if r := c.insist(i, func(n *node) answer { return n.look(key) }).record(); r.State != "in_progress" || r.Owner != granted {
			c.t.Errorf("%s was granted to %q, and its record is %+v", key, granted, r)
		}
	}
}
