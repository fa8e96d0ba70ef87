//go:build linux

package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// early is by how much less a time may be measured than it is: the cluster's time may run at 101 %, and is
// cut to milliseconds. late is by how much more, on a machine under load.
const (
	early = 50 * time.Millisecond
	late  = 1500 * time.Millisecond
)

// TestWrongClock sets the clock of one node an hour ahead or back, where it leads and where it
// follows: leases and retentions last as long as they should, also across a change of the leader.
func TestWrongClock(t *testing.T) {
	for _, wrong := range []struct {
		offset string
		leads  bool
	}{{"1h", true}, {"1h", false}, {"-1h", true}, {"-1h", false}} {
		role := "follower"
		if wrong.leads {
			role = "leader"
		}
		t.Run(role+" "+wrong.offset, func(t *testing.T) {
			t.Parallel()
			c := begin(t, func(i int, n *node) {
				// n1 is quicker to stand for election, so it leads.
				patient := "election_timeout: 3s"
				if i == 0 {
					patient = "election_timeout: 400ms"
				}
				n.settings = append(n.settings, patient)
				if (i == 0) == wrong.leads && i < 2 {
					n.env = append(n.env, "ONCED_FAULT_CLOCK_OFFSET="+wrong.offset)
				}
			})
			if leader := c.leader(); leader != c.nodes[0] {
				t.Logf("%s leads", leader.id) // a machine under load; the rest must hold too
			}
			if wrong.offset == "1h" {
				rightTime(t, c)
			}
			var times sync.WaitGroup
			times.Go(func() { leaseLasts(t, c) })
			times.Go(func() { retentionLasts(t, c) })
			times.Wait()
			leaderChanges(t, c)
		})
	}
}

// lasted checks how long something lasted that began between asked and told and ended at end.
func lasted(t *testing.T, what string, want time.Duration, asked, told, end time.Time) {
	t.Helper()
	if d := end.Sub(asked); d < want-early {
		t.Errorf("%s of %s ended after %s", what, want, d)
	}
	if d := end.Sub(told); d > want+late {
		t.Errorf("%s of %s ended only after %s", what, want, d)
	}
}

// rightTime checks that the cluster's time is the others' and not the wrong node's. (A clock that is behind may be
// followed from the start, as long as only one other node has told its own.)
func rightTime(t *testing.T, c *cluster) {
	t.Helper()
	a := c.insist(0, func(n *node) answer { return n.reserve("now", object{"lease": "1h"}) })
	if off := time.Until(a.record().LeaseEnd) - time.Hour; off.Abs() > 10*time.Second {
		t.Errorf("the cluster's time is off by %s", off)
	}
}

// leaseLasts looks at a reservation, on all nodes in turn, until its lease is over.
func leaseLasts(t *testing.T, c *cluster) {
	const lease = 2 * time.Second
	asked := time.Now()
	a := c.insist(1, func(n *node) answer { return n.reserve("lease", object{"lease": lease.String()}) })
	told := time.Now()
	if a.status != 201 {
		t.Errorf("reserve: %s", a)
		return
	}
	for i := 0; ; i++ {
		switch a = c.nodes[i%3].look("lease"); a.record().State {
		case "unknown":
			lasted(t, "a lease", lease, asked, told, time.Now())
			return
		case "in_progress":
		default:
			t.Errorf("looking: %s", a)
			return
		}
		if time.Since(told) > patience {
			t.Error("the lease never ends")
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// retentionLasts sends duplicates to all nodes in turn until one is let through anew.
func retentionLasts(t *testing.T, c *cluster) {
	const retention = 3 * time.Second
	s := kind(1, 1)
	token := c.insist(1, func(n *node) answer { return n.reserve("retention", object{"retention": retention.String()}) }).record().Token
	asked := time.Now()
	a := c.insist(2, func(n *node) answer { return n.complete("retention", token, s.object()) })
	told := time.Now()
	if a.status != 200 {
		t.Errorf("complete: %s", a)
		return
	}
	for i := 0; ; i++ {
		switch a = c.nodes[i%3].reserve("retention", nil); {
		case a.status == 201 && a.record().Attempt == 1:
			lasted(t, "a retention", retention, asked, told, time.Now())
			return
		case a.status != 200 || s.same(a.record().Response) != nil:
			t.Errorf("a duplicate is told %s", a)
			return
		}
		if time.Since(told) > patience {
			t.Error("the retention never ends")
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// leaderChanges ends the leader while leases and a retention of ten minutes are running: an hour's
// jump of the time would end them, time that stands still would keep the short one.
func leaderChanges(t *testing.T, c *cluster) {
	const lease = 4 * time.Second
	put := func(key, lease string) (asked, told time.Time) {
		asked = time.Now()
		a := c.insist(0, func(n *node) answer {
			return n.reserve(key, object{"owner": "o", "lease": lease, "retention": "10m"})
		})
		if a.status != 201 {
			t.Fatalf("reserve: %s", a)
		}
		return asked, time.Now()
	}
	put("long", "10m")
	put("done", "10m")
	s := kind(1, 2)
	token := c.insist(0, func(n *node) answer { return n.look("done") }).record().Token
	if a := c.insist(0, func(n *node) answer { return n.complete("done", token, s.object()) }); a.status != 200 {
		t.Fatalf("complete: %s", a)
	}
	asked, told := put("short", lease.String())
	old := c.leader()
	old.stop()
	left := c.others(old)
	eventually(t, "the short lease ends", func() error {
		if a := left[0].look("short"); a.record().State != "unknown" {
			return fmt.Errorf("%s", a)
		}
		return nil
	})
	end := time.Now()
	// It took a while to elect: until then nobody could tell. Early is early all the same.
	if c.leader(old); end.Sub(told) > lease+2*late {
		t.Logf("a lease of %s was seen to be over only after %s", lease, end.Sub(told))
	}
	if d := end.Sub(asked); d < lease-early {
		t.Errorf("a lease of %s ended after %s, with the change of the leader", lease, d)
	}
	for i, n := range left {
		if a := c.insist(i, func(*node) answer { return n.look("long") }); a.record().State != "in_progress" {
			t.Errorf("on %s the lease of ten minutes is over: %s", n.id, a)
		}
		if a := c.insist(i, func(*node) answer { return n.reserve("done", nil) }); s.same(a.record().Response) != nil {
			t.Errorf("on %s the retention of ten minutes is over: %s", n.id, a)
		}
	}
}
