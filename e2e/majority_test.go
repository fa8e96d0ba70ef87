//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// upstream counts the charges that reach it.
type upstream struct {
	*httptest.Server
	hits atomic.Int64
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hit := u.hits.Add(1)
		w.Header().Set("Location", fmt.Sprintf("/charges/%d", hit))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d", hit)
	}))
	t.Cleanup(u.Close)
	return u
}

// protect gives a node a gateway before u.
func (u *upstream) protect(n *node) {
	n.settings = append(n.settings, "gateway:", "  addr: "+n.gate, "  upstream: "+u.URL, "  tenant: header:X-Account",
		"  routes:", "    - match: POST /charge", "      key: required")
}

// charge sends a protected request to the gateway of a node.
func (n *node) charge(key string) answer {
	r, err := http.NewRequest(http.MethodPost, "http://"+n.gate+"/charge", io.NopCloser(strings.NewReader(`{"amount":1}`)))
	if err != nil {
		return answer{err: err}
	}
	r.ContentLength = 12
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Account", "acme")
	return do(r)
}

// TestNoMajority takes two nodes away. The one that is left refuses, in time, whatever must be
// decided, lets nothing through to the upstream, and still replays what is completed. With the second node
// writing goes on.
func TestNoMajority(t *testing.T) {
	for _, lost := range []struct {
		name       string
		take, give func(c *cluster, n *node)
		leaderLeft bool
	}{
		{"killed, a follower is left", func(_ *cluster, n *node) { n.kill() }, func(c *cluster, n *node) { c.start(n) }, false},
		{"killed, the leader is left", func(_ *cluster, n *node) { n.kill() }, func(c *cluster, n *node) { c.start(n) }, true},
		{"stopped, a follower is left", func(_ *cluster, n *node) { n.freeze() }, func(_ *cluster, n *node) { n.thaw() }, false},
		{"stopped, the leader is left", func(_ *cluster, n *node) { n.freeze() }, func(_ *cluster, n *node) { n.thaw() }, true},
	} {
		t.Run(lost.name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t)
			c := begin(t, func(_ int, n *node) {
				n.settings = append(n.settings, "request_timeout: 2s")
				u.protect(n)
			})
			m := prepare(c, u, lost.leaderLeft)
			gone := c.others(m.left)
			for _, n := range gone {
				lost.take(c, n)
			}
			m.refusesAll()
			m.replays()
			lost.give(c, gone[0])
			m.goesOn()
			lost.give(c, gone[1])
			c.ready(c.nodes...)
			c.equalTables()
		})
	}
}

// minority is the node that is left, and what was there before.
type minority struct {
	c      *cluster
	u      *upstream
	left   *node
	token  uint64 // of the key held
	answer stored // of the key done
	charge answer // of the key charged
}

// prepare writes a completed record, a held one and a charge, and waits until they are in the
// table of the node that will be left.
func prepare(c *cluster, u *upstream, leader bool) *minority {
	m := &minority{c: c, u: u, left: c.leader(), answer: kind(1, 1)}
	if !leader {
		m.left = c.others(m.left)[0]
	}
	done, held := m.left.reserve("done", nil), m.left.reserve("held", object{"lease": "1h"})
	m.token = held.record().Token
	if a := m.left.complete("done", done.record().Token, m.answer.object()); a.status != 200 || held.status != 201 {
		c.t.Fatalf("%s, %s", held, a)
	}
	if m.charge = m.left.charge("charged"); m.charge.status != 201 {
		c.t.Fatalf("charging: %s", m.charge)
	}
	c.equalTables() // so that the node has it in its own
	return m
}

// refusesAll sends every kind of call at once: each is 503 within the request's timeout.
func (m *minority) refusesAll() {
	m.c.t.Helper()
	var senders sync.WaitGroup
	hits := m.u.hits.Load()
	for name, call := range map[string]func() answer{
		"reserve":          func() answer { return m.left.reserve("new", nil) },
		"reserve by owner": func() answer { return m.left.reserve("newer", object{"owner": "o"}) },
		"duplicate":        func() answer { return m.left.reserve("held", nil) },
		"complete":         func() answer { return m.left.complete("held", m.token, m.answer.object()) },
		"release":          func() answer { return m.left.post("held", "release", object{"token": m.token}) },
		"renew":            func() answer { return m.left.post("held", "renew", object{"token": m.token}) },
		"get":              func() answer { return m.left.look("done") },
		"charge":           func() answer { return m.left.charge("uncharged") },
	} {
		senders.Go(func() {
			start := time.Now()
			a := call()
			took := time.Since(start)
			after, err := strconv.Atoi(a.header.Get("Retry-After"))
			if a.status != 503 || a.code() != "unavailable" || err != nil || after < 1 {
				m.c.t.Errorf("%s: %s, Retry-After %q: expected 503 unavailable with one", name, a, a.header.Get("Retry-After"))
			}
			if took > 4*time.Second {
				m.c.t.Errorf("%s: refused after %s, expected 2 s", name, took)
			}
		})
	}
	senders.Wait()
	if now := m.u.hits.Load(); now != hits {
		m.c.t.Errorf("the upstream saw %d requests without a majority", now-hits)
	}
}

// replays checks that what is completed is answered from the node's own table.
func (m *minority) replays() {
	m.c.t.Helper()
	a := m.left.reserve("done", nil)
	if err := m.answer.same(a.record().Response); a.status != 200 || err != nil {
		m.c.t.Errorf("the replay is %.200s: %v", a, err)
	}
	a = m.left.charge("charged")
	if a.status != 201 || string(a.body) != string(m.charge.body) || a.header.Get("Location") != m.charge.header.Get("Location") || a.header.Get("Idempotency-Replayed") != "true" {
		m.c.t.Errorf("the gateway's replay is %s %v, the first answer was %s", a, a.header, m.charge)
	}
}

// goesOn waits until the node that is left writes again, with one more node, and tells how long it took.
func (m *minority) goesOn() {
	m.c.t.Helper()
	start := time.Now()
	eventually(m.c.t, "writing goes on", func() error {
		if a := m.left.reserve("again", object{"owner": "o"}); a.status != 201 {
			return fmt.Errorf("%s", a)
		}
		return nil
	})
	took := time.Since(start)
	m.c.t.Logf("writing went on %s after the second node was started", took.Round(time.Millisecond))
	if took > 15*time.Second {
		m.c.t.Errorf("it took %s", took)
	}
	if a := m.left.charge("uncharged"); a.status != 201 || a.header.Get("Idempotency-Replayed") != "false" {
		m.c.t.Errorf("the charge that was refused is now told %s", a)
	}
	if hits := m.u.hits.Load(); hits != 2 { // "charged", and "uncharged" once: what was told 503 did not run late
		m.c.t.Errorf("the upstream saw %d requests, expected 2", hits)
	}
	if a := m.left.complete("held", m.token, m.answer.object()); a.status != 200 && a.code() != "stale_token" {
		// stale: the release that was told 503 may have taken effect.
		m.c.t.Errorf("the holder is told %s", a)
	}
}
