package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"onced"
	"onced/cluster"
	"onced/cluster/peer/memnet"
	"onced/internal/linear"
)

// TestSeeds has callers do everything with a few keys, by chance, through three nodes in virtual time that lose
// and delay each other's messages and are cut off or restarted, and judges what they were told by the model.
// ONCED_SEEDS says how many seeds to try, and ONCED_SEED which first. A seed chooses calls, faults and pauses; how
// goroutines take turns it does not choose.
func TestSeeds(t *testing.T) {
	first, count := number(t, "ONCED_SEED", 1), number(t, "ONCED_SEEDS", someSeeds)
	for seed := first; seed < first+count; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			inVirtualTime(t, func(c *cluster.Config) { c.ElectionTimeout, c.CommitTimeout = 400*time.Millisecond, 0 }, func(w *world) {
				runSeed(w, uint64(seed))
			})
		})
	}
}

func number(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %q is no number", name, text)
	}
	return n
}

const (
	seedCallers = 6
	seedLasts   = 20 * time.Second
)

func runSeed(w *world, seed uint64) {
	s := &scribe{begun: time.Now(), last: map[string]uint64{}}
	chance := rand.New(rand.NewPCG(seed, 0))
	w.net.SetHook(troubled(rand.NewPCG(seed, 1)))
	nodes := w.doors()
	var callers sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	for i := range seedCallers {
		callers.Go(func() { s.call(ctx, i, nodes, rand.New(rand.NewPCG(seed, uint64(i)+2))) })
	}
	for time.Since(s.begun) < seedLasts {
		w.disturb(chance, nodes)
	}
	end()
	callers.Wait()
	w.net.SetHook(nil)
	w.net.Heal()
	w.ready()
	s.judge(w.t)
	w.sameTables()
}

// troubled loses some messages and answers and delays others.
func troubled(source rand.Source) func(memnet.Message) memnet.Fault {
	var mu sync.Mutex
	chance := rand.New(source)
	return func(m memnet.Message) (f memnet.Fault) {
		mu.Lock()
		defer mu.Unlock()
		dice := chance.IntN(1000)
		switch rare := 5; {
		case m.Path == memnet.Raft && dice >= rare: // a lost message of raft's costs its link two seconds
			if dice < 100 {
				f.Delay = time.Duration(chance.IntN(30)) * time.Millisecond
			}
		case dice < rare:
			f.LoseRequests = true
		case dice < 30:
			f.LoseReplies = true
		case dice < 60:
			f.Refuse = true
		case dice < 200:
			f.Delay = time.Duration(chance.IntN(400)) * time.Millisecond
		case dice < 300:
			f.DelayReplies = time.Duration(chance.IntN(400)) * time.Millisecond
		}
		return f
	}
}

// doors are the nodes as callers find them: those that are down refuse.
type doors struct {
	mu    sync.Mutex
	nodes []*cluster.Node
}

func (w *world) doors() *doors {
	return &doors{nodes: append([]*cluster.Node(nil), w.nodes...)}
}

func (d *doors) get(i int) *cluster.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[i]
}

func (d *doors) set(i int, n *cluster.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[i] = n
}

// disturb does one thing to the nodes and lets some time pass.
func (w *world) disturb(chance *rand.Rand, d *doors) {
	i := chance.IntN(3)
	a, b := w.peers[i].ID, w.peers[(i+1)%3].ID
	switch chance.IntN(4) {
	case 0: // cut off from everybody
		w.net.Cut(a, b)
		w.net.Cut(a, w.peers[(i+2)%3].ID)
	case 1: // from one of the others
		w.net.Cut(a, b)
	case 2: // not heard any more, and hears
		w.net.SetFault(a, b, memnet.Fault{LoseRequests: true})
		w.net.SetFault(a, w.peers[(i+2)%3].ID, memnet.Fault{LoseRequests: true})
	case 3:
		d.set(i, nil)
		w.stop(i)
		time.Sleep(time.Duration(chance.IntN(2000)) * time.Millisecond)
		w.open(i)
		d.set(i, w.nodes[i])
	}
	time.Sleep(time.Duration(500+chance.IntN(3000)) * time.Millisecond)
	w.net.Heal()
	time.Sleep(time.Duration(chance.IntN(2000)) * time.Millisecond)
}

// scribe notes who was told what, and when.
type scribe struct {
	begun time.Time

	mu    sync.Mutex
	clock int64 // of the last note: virtual time stands still while things happen, and their order counts
	ops   []porcupine.Operation
	last  map[string]uint64 // the newest token that anybody was told of a key
	owner int
}

// now is the time since the beginning, each call's its own.
func (s *scribe) now() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = max(s.clock+1, int64(time.Since(s.begun)))
	return s.clock
}

func (s *scribe) call(ctx context.Context, client int, d *doors, chance *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(1+chance.IntN(200)) * time.Millisecond)
		node := d.get(chance.IntN(3))
		if node == nil {
			continue
		}
		c := s.pick(chance)
		limited, cancel := context.WithTimeout(context.Background(), time.Duration(20+chance.IntN(3000))*time.Millisecond)
		c.Begin = s.now()
		a := ask(limited, node, c)
		c.End = s.now()
		cancel()
		s.note(client, c, a)
	}
}

// pick chooses a call on one of the few keys that are fought for at a time. Each key has policies of its own.
func (s *scribe) pick(chance *rand.Rand) linear.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch, kind := int(time.Since(s.begun)/(2*time.Second)), chance.IntN(4)
	c := linear.Call{Key: fmt.Sprintf("k%d-%d", epoch, kind), Retry: kind == 1}
	if kind == 1 || kind == 2 {
		c.Lease = 700 * time.Millisecond
	}
	if kind == 3 {
		c.Retention = time.Second
	}
	token := s.last[c.Key]
	switch dice := chance.IntN(100); {
	case token == 0 || dice < 40:
		s.owner++
		c.Verb, c.Owner = linear.Reserve, fmt.Sprintf("o%d", s.owner-chance.IntN(3))
		if dice%8 == 0 {
			c.Verb = linear.Cancel
		}
		return c
	case dice < 60:
		c.Verb = linear.Get
		return c
	case dice < 68:
		c.Verb, c.Body = linear.Complete, fmt.Sprintf("body %d", chance.IntN(2))
	case dice < 72:
		c.Verb = linear.Unknown
	case dice < 86:
		c.Verb = linear.Release
	default:
		c.Verb = linear.Renew
	}
	c.Token = token
	return c
}

func (s *scribe) note(client int, c linear.Call, a linear.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Lost && c.Verb == linear.Get {
		return // it says nothing
	}
	s.last[c.Key] = max(s.last[c.Key], a.Token)
	s.ops = append(s.ops, linear.Operation(client, c, a))
}

// ask makes the call on the node.
func ask(ctx context.Context, n *cluster.Node, c linear.Call) linear.Answer {
	key, token := id(c.Key), onced.Token(c.Token)
	var record onced.Record
	var err error
	a := linear.Answer{Outcome: "ok"}
	switch c.Verb {
	case linear.Reserve:
		r := onced.ReserveRequest{ID: key, Fingerprint: "f", Owner: c.Owner, Lease: c.Lease, Retention: c.Retention}
		if r.Lease == 0 {
			r.Lease = time.Hour
		}
		if c.Retry {
			r.OnLapse = onced.Retry
		}
		var got onced.ReserveResult
		got, err = n.Reserve(ctx, r)
		record, a.Repeated, a.Outcome = got.Record, got.Repeated, "reserved"
		if got.Replayed {
			a.Outcome = "replayed"
		}
	case linear.Complete:
		record, err = n.Complete(ctx, onced.CompleteRequest{ID: key, Token: token, Response: answer(c.Body)})
	case linear.Unknown:
		record, err = n.Complete(ctx, onced.CompleteRequest{ID: key, Token: token, Unknown: true})
	case linear.Release:
		err = n.Release(ctx, onced.ReleaseRequest{ID: key, Token: token})
	case linear.Cancel:
		err = n.Release(ctx, onced.ReleaseRequest{ID: key, Owner: c.Owner})
	case linear.Renew:
		record, err = n.Renew(ctx, onced.RenewRequest{ID: key, Token: token})
	case linear.Get:
		record, err = n.Get(ctx, onced.GetRequest{ID: key})
	}
	if code := codeOf(err); code == onced.CodeUnavailable {
		return linear.Answer{Lost: true}
	} else if err != nil {
		return linear.Answer{Outcome: string(code)}
	}
	a.State, a.Token, a.Owner, a.Attempt = record.State.String(), uint64(record.Token), record.Owner, int(record.Attempt)
	if record.Response != nil {
		a.Body = string(record.Response.Body)
	}
	return a
}

// judge asks porcupine for an order of the calls on each key. What has none is written out.
func (s *scribe) judge(t testing.TB) {
	t.Helper()
	lost := 0
	for _, op := range s.ops {
		if op.Output.(linear.Answer).Lost {
			lost++
		}
	}
	t.Logf("%d calls, %d of them lost", len(s.ops), lost)
	if len(s.ops) < 50 || lost > len(s.ops)/2 {
		t.Errorf("too little happened to mean something")
	}
	illegal, undecided := linear.Judge(s.ops, time.Hour)
	for _, ops := range illegal {
		t.Errorf("no order of the calls on %s explains what they were told:\n%s", ops[0].Input.(linear.Call).Key, linear.History(ops))
	}
	if len(undecided) > 0 {
		t.Errorf("porcupine does not come to an end with %d keys", len(undecided))
	}
}

// sameTables waits until every node has applied the same entries and compares what came of them.
func (w *world) sameTables() {
	w.t.Helper()
	eventually(w.t, "equal tables", func() error {
		index, meta := w.nodes[0].TableMeta()
		for i, n := range w.nodes[1:] {
			if other, m := n.TableMeta(); other != index || m != meta {
				return fmt.Errorf("n1 has %+v of entry %d, n%d %+v of %d", meta, index, i+2, m, other)
			}
		}
		return nil
	})
}
