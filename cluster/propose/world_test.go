package propose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"onced"
	"onced/cluster/clock"
	"onced/fsm"
	"onced/fsm/command"
	"onced/fsm/memtable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster with one true log, whose leaders change and whose network loses
// and delays as the test says. It runs in virtual time.
type world struct {
	t     testing.TB
	nodes []*node

	mu          sync.Mutex
	rng         *rand.Rand
	table       *memtable.Table
	index       uint64
	term        uint64
	leader      int
	tail        []*pendingEntry // appended, not committed
	commitDelay time.Duration
	held        bool // nothing is committed
	link        func(from, to int) fault
	history     []applied
}

// applied is one command that is in the log.
type applied struct {
	index   uint64
	stamp   int64
	cmd     *command.Command
	outcome fsm.Outcome
	in      int // commands in its entry
}

// fault is what becomes of one frame.
type fault struct {
	notSent   bool
	delay     time.Duration // before it is delivered, whether or not its sender still waits
	loseReply bool
}

type node struct {
	*Proposer
	world    *world
	id       int
	clock    *clock.Clock
	routes   *Routes
	counters *Counters
	retrier  *Retrier
}

type pendingEntry struct {
	data    []byte
	results *command.Results
	err     error
	done    chan struct{}
}

func (e *pendingEntry) Wait() (*command.Results, error) {
	<-e.done
	return e.results, e.err
}

func newWorld(t testing.TB, nodes int, adjust func(*Config)) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(1, 1)), table: memtable.New(), leader: -1}
	for i := range nodes {
		n := &node{world: w, id: i, clock: clock.New(clock.Config{}), routes: NewRoutes(), counters: &Counters{}}
		cfg := Config{Log: n, Forwarder: n, Clock: n.clock, Routes: n.routes, Counters: n.counters}
		if adjust != nil {
			adjust(&cfg)
		}
		n.Proposer = New(cfg)
		n.retrier = NewRetrier(RetryConfig{Doer: n.Proposer, Routes: n.routes, Counters: n.counters, Logger: slog.New(slog.DiscardHandler)})
		w.nodes = append(w.nodes, n)
	}
	return w
}

// close ends every node and lets what the log still holds end as unknown.
func (w *world) close() {
	for _, n := range w.nodes {
		n.retrier.Close()
		n.Proposer.Close()
	}
	w.elect(-1)
}

// elect begins a term with a leader, -1 for none. Of what was appended but not
// committed, a prefix of random length survives.
func (w *world) elect(leader int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	survivors := w.rng.IntN(len(w.tail) + 1)
	for i, e := range w.tail {
		if i < survivors {
			w.apply(e)
		}
		e.results, e.err = nil, ErrUnknown
		close(e.done)
	}
	w.tail = nil
	for _, n := range w.nodes {
		n.clock.Resign(w.term)
	}
	w.term++
	w.leader = leader
	for i, n := range w.nodes {
		if leader < 0 {
			n.routes.Set(Route{Term: w.term})
			continue
		}
		if i == leader {
			n.clock.Lead(w.term, w.table.Meta().Clock, []clock.Answer{n.clock.Answer(), n.clock.Answer()}, len(w.nodes))
		}
		n.routes.Set(Route{Known: true, Self: i == leader, Leader: fmt.Sprint("n", leader), Addr: strconv.Itoa(leader), Term: w.term})
	}
}

// Append is part of Log.
func (n *node) Append(data []byte) Future {
	w := n.world
	e := &pendingEntry{data: data, done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leader != n.id {
		e.err = ErrNotApplied
		close(e.done)
		return e
	}
	w.tail = append(w.tail, e)
	if w.commitDelay == 0 {
		w.commit(e)
	} else {
		time.AfterFunc(w.commitDelay, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.commit(e)
		})
	}
	return e
}

// commit decides the tail up to e, unless it is gone. w.mu is held.
func (w *world) commit(e *pendingEntry) {
	if w.held {
		return
	}
	for i, other := range w.tail {
		if other != e {
			continue
		}
		for _, ready := range w.tail[:i+1] {
			w.apply(ready)
			close(ready.done)
		}
		w.tail = w.tail[i+1:]
		return
	}
}

// hold keeps the log from committing; letting go commits what waits.
func (w *world) hold(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
	if len(w.tail) > 0 {
		w.commit(w.tail[len(w.tail)-1])
	}
}

// apply decides an entry. w.mu is held.
func (w *world) apply(e *pendingEntry) {
	entry, err := fsm.DecodeEntry(e.data)
	if err != nil {
		w.t.Errorf("the log holds an entry that stops every node: %v", err)
		return
	}
	w.index++
	results, err := fsm.Apply(w.table, w.index, entry)
	if err != nil {
		w.t.Errorf("applying: %v", err)
		return
	}
	e.results = &command.Results{Index: w.index}
	for i, r := range results {
		e.results.Results = append(e.results.Results, fsm.EncodeResult(r))
		w.history = append(w.history, applied{w.index, entry.StampMs, entry.Commands[i], r.Outcome, len(entry.Commands)})
	}
}

// Forward is part of Forwarder: the network.
func (n *node) Forward(ctx context.Context, addr string, frame []byte) ([]byte, error) {
	w := n.world
	to, _ := strconv.Atoi(addr)
	var f fault
	w.mu.Lock()
	if w.link != nil {
		f = w.link(n.id, to)
	}
	w.mu.Unlock()
	if f.notSent {
		return nil, fmt.Errorf("dialling: %w", ErrNotApplied)
	}
	type reply struct {
		data []byte
		err  error
	}
	replies := make(chan reply, 1)
	go func() {
		// The worst network: the frame arrives and is worked on though its sender is gone.
		time.Sleep(f.delay)
		data, err := w.nodes[to].Receive(context.Background(), frame)
		if err != nil {
			err = fmt.Errorf("refused: %w: %w", ErrNotApplied, err)
		}
		if !f.loseReply {
			replies <- reply{data, err}
		}
	}()
	select {
	case r := <-replies:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *world) setLink(link func(from, to int) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.link = link
}

// log returns what is in the log so far.
func (w *world) log() []applied {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]applied(nil), w.history...)
}

// row returns the table's row of a key.
func (w *world) row(key string) *fsm.Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	row, _ := w.table.Row(onced.ID{Tenant: "t", Key: onced.Key(key)})
	return row
}

// count tells how often the log holds a command that which names.
func (w *world) count(which func(applied) bool) int {
	n := 0
	for _, a := range w.log() {
		if which(a) {
			n++
		}
	}
	return n
}

func reserves(owner string) func(applied) bool {
	return func(a applied) bool {
		return a.cmd.GetReserve().GetOwner() == owner && a.cmd.GetReserve() != nil && a.outcome != fsm.OutcomeLate
	}
}

func cancels(owner string) func(applied) bool {
	return func(a applied) bool { return a.cmd.GetCancel() != nil && a.cmd.GetCancel().Owner == owner }
}

func cmdID(key string) *command.ID { return &command.ID{Tenant: "t", Key: []byte(key)} }

func reserve(key, owner string) *command.Command {
	return &command.Command{Kind: &command.Command_Reserve{Reserve: &command.Reserve{
		Id: cmdID(key), Owner: owner, LeaseMs: 30_000, RetentionMs: 86_400_000,
	}}}
}

func complete(key string, token uint64, body int) *command.Command {
	return &command.Command{Kind: &command.Command_Complete{Complete: &command.Complete{
		Id: cmdID(key), Token: token, Response: &command.Response{Status: 200, Body: make([]byte, body)},
	}}}
}

func expire() *command.Command {
	return &command.Command{Kind: &command.Command_Expire{Expire: &command.Expire{Limit: 10}}}
}

// within returns a context with a deadline in virtual time.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func outcome(r Result) fsm.Outcome { return fsm.Outcome(r.Result.GetOutcome()) }

// fateName is the short name of an end, for tables.
func fateName(err error) string {
	switch {
	case err == nil:
		return "applied"
	case errors.Is(err, ErrUnknown) && errors.Is(err, ErrNotApplied):
		return "both: " + err.Error()
	case errors.Is(err, ErrUnknown):
		return "unknown"
	case errors.Is(err, ErrNotApplied):
		return "not applied"
	}
	return "other: " + err.Error()
}
