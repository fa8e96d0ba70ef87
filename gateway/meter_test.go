package gateway

import (
	"bytes"
	"fmt"
	"sync"
)

// tally is a Meter that adds up.
type tally struct {
	mu     sync.Mutex
	counts map[string]int64
	grown  sync.Cond // L is mu
	most   int64     // bytes of bodies at once
}

func (m *tally) add(what string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts = map[string]int64{}
	}
	m.counts[what] += n
	m.grown.Broadcast()
	if what == "bodies" {
		m.most = max(m.most, m.counts[what])
	}
}

func (m *tally) of(what string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[what]
}

// wait returns once a figure is at least n.
func (m *tally) wait(what string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.grown.L = &m.mu; m.counts[what] < n; {
		m.grown.Wait()
	}
}

func (m *tally) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(m.counts)
}

func (m *tally) UnderWay(route string, n int)    { m.add("under way "+route, int64(n)) }
func (m *tally) Overloaded(route, reason string) { m.add(reason+" "+route, 1) }
func (m *tally) BodyBytes(n int64)               { m.add("bodies", n) }
func (m *tally) Suspected(tenant string)         { m.add("suspected "+tenant, 1) }
func (m *tally) Blob(event string, n int)        { m.add(event, int64(n)) }

// lines is a place for a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
