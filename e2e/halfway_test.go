//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// run is one request as it reached the upstream.
type run struct{ path, key, attempt, token string }

// provider has the effect of each request, and keeps the answer of the first of a path to itself.
type provider struct {
	*httptest.Server
	began chan run

	mu   sync.Mutex
	runs map[string][]run // by path
}

func newProvider(t *testing.T) *provider {
	p := &provider{began: make(chan run, 10), runs: map[string][]run{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // so that the server sees the gateway die
		got := run{r.URL.Path, r.Header.Get("Idempotency-Key"), r.Header.Get("Onced-Attempt"), r.Header.Get("Onced-Token")}
		p.mu.Lock()
		p.runs[got.path] = append(p.runs[got.path], got)
		first := len(p.runs[got.path]) == 1
		p.mu.Unlock()
		if first {
			p.began <- got
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "attempt %s", got.attempt)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) of(path string) []run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]run(nil), p.runs[path]...)
}

// TestNodeDiesBetweenSendingAndStoring kills a node, the leader or another, whose gateway has sent operations and waits
// for their answers. While the lease lasts the others say that they run. Then hold never runs one again, and retry does so
// with the same key, the next attempt and another token. (F1, F2, F4, F33)
func TestNodeDiesBetweenSendingAndStoring(t *testing.T) {
	for _, leads := range []bool{true, false} {
		t.Run(fmt.Sprintf("leader %v", leads), func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			c := begin(t, func(_ int, n *node) {
				n.settings = append(n.settings, "gateway:", "  addr: "+n.gate, "  upstream: "+p.URL, "  tenant: header:X-Account", "  routes:",
					"    - {match: POST /hold, lease: 8s}", "    - {match: POST /retry, lease: 8s, on_unknown: retry}")
			})
			dies := c.leader()
			if !leads {
				dies = c.others(dies)[0]
			}
			var senders sync.WaitGroup
			for _, path := range []string{"/hold", "/retry"} {
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
			if a := c.insistOf(left, func(n *node) answer { return n.operate("/hold") }); a.code() != "request_in_progress" {
				t.Errorf("while the lease lasts a repeat is told %s", a)
			}
			eventually(t, "the lease is over", func() error {
				if a := left[0].operate("/hold"); a.code() != "outcome_unknown" {
					return fmt.Errorf("%s", a)
				}
				return nil
			})
			var again answer
			eventually(t, "a repeat takes over", func() error {
				if again = left[1].operate("/retry"); again.undecided() || again.code() == "request_in_progress" {
					return fmt.Errorf("%s", again)
				}
				return nil
			})
			if again.status != 201 || string(again.body) != "attempt 2" || again.header.Get("Idempotency-Replayed") != "false" {
				t.Errorf("under retry the repeat is told %s", again)
			}
			c.start(dies)
			c.ready(dies)
			for _, n := range c.nodes {
				if a := n.operate("/hold"); a.code() != "outcome_unknown" {
					t.Errorf("under hold %s says %s", n.id, a)
				}
				if a := n.operate("/retry"); a.status != 201 || a.header.Get("Idempotency-Replayed") != "true" {
					t.Errorf("under retry %s says %s", n.id, a)
				}
			}
			held, retried := p.of("/hold"), p.of("/retry")
			if len(held) != 1 {
				t.Errorf("under hold it ran %d times: %v", len(held), held)
			}
			if len(retried) != 2 || retried[0].key != retried[1].key || retried[1].attempt != "2" || retried[0].token == retried[1].token {
				t.Errorf("under retry the runs were %v", retried)
			}
			c.equalTables()
		})
	}
}

// operate sends the protected request of a path to the gateway of a node.
func (n *node) operate(path string) answer {
	r, err := http.NewRequest(http.MethodPost, "http://"+n.gate+path, strings.NewReader("x"))
	if err != nil {
		return answer{err: err}
	}
	r.GetBody = nil // or the transport could send it a second time
	r.Header.Set("Idempotency-Key", "k-"+path[1:])
	r.Header.Set("X-Account", "acme")
	return do(r)
}

// insistOf is insist on some of the nodes.
func (c *cluster) insistOf(nodes []*node, call func(n *node) answer) answer {
	c.t.Helper()
	return (&cluster{t: c.t, nodes: nodes}).insist(0, call)
}
