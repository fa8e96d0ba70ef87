package founding

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	helloTimeout  = 2 * time.Second
	inviteTimeout = 10 * time.Second // the invitee's disk is in it
	firstPause    = 50 * time.Millisecond
	longestPause  = time.Second
	reportEvery   = 10 * time.Second
)

// ask posts a JSON call and reads its JSON answer.
func (f *Founding) ask(ctx context.Context, addr, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	got, err := f.cfg.Caller.Call(ctx, addr, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(got, answer); err != nil {
		return fmt.Errorf("reading the answer of %s to %s: %w", addr, path, err)
	}
	return nil
}

// others returns the listed peers without this node.
func (f *Founding) others() []Peer {
	var out []Peer
	for _, p := range f.cfg.Peers {
		if p.ID != f.cfg.NodeID {
			out = append(out, p)
		}
	}
	return out
}

// round says hello to all of peers at once and waits for every answer or failure.
func (f *Founding) round(ctx context.Context, peers []Peer) map[string]reply {
	var mu sync.Mutex
	replies := make(map[string]reply)
	var all sync.WaitGroup
	for _, p := range peers {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, helloTimeout)
			defer cancel()
			h, err := f.Hello(ctx, p.Address)
			mu.Lock()
			defer mu.Unlock()
			replies[p.ID] = reply{h, err}
		})
	}
	all.Wait()
	return replies
}

// pacer spaces the rounds of one wait, and says what is waited for.
type pacer struct {
	f        *Founding
	what     string
	pause    time.Duration
	reported time.Time
}

func (f *Founding) pacer(what string) *pacer { return &pacer{f: f, what: what, pause: firstPause} }

// wait logs what is missing, at once and then every 10 s, and pauses: with jitter,
// longer each time, and only until a peer that was missing says hello.
func (p *pacer) wait(ctx context.Context, missing ...string) error {
	now := time.Now()
	if p.reported.IsZero() || now.Sub(p.reported) >= reportEvery {
		p.reported = now
		p.f.cfg.Logger.Info(p.what, slog.String("waiting_for", strings.Join(missing, "; ")))
	}
	timer := time.NewTimer(p.pause/2 + rand.N(p.pause/2))
	defer timer.Stop()
	p.pause = min(2*p.pause, longestPause)
	select {
	case <-timer.C:
	case <-p.f.poke:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", p.what, context.Cause(ctx))
	}
	return nil
}

// expect says whose hello ends a pause: those that did not answer, so that two nodes
// that both answered do not drive each other on.
func (f *Founding) expect(replies map[string]reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.missing)
	for _, p := range f.others() {
		if r, ok := replies[p.ID]; !ok || r.err != nil {
			f.missing[p.ID] = true
		}
	}
}
