package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"onced"
	"onced/cluster"
)

// costs counts what three nodes do for pairs: log entries, and appends to a log on disk, each of which is one sync of a log
// of kind wal and two of one of kind bolt.
type costs struct {
	*harness
	appends atomic.Int64
}

func startCosts(t *testing.T) *costs {
	c := &costs{}
	c.harness = start(t, 3, func(_ int, cfg *cluster.Config) {
		cfg.Fault = func(step string) error {
			if step == "log.store" {
				c.appends.Add(1)
			}
			return nil
		}
	})
	return c
}

// perThousand lets so many callers do n pairs each on every node in turn, and returns what 1,000 pairs cost.
func (c *costs) perThousand(callers, n int) (entries, appends float64) {
	leader := c.nodes[c.leader()]
	fromIndex, fromAppends := leader.Status().CommitIndex, c.appends.Load()
	body := answer(string(make([]byte, 300)))
	var working sync.WaitGroup
	for caller := range callers {
		working.Go(func() {
			node := c.nodes[caller%3]
			for i := range n {
				key := id(fmt.Sprintf("cost-%d-%d-%d", callers, caller, i))
				got, err := node.Reserve(context.Background(), onced.ReserveRequest{ID: key, Fingerprint: "f"})
				if err == nil {
					_, err = node.Complete(context.Background(), onced.CompleteRequest{ID: key, Token: got.Record.Token, Response: body})
				}
				if err != nil {
					c.t.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
	pairs := float64(callers * n)
	return float64(leader.Status().CommitIndex-fromIndex) * 1000 / pairs, float64(c.appends.Load()-fromAppends) * 1000 / pairs
}

// TestCostOfPairs holds the number of log entries and of syncs that a pair takes to bounds that need no quiet machine. A lone caller's pair is two
// entries, each appended on three nodes; callers that come together share them, the more so the slower the disk.
func TestCostOfPairs(t *testing.T) {
	c := startCosts(t)
	for _, bound := range []struct {
		callers, pairs   int
		entries, appends float64 // for 1,000 pairs, at most
	}{
		{1, 100, 2_100, 6_300},
		{64, 15, 1_000, 3_000},
	} {
		entries, appends := c.perThousand(bound.callers, bound.pairs)
		t.Logf("%d callers: %.0f entries and %.0f appends for 1,000 pairs", bound.callers, entries, appends)
		if entries > bound.entries {
			t.Errorf("%d callers: %.0f log entries for 1,000 pairs, expected at most %.0f", bound.callers, entries, bound.entries)
		}
		if appends > bound.appends {
			t.Errorf("%d callers: %.0f appends to the logs of three nodes for 1,000 pairs, expected at most %.0f", bound.callers, appends, bound.appends)
		}
	}
}
