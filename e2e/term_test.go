//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestLeaderStops ends the leader in order, under load: it exits with 0, no call is told anything but an answer,
// 503 or that nobody listens, and the others lead and write soon.
func TestLeaderStops(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	for round := range rounds(3, 1) {
		p := c.persist(fmt.Sprintf("term-%d", round), 16)
		time.Sleep(500 * time.Millisecond)
		leader := c.leader()
		start := time.Now()
		leader.signal(syscall.SIGTERM)
		next := c.leader(leader)
		led := time.Since(start)
		if code := leader.exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		ended := time.Since(start)
		time.Sleep(500 * time.Millisecond)
		p.stop(t)
		t.Logf("round %d: %s is seen to lead after %s, %s has ended after %s, the longest pause between two writes was %s; told instead of an answer: %v",
			round, next.id, led.Round(time.Millisecond), leader.id, ended.Round(time.Millisecond), p.pause.Round(time.Millisecond), p.refusals)
		if p.pause > 5*time.Second {
			t.Errorf("nobody could write for %s", p.pause)
		}
		c.start(leader)
		c.ready(leader)
		c.equalTables()
		c.verifyAll(p.records)
	}
}

// persistent are writers that send what was refused again, to the next node.
type persistent struct {
	ended   chan struct{}
	writers sync.WaitGroup

	mu       sync.Mutex
	records  []kept
	last     time.Time // of a write
	pause    time.Duration
	refusals map[string]int
	faults   []string
}

func (c *cluster) persist(name string, writers int) *persistent {
	p := &persistent{ended: make(chan struct{}), last: time.Now(), refusals: map[string]int{}}
	for w := range writers {
		p.writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-p.ended:
					return
				default:
				}
				p.pair(c, fmt.Sprintf("%s-%d-%d", name, w, i), w+i, kind(2, i))
			}
		})
	}
	return p
}

// pair reserves and completes one key.
func (p *persistent) pair(c *cluster, key string, first int, s stored) {
	a := p.insist(c, first, func(n *node) answer { return n.reserve(key, object{"owner": "o"}) })
	if a.status != 201 {
		p.fault("reserve of %s: %s", key, a)
		return
	}
	token := a.record().Token
	if a = p.insist(c, first+1, func(n *node) answer { return n.complete(key, token, s.object()) }); a.status != 200 {
		p.fault("complete of %s: %s", key, a)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, kept{key, token, &s, &s})
}

// insist sends a call to the nodes in turn until it is answered.
func (p *persistent) insist(c *cluster, first int, call func(n *node) answer) (a answer) {
	for i, end := first, time.Now().Add(patience); time.Now().Before(end); i++ {
		if a = call(c.nodes[i%len(c.nodes)]); !a.undecided() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.pause, p.last = max(p.pause, time.Since(p.last)), time.Now()
			return a
		}
		p.refused(a)
		time.Sleep(time.Millisecond)
	}
	return a
}

// refused judges an answer that is none.
func (p *persistent) refused(a answer) {
	what := a.code()
	switch {
	case errors.Is(a.err, syscall.ECONNREFUSED):
		what = "connection refused"
	case errors.Is(a.err, syscall.ECONNRESET), errors.Is(a.err, syscall.EPIPE):
		// The kernel had taken the connection, but the node not yet, when it stopped listening.
		what = "connection not taken"
	case a.reused && (errors.Is(a.err, io.EOF) || a.err != nil && strings.Contains(a.err.Error(), "server closed idle connection")):
		// net/http has no value for the second, which is what it says where it sees the end first. It had been idle for longer than the node lets connections go one by one, and was closed at the
		// moment at which it was used again: HTTP/1.1 has no way around that.
		what = "idle connection closed"
	case a.err != nil:
		what = a.err.Error()
		p.fault("%s", what)
	case what != "unavailable" || a.header.Get("Retry-After") == "":
		p.fault("%s", a)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusals[what]++
}

func (p *persistent) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// stop ends the writers, and fails the test for what none of them should have been told.
func (p *persistent) stop(t *testing.T) {
	t.Helper()
	close(p.ended)
	p.writers.Wait()
	for i, fault := range p.faults {
		if i == 5 {
			t.Errorf("and %d more", len(p.faults)-i)
			break
		}
		t.Error(fault)
	}
}
