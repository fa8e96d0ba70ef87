//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// bank charges what it is asked to, and tells of it when it is asked with a key. The first charge of a path
// waits, before or after the money moved, until its caller is gone.
type bank struct {
	*httptest.Server
	began chan string

	mu      sync.Mutex
	runs    map[string]int // by path
	charges map[string]int
}

func newBank(t *testing.T) *bank {
	b := &bank{began: make(chan string, 10), runs: map[string]int{}, charges: map[string]int{}}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // so that the server sees the gateway die
		if r.Method == http.MethodGet {
			b.look(w, "/"+r.URL.Query().Get("of"))
			return
		}
		b.pay(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *bank) look(w http.ResponseWriter, path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.charges[path] == 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Onced-Original-Status", "201")
	io.WriteString(w, "charged")
}

func (b *bank) pay(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	b.mu.Lock()
	b.runs[path]++
	first := b.runs[path] == 1
	if !first || path != "/before" {
		b.charges[path]++
	}
	b.mu.Unlock()
	if first && path != "/stored" {
		b.began <- path
		<-r.Context().Done()
		return
	}
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, "charged")
}

func (b *bank) charged(path string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.charges[path]
}

// TestGatewayKilledUnderProbe kills the node whose gateway has sent operations, before one was charged, after
// another was, and after a third was stored and answered. Once the leases are over the look-up settles the first two at
// another node: exactly one charge each, and everybody gets the same answer.
func TestGatewayKilledUnderProbe(t *testing.T) {
	t.Parallel()
	p := newBank(t)
	c := begin(t, func(_ int, n *node) {
		n.settings = append(n.settings, "gateway:", "  addr: "+n.gate, "  upstream: "+p.URL, "  tenant: header:X-Account", "  routes:",
			`    - {match: "POST /{name}", lease: 6s, timeout: 4s, on_unknown: probe, probe: "GET /charges?of={name}&key={key}"}`)
	})
	dies := c.leader()
	if a := dies.operate("/stored"); a.status != 201 {
		t.Fatalf("%s", a)
	}
	var senders sync.WaitGroup
	for _, path := range []string{"/before", "/after"} {
		senders.Go(func() {
			if a := dies.operate(path); a.err == nil {
				t.Errorf("%s is answered by a node that is dead: %s", path, a)
			}
		})
	}
	<-p.began
	<-p.began
	dies.kill()
	senders.Wait()
	left := c.others(dies)
	for _, path := range []string{"/before", "/after"} {
		if a := c.insistOf(left, func(n *node) answer { return n.operate(path) }); a.code() != "request_in_progress" {
			t.Errorf("%s: while the lease lasts a repeat is told %s", path, a)
		}
	}
	for _, path := range []string{"/before", "/after"} {
		var settled answer
		eventually(t, path+" is settled", func() error {
			if settled = left[0].operate(path); settled.status != 201 {
				return fmt.Errorf("%s", settled)
			}
			return nil
		})
		if replayed := settled.header.Get("Idempotency-Replayed"); replayed != fmt.Sprint(path == "/after") {
			t.Errorf("%s: Idempotency-Replayed is %s on %s", path, replayed, settled)
		}
	}
	c.start(dies)
	c.ready(dies)
	for _, n := range c.nodes {
		for _, path := range []string{"/before", "/after", "/stored"} {
			if a := n.operate(path); a.status != 201 || string(a.body) != "charged" || a.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s: %s says %s", path, n.id, a)
			}
		}
	}
	for _, path := range []string{"/before", "/after", "/stored"} {
		if n := p.charged(path); n != 1 {
			t.Errorf("%s was charged %d times", path, n)
		}
	}
	c.equalTables()
}
