//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/internal/process"
)

// account is the tenant of every request through a door.
const account = "acme"

// door is an `onced gateway` before a cluster. Its api is where its health and its figures are.
type door struct {
	*node
	nodes    string
	upstream string
	lease    string
}

// openDoor starts a gateway before the nodes of c.
func (c *cluster) openDoor(upstream, lease string) *door {
	c.t.Helper()
	d := &door{node: newNode(c.t, c.dir, "gateway"), nodes: urls(c.nodes...), upstream: upstream, lease: lease}
	c.t.Cleanup(d.close)
	d.start()
	c.ready(d.node)
	return d
}

func (d *door) start() {
	d.t.Helper()
	file := strings.TrimSuffix(d.log, ".log") + ".yaml"
	settings := fmt.Sprintf("nodes: %s\nhttp_addr: %s\ngateway:\n  addr: %s\n  upstream: %s\n  tenant: header:X-Account\n  routes:\n    - match: POST /charge\n      lease: %s\n",
		d.nodes, d.api, d.gate, d.upstream, d.lease)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		d.t.Fatal(err)
	}
	p, err := process.Start(process.Options{Binary: binary, Args: []string{"gateway", "--config", file}, Log: d.log})
	if err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	d.process = p
	d.mu.Unlock()
}

// close kills it and, after a failure, shows what it said last.
func (d *door) close() {
	d.kill()
	for _, never := range []string{"DATA RACE", "panic: ", "fatal error: "} {
		if lines := d.logged(0, never); len(lines) > 0 {
			d.t.Errorf("the gateway says %q", lines[0])
		}
	}
	if d.t.Failed() {
		d.t.Logf("the log of the gateway ends with:\n%s", process.Tail(d.log, 20))
	}
}

// shop charges whoever asks, and counts the charges of each key.
type shop struct {
	*httptest.Server
	mu      sync.Mutex
	charges map[string]int
}

func newShop(t *testing.T) *shop {
	p := &shop{charges: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		key := r.Header.Get("Idempotency-Key")
		p.mu.Lock()
		p.charges[key]++
		serial := len(p.charges)
		p.mu.Unlock()
		time.Sleep(20 * time.Millisecond) // of a charge
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d of %s", serial, key)
	}))
	t.Cleanup(p.Close)
	return p
}

// of is how often key was charged.
func (p *shop) of(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charges[key]
}

// all is how often each key was charged.
func (p *shop) all() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.charges)
}

// buy sends one request with key, once.
func (d *door) buy(key string) answer {
	r, err := http.NewRequest(http.MethodPost, "http://"+d.gate+"/charge", bytes.NewReader([]byte(`{"amount":1299}`)))
	if err != nil {
		return answer{err: err}
	}
	r.GetBody = nil // or net/http would send it again by itself
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Account", account)
	r.Header.Set("Content-Type", "application/json")
	return do(r)
}

// buyers are clients that buy one thing after the other until they are told to end.
type buyers struct {
	door    *door
	ended   chan struct{}
	clients sync.WaitGroup

	mu     sync.Mutex
	bought map[string]string // the answer that a client has, by key
	codes  map[string]int    // what else they were told
	open   []string          // keys that were sent and got no answer
}

func (d *door) buyers(name string, clients int) *buyers {
	b := &buyers{door: d, ended: make(chan struct{}), bought: map[string]string{}, codes: map[string]int{}}
	for c := range clients {
		b.clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-b.ended:
					return
				default:
					b.buy(fmt.Sprintf("%s-%d-%d", name, c, i))
				}
			}
		})
	}
	return b
}

// buy sends key until it is answered, or said to be unknown. Now and then it asks once more.
func (b *buyers) buy(key string) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		a := b.door.buy(key)
		switch {
		case a.err == nil && a.status == http.StatusCreated:
			b.answered(key, a)
			if rand.N(4) > 0 {
				return
			}
			if a = b.door.buy(key); a.err == nil && a.status == http.StatusCreated {
				b.answered(key, a)
				return
			}
		case a.err == nil:
			b.told(a.code())
		default:
			b.told("connection lost")
		}
		if a.code() == "outcome_unknown" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, key)
}

// answered notes an answer, and holds it against the one before.
func (b *buyers) answered(key string, a answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before, ok := b.bought[key]; ok && before != string(a.body) {
		b.door.t.Errorf("%s: answered with %q, and then with %q", key, before, a.body)
	}
	b.bought[key] = string(a.body)
}

func (b *buyers) told(code string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.codes[code]++
}

// count is how many keys were bought.
func (b *buyers) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.bought)
}

// goOn waits until so many keys more have been bought.
func (b *buyers) goOn(more int) {
	b.door.t.Helper()
	want := b.count() + more
	eventually(b.door.t, "the buyers go on", func() error {
		if n := b.count(); n < want {
			return fmt.Errorf("%d keys were bought, %d are wanted", n, want)
		}
		return nil
	})
}

// stop ends the clients, each after what it is at.
func (b *buyers) stop() {
	close(b.ended)
	b.clients.Wait()
}

// verify checks that nothing was charged twice, and that every answer that a client has is given again.
func (b *buyers) verify(p *shop) {
	t := b.door.t
	t.Helper()
	for key, n := range p.all() {
		if n > 1 {
			t.Errorf("%s was charged %d times", key, n)
		}
	}
	keys := make(chan string)
	var askers sync.WaitGroup
	for range 16 {
		askers.Go(func() {
			for key := range keys {
				a := b.door.buy(key)
				if a.err != nil || a.status != http.StatusCreated || string(a.body) != b.bought[key] || a.header.Get("Idempotency-Replayed") != "true" {
					t.Errorf("%s: answered with %q, and then with %s", key, b.bought[key], a)
				}
				if n := p.of(key); n != 1 {
					t.Errorf("%s was answered and charged %d times", key, n)
				}
			}
		})
	}
	for key := range b.bought {
		keys <- key
	}
	close(keys)
	askers.Wait()
}

// records are how many records of the account are in a state, as a node that has caught up lists them.
func (c *cluster) records(state string) (n int) {
	c.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Records []record `json:"records"`
			Next    string   `json:"next_cursor"`
		}
		r, err := http.NewRequest(http.MethodGet, "http://"+c.nodes[0].api+"/v1/keys?limit=1000&state="+state+"&cursor="+cursor, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		r.Header.Set("Onced-Tenant", account)
		if a := do(r); a.status != http.StatusOK || a.decode(&page) != nil {
			c.t.Fatalf("listing: %s", a)
		}
		n += len(page.Records)
		if cursor = page.Next; cursor == "" {
			return n
		}
	}
}

// TestNodesKilledBehindAGateway kills each node in turn under load, the leader among them, and has one hang. The gateway lives, so that it
// always stores: nothing is charged twice, nothing is unknown, no client is even told so. ONCED_E2E_LEADERS says how many leaders are to be
// killed before, one after the other.
func TestNodesKilledBehindAGateway(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	p := newShop(t)
	d := c.openDoor(p.URL, "30s")
	b := d.buyers("turn", 64)
	leaders := 0
	for many, _ := strconv.Atoi(os.Getenv("ONCED_E2E_LEADERS")); leaders < many; leaders++ {
		leader := c.leader()
		b.goOn(20)
		leader.kill()
		b.goOn(20)
		c.start(leader)
		c.ready(leader)
		if leaders%20 == 19 {
			t.Logf("%d leaders killed, %d keys bought", leaders+1, b.count())
		}
	}
	for range rounds(2, 1) {
		for _, n := range c.nodes {
			if c.leader() == n {
				leaders++
			}
			b.goOn(40)
			n.kill()
			b.goOn(40) // by the two that are left
			c.start(n)
			c.ready(n)
		}
	}
	if !testing.Short() { // one that hangs, which the gateway is with by now, costs its callers a third of their time
		c.nodes[0].freeze()
		time.Sleep(4 * time.Second) // more than the gateway waits for one node
		c.nodes[0].thaw()
		c.ready(c.nodes[0])
	}
	if leader := c.leader(); leaders == 0 {
		leader.kill()
		c.start(leader)
		c.ready(leader)
	}
	b.stop()
	t.Logf("%d keys were bought, %d leaders killed; else the clients were told %v", len(b.bought), leaders, b.codes)
	if len(b.open) > 0 {
		t.Errorf("these keys were not bought: %v", b.open)
	}
	for code := range b.codes {
		if code != "unavailable" { // said to a reserve: nothing was started
			t.Errorf("clients were told %s", code)
		}
	}
	b.verify(p)
	for _, state := range []string{"unknown", "in_progress"} {
		if n := c.records(state); n > 0 {
			t.Errorf("%d records are %s", n, state)
		}
	}
	if n := c.records("completed"); n != len(b.bought) {
		t.Errorf("%d records are completed, %d keys were bought", n, len(b.bought))
	}
	if lines := d.logged(0, "the outcome of the operation is unknown"); len(lines) > 0 {
		t.Errorf("the gateway says %q", lines[0])
	}
	d.stop()
}

// TestGatewayKilled kills the gateway itself under load and starts it again: what it had sent and not stored is unknown, and never
// charged a second time.
func TestGatewayKilled(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	p := newShop(t)
	d := c.openDoor(p.URL, "1s")
	b := d.buyers("gateway", 32)
	for range rounds(2, 1) {
		b.goOn(40)
		d.kill()
		d.start()
		c.ready(d.node)
	}
	b.goOn(40)
	b.stop()
	eventually(t, "every lease is over", func() error {
		if n := c.records("in_progress"); n > 0 {
			return fmt.Errorf("%d records are in progress", n)
		}
		return nil
	})
	unknown := c.records("unknown")
	t.Logf("%d keys were bought, %d are unknown; else the clients were told %v", len(b.bought), unknown, b.codes)
	if unknown == 0 {
		t.Error("nothing is unknown: the test shows nothing")
	}
	b.verify(p)
	for _, key := range b.open { // told as unknown, and they stay so
		if a := d.buy(key); a.code() != "outcome_unknown" || p.of(key) > 1 {
			t.Errorf("%s: %s after %d charges", key, a, p.of(key))
		}
	}
	if n := len(b.open); n != unknown {
		t.Errorf("%d keys were told as unknown, %d are", n, unknown)
	}
	d.stop()
}
