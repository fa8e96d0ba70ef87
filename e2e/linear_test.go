//go:build linux

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"onced/internal/linear"
)

// TestLinearizable has callers do everything with a few keys at a time through nodes by chance, while the leader is
// killed and started again, and another is stopped for a while. What they were told must fit one order of the calls.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	c := begin(t, func(_ int, n *node) { n.settings = append(n.settings, "request_timeout: 2s") })
	h := &historian{c: c, begun: time.Now(), known: map[string][]uint64{}, ended: make(chan struct{})}
	var callers sync.WaitGroup
	for id := range 10 {
		callers.Go(func() { h.run(id, rand.New(rand.NewPCG(uint64(id), 42))) })
	}
	time.Sleep(time.Second)
	killed := c.leader()
	killed.kill()
	time.Sleep(500 * time.Millisecond)
	c.start(killed)
	time.Sleep(1500 * time.Millisecond)
	frozen := c.leader()
	frozen.freeze()
	time.Sleep(1500 * time.Millisecond)
	frozen.thaw()
	time.Sleep(time.Second)
	eventually(t, "enough has happened", h.enough)
	close(h.ended)
	callers.Wait()
	h.judge(t)
	c.ready(c.nodes...)
	c.equalTables()
}

// historian notes who was told what, and when.
type historian struct {
	c     *cluster
	begun time.Time
	ended chan struct{}

	mu    sync.Mutex
	ops   []porcupine.Operation
	known map[string][]uint64 // the tokens that anybody was told of a key
	owner int
}

// keysAtOnce is how many keys the callers fight for; after a while they turn to others, as a
// completed one stays so.
const keysAtOnce = 3

func (h *historian) run(id int, chance *rand.Rand) {
	for {
		select {
		case <-h.ended:
			return
		default:
		}
		epoch := int(time.Since(h.begun) / (250 * time.Millisecond))
		r := h.pick(fmt.Sprintf("linear-%d-%d", epoch, chance.IntN(keysAtOnce)), chance)
		n := h.c.nodes[chance.IntN(len(h.c.nodes))]
		r.Begin = int64(time.Since(h.begun))
		told := tell(n.ask(r, 50*time.Millisecond+time.Duration(chance.IntN(1000))*time.Millisecond))
		r.End = int64(time.Since(h.begun))
		h.note(id, r, told)
		if told.Lost {
			time.Sleep(20 * time.Millisecond) // calls that are lost cost the judge most
		}
	}
}

// pick chooses a call. Owners are repeated now and then, and tokens are taken from whoever was told one.
func (h *historian) pick(key string, chance *rand.Rand) linear.Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := linear.Call{Key: key}
	known := h.known[key]
	if dice := chance.IntN(100); len(known) == 0 || dice < 35 {
		r.Verb = linear.Reserve
		if h.owner++; chance.IntN(3) == 0 {
			h.owner -= min(h.owner-1, chance.IntN(4))
		}
		r.Owner = fmt.Sprintf("o%d", h.owner)
		if chance.IntN(8) == 0 {
			r.Verb = linear.Cancel
		}
		return r
	} else if dice < 55 {
		r.Verb = linear.Get
		return r
	}
	r.Token = known[len(known)-1]
	if chance.IntN(5) == 0 {
		r.Token = known[chance.IntN(len(known))]
	}
	switch chance.IntN(16) {
	case 0, 1, 2:
		r.Verb, r.Body = linear.Complete, fmt.Sprintf("body %d", chance.IntN(2))
	case 3:
		r.Verb = linear.Unknown
	case 4, 5, 6, 7, 8, 9:
		r.Verb = linear.Release
	default:
		r.Verb = linear.Renew
	}
	return r
}

// ask sends r to the node and waits for as long as patience.
func (n *node) ask(r linear.Call, patience time.Duration) answer {
	ctx, hangUp := context.WithTimeout(context.Background(), patience)
	defer hangUp()
	path := "/v1/keys/" + r.Key
	switch r.Verb {
	case linear.Get:
		return n.sendUntil(ctx, http.MethodGet, path, nil)
	case linear.Reserve:
		return n.sendUntil(ctx, http.MethodPost, path+"/reserve", object{"fingerprint": "f", "owner": r.Owner, "lease": "24h"})
	case linear.Complete:
		return n.sendUntil(ctx, http.MethodPost, path+"/complete", object{"token": r.Token, "response": object{"status": 200, "body": r.Body}})
	case linear.Unknown:
		return n.sendUntil(ctx, http.MethodPost, path+"/complete", object{"token": r.Token, "outcome": "unknown"})
	case linear.Cancel:
		return n.sendUntil(ctx, http.MethodPost, path+"/release", object{"owner": r.Owner})
	}
	return n.sendUntil(ctx, http.MethodPost, path+"/"+string(r.Verb), object{"token": r.Token})
}

// tell reads what the model looks at out of an answer.
func tell(a answer) linear.Answer {
	if a.undecided() {
		return linear.Answer{Lost: true}
	}
	r := a.record()
	told := linear.Answer{Outcome: a.code(), State: r.State, Token: r.Token, Owner: r.Owner, Attempt: r.Attempt, Repeated: r.Repeated}
	if told.Outcome == "" {
		told.Outcome = cmp.Or(r.Outcome, "ok")
	}
	var response struct{ Response struct{ Body string } }
	_ = a.decode(&response)
	told.Body = response.Response.Body
	return told
}

func (h *historian) note(id int, r linear.Call, told linear.Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if told.Lost && r.Verb == linear.Get {
		return // it says nothing
	}
	if told.Token != 0 && (len(h.known[r.Key]) == 0 || told.Token > h.known[r.Key][len(h.known[r.Key])-1]) {
		h.known[r.Key] = append(h.known[r.Key], told.Token)
	}
	h.ops = append(h.ops, linear.Operation(id, r, told))
}

// enough returns an error while too little has happened to mean something.
func (h *historian) enough() error {
	if tally := h.tally(); tally["reserve lost"] == 0 || tally["reserve reserved"] < 20 || tally["complete ok"] < 5 || tally["release ok"] < 5 {
		return fmt.Errorf("only %v", tally)
	}
	return nil
}

// tally counts the calls by what they were told.
func (h *historian) tally() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	tally := map[string]int{}
	for _, op := range h.ops {
		told := op.Output.(linear.Answer)
		if told.Lost {
			told.Outcome = "lost"
		}
		tally[string(op.Input.(linear.Call).Verb)+" "+told.Outcome]++
	}
	return tally
}

// judge asks porcupine. What it cannot order is written out.
func (h *historian) judge(t *testing.T) {
	t.Helper()
	t.Logf("%d calls: %v", len(h.ops), h.tally())
	illegal, undecided := linear.Judge(h.ops, time.Minute)
	for _, ops := range illegal {
		t.Errorf("there is no order of the calls on %s that explains the answers:\n%s", ops[0].Input.(linear.Call).Key, linear.History(ops))
	}
	if len(undecided) > 0 {
		t.Errorf("porcupine does not come to an end with %d keys", len(undecided))
	}
}
