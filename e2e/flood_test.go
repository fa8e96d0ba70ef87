//go:build linux

package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// flood is one tenant that sends nothing but reserves, by batches too, to every node.
type flood struct {
	senders          sync.WaitGroup
	ended            chan struct{}
	granted, refused atomic.Int64 // single reserves and operations of batches
	failed           atomic.Int64
}

// flood begins one with so many callers at each node, every fourth of which sends batches of so many.
func (c *cluster) flood(tenant string, callers, batch int) *flood {
	f := &flood{ended: make(chan struct{})}
	for w := range callers * len(c.nodes) {
		n := c.nodes[w%len(c.nodes)]
		f.senders.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-f.ended:
					return
				default:
				}
				f.send(n, tenant, fmt.Sprintf("flood-%d-%d", w, i), w/len(c.nodes)%4 == 0, batch)
			}
		})
	}
	return f
}

func (f *flood) send(n *node, tenant, key string, batched bool, batch int) {
	if !batched {
		f.count(n.as("POST", n.api+"/v1/keys/"+key+"/reserve", object{"fingerprint": "f", "retention": "1m"}, "Onced-Tenant", tenant).status)
		return
	}
	var operations []object
	for i := range batch {
		operations = append(operations, object{"op": "reserve", "key": fmt.Sprintf("%s-%d", key, i), "fingerprint": "f"})
	}
	var results struct{ Results []struct{ Status int } }
	a := n.as("POST", n.api+"/v1/batch", object{"operations": operations}, "Onced-Tenant", tenant)
	if err := a.decode(&results); err != nil || a.status != 200 {
		f.count(a.status)
	}
	for _, r := range results.Results {
		f.count(r.Status)
	}
}

func (f *flood) count(status int) {
	switch status {
	case 201:
		f.granted.Add(1)
	case 429, 503:
		f.refused.Add(1)
	default:
		f.failed.Add(1)
	}
}

func (f *flood) end(t *testing.T) {
	t.Helper()
	close(f.ended)
	f.senders.Wait()
	t.Logf("the flood: %d reserves granted, %d refused, %d something else", f.granted.Load(), f.refused.Load(), f.failed.Load())
	if f.failed.Load() > 0 {
		t.Errorf("%d reserves ended in another way than 201, 429 or 503", f.failed.Load())
	}
}

// TestFloodRefusesNoHolder: one tenant floods every node with reserves, with a rate or a quota over it and without. Whoever holds a
// reservation, of that tenant and of another, renews, releases and completes, alone and in batches: no such call is ever refused.
func TestFloodRefusesNoHolder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings []string
		refuses  bool
	}{
		"with a rate":    {[]string{"tenant_rate: 100", "tenant_burst: 300"}, true},
		"with a quota":   {[]string{"tenant_max_keys: 400"}, true},
		"without limits": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := begin(t, func(_ int, n *node) { n.settings = append(append(n.settings, "election_timeout: 5s"), tc.settings...) })
			holders := []*holder{c.holds("loud", 60), c.holds("quiet", 60)}
			f := c.flood("loud", 8, 100)
			if tc.refuses {
				eventually(t, "the flood is refused", func() error {
					if f.refused.Load() < 100 {
						return fmt.Errorf("%d were", f.refused.Load())
					}
					return nil
				})
			} else {
				eventually(t, "the flood runs", func() error {
					if f.granted.Load() < 2000 {
						return fmt.Errorf("%d were granted", f.granted.Load())
					}
					return nil
				})
			}
			for _, h := range holders {
				h.work()
			}
			f.end(t)
			for _, h := range holders {
				h.kept()
			}
			for _, n := range c.nodes {
				if refused := n.metric("onced_overloaded_holders_total"); refused != 0 {
					t.Errorf("%s refused %v holders' calls for want of room", n.id, refused)
				}
			}
		})
	}
}

// holder is a tenant that holds reservations.
type holder struct {
	*cluster
	tenant string
	tokens []uint64
}

func (c *cluster) holds(tenant string, count int) *holder {
	c.t.Helper()
	h := &holder{cluster: c, tenant: tenant}
	for i := range count {
		a := h.call(i, "reserve", object{"fingerprint": "f", "lease": "10m"})
		if a.status != 201 {
			c.t.Fatalf("reserve of %s: %s", tenant, a)
		}
		h.tokens = append(h.tokens, a.record().Token)
	}
	return h
}

// call sends one call of the i-th key to a node of the i-th turn.
func (h *holder) call(i int, verb string, body object) answer {
	n := h.nodes[i%len(h.nodes)]
	return n.as("POST", fmt.Sprintf("%s/v1/keys/held-%d/%s", n.api, i, verb), body, "Onced-Tenant", h.tenant)
}

// work renews every reservation and ends it, all at once: a third is completed alone, a third in batches, and a third released.
func (h *holder) work() {
	h.t.Helper()
	begun := time.Now()
	var calls sync.WaitGroup
	for i, token := range h.tokens {
		calls.Go(func() {
			if a := h.decided(func() answer { return h.call(i, "renew", object{"token": token}) }); a.status != 200 {
				h.t.Errorf("a renew of %s: %s", h.tenant, a)
			}
			if a := h.decided(func() answer { return h.finish(i, token) }); a.status != 200 {
				h.t.Errorf("the end of an operation of %s: %s", h.tenant, a)
			}
		})
	}
	calls.Wait()
	h.t.Logf("%s: %d reservations were renewed and ended in %s", h.tenant, len(h.tokens), time.Since(begun).Round(time.Millisecond))
}

// decided sends a call again while there is no leader, which a flood on a slow machine may cost. That no holder is refused for want of
// room is what each node counts.
func (h *holder) decided(call func() answer) (a answer) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if a = call(); !a.undecided() {
			break
		}
	}
	return a
}

func (h *holder) finish(i int, token uint64) answer {
	switch i % 3 {
	case 0:
		return h.call(i, "complete", object{"token": token, "response": object{"status": 201}})
	case 1:
		return h.call(i, "release", object{"token": token})
	default:
		return h.batch(i, token)
	}
}

// batch completes in a batch, beside a reserve, and returns what the complete was answered.
func (h *holder) batch(i int, token uint64) answer {
	n := h.nodes[i%len(h.nodes)]
	a := n.as("POST", n.api+"/v1/batch", object{"operations": []object{
		{"op": "reserve", "key": fmt.Sprintf("beside-%d", i), "fingerprint": "f"},
		{"op": "complete", "key": fmt.Sprintf("held-%d", i), "token": token, "response": object{"status": 201}},
	}}, "Onced-Tenant", h.tenant)
	var results struct{ Results []struct{ Status int } }
	if err := a.decode(&results); err != nil || a.status != 200 || len(results.Results) != 2 {
		return a
	}
	a.status = results.Results[1].Status
	return a
}

// kept looks at every record afterwards.
func (h *holder) kept() {
	h.t.Helper()
	for i := range h.tokens {
		n := h.nodes[(i+1)%len(h.nodes)]
		a := n.as("GET", fmt.Sprintf("%s/v1/keys/held-%d", n.api, i), nil, "Onced-Tenant", h.tenant)
		if completed := i%3 != 1; completed && a.record().State != "completed" || !completed && a.status != 404 {
			h.t.Errorf("record %d of %s: %s", i, h.tenant, a)
		}
	}
}
