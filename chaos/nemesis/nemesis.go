//go:build linux

// Package nemesis harms a cluster, and heals it again.
//
// Invariants:
//
//   - What is done, to whom by role, for how long and in which order is decided by the seed alone. Who has the
//     role is the cluster's doing.
//   - Every fault is healed before Run returns, also when the round ends in the middle of it.
//   - At most one node at a time has a wrong clock or a broken disk: more is not promised to be survived.
package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"onced/chaos/check"
	"onced/chaos/history"
	"onced/chaos/lab"
)

// Need is what a fault needs of the machine.
type Need int

// Process is a process alone, Space a network namespace and a disk of its own, Wire a link that delays and loses.
const (
	Process Need = iota
	Space
	Wire
)

// Fault is something that is done to a cluster.
type Fault struct {
	Name  string
	About string
	Need  Need
	alone bool // its healing needs the others well
	boxed bool // can be done to containers of the shipped image
	do    func(*act) (harm, error)
}

// harm is a fault that has begun.
type harm struct {
	text string                      // what was done to whom
	hold time.Duration               // for how long
	heal func(context.Context) error // undoes it; nil = starting what has ended is enough
}

// act is one time that a fault is done.
type act struct {
	ctx    context.Context
	c      *lab.Cluster
	chance *rand.Rand
}

// Usable are the faults that a cluster can be harmed by, and those that it cannot.
func Usable(c *lab.Cluster, faults []Fault) (usable, not []Fault) {
	for _, f := range faults {
		if !possible(f, c.Contained(), c.Namespaces(), c.Wired()) {
			not = append(not, f)
		} else {
			usable = append(usable, f)
		}
	}
	return usable, not
}

func possible(f Fault, contained, namespaces, wired bool) bool {
	if contained {
		return f.boxed
	}
	return (f.Need != Space || namespaces) && (f.Need != Wire || wired)
}

// Named returns the faults of these names; a name that ends in * stands for all that begin so, and none for all.
func Named(names []string) ([]Fault, error) {
	if len(names) == 0 {
		return All, nil
	}
	var picked []Fault
	for _, name := range names {
		found := false
		for _, f := range All {
			prefix, many := strings.CutSuffix(name, "*")
			if f.Name == name || many && strings.HasPrefix(f.Name, prefix) {
				picked, found = append(picked, f), true
			}
		}
		if !found {
			return nil, fmt.Errorf("%q is no fault: expected one that --list names, or a beginning and *", name)
		}
	}
	return picked, nil
}

// Nemesis harms a cluster.
type Nemesis struct {
	Cluster *lab.Cluster
	Faults  []Fault
	Seed    uint64
	Mixed   float64 // share of the times that two faults come at once
	Book    *history.Book
	Say     func(string)
	// AloneFirst lets a fault be the first of two only after it came alone.
	AloneFirst bool

	times int             // faults done so far, over all rounds
	deck  []int           // faults that come next
	alone map[string]bool // faults that came alone
}

// readyWithin is how long a healed cluster may take until every node is ready.
const readyWithin = 60 * time.Second

// Run harms the cluster until ctx ends. What it returns is that the cluster did not come back.
func (n *Nemesis) Run(ctx context.Context) (found []check.Finding) {
	n.wait(ctx, 500*time.Millisecond)
	for ctx.Err() == nil {
		n.times++
		chance := rand.New(rand.NewPCG(n.Seed, uint64(n.times)))
		found = append(found, n.once(ctx, n.pick(chance), chance)...)
		if len(found) > 0 {
			return found
		}
		n.wait(ctx, 300*time.Millisecond+time.Duration(chance.Int64N(int64(time.Second))))
	}
	return found
}

func (n *Nemesis) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pick takes faults from a deck, so that none comes a second time before each came once.
func (n *Nemesis) pick(chance *rand.Rand) []Fault {
	first := n.draw(chance)
	if first.alone || chance.Float64() >= n.Mixed || n.AloneFirst && !n.alone[first.Name] {
		if n.alone == nil {
			n.alone = map[string]bool{}
		}
		n.alone[first.Name] = true
		return []Fault{first}
	}
	for range n.Faults {
		second := n.Faults[chance.IntN(len(n.Faults))]
		if !second.alone && family(second) != family(first) {
			return []Fault{first, second}
		}
	}
	return []Fault{first}
}

// family is what stands before the hyphen: two of one family do not come at once.
func family(f Fault) string {
	name, _, _ := strings.Cut(f.Name, "-")
	return name
}

func (n *Nemesis) draw(chance *rand.Rand) Fault {
	if len(n.deck) == 0 {
		n.deck = chance.Perm(len(n.Faults))
	}
	f := n.Faults[n.deck[0]]
	n.deck = n.deck[1:]
	return f
}

// once does some faults at once, heals them and waits until the cluster is well.
func (n *Nemesis) once(ctx context.Context, faults []Fault, chance *rand.Rand) []check.Finding {
	w := history.Window{From: n.Book.Now()}
	var names, texts []string
	var harms []harm
	var failed []error
	for _, f := range faults {
		h, err := f.do(&act{ctx, n.Cluster, chance})
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", f.Name, err))
		}
		names, texts, harms = append(names, f.Name), append(texts, f.Name+": "+h.text), append(harms, h)
	}
	slices.Sort(names)
	w.Fault, w.Text = strings.Join(names, check.Together), strings.Join(texts, "; ")
	n.Say(w.Text)
	for _, h := range harms {
		n.wait(ctx, h.hold)
	}
	whole := context.WithoutCancel(ctx) // the round may be over, the healing is not
	for _, h := range slices.Backward(harms) {
		if h.heal == nil {
			continue
		}
		if err := h.heal(whole); err != nil {
			failed = append(failed, err)
		}
	}
	err := n.well(whole)
	w.Until = n.Book.Now()
	n.Book.Note(func(b *history.Book) { b.Windows = append(b.Windows, w) })
	if err != nil {
		failed = append(failed, err)
	}
	var found []check.Finding
	for _, err := range failed {
		found = append(found, check.Finding{Check: check.Nodes, Text: fmt.Sprintf("after %s: %v", w.Text, err)})
	}
	return found
}

// well starts what has ended, and replaces what was damaged and does not come back.
func (n *Nemesis) well(ctx context.Context) error {
	if err := n.Cluster.Start(); err != nil {
		return err
	}
	for _, node := range n.Cluster.Nodes() {
		if !node.Damaged() {
			continue
		}
		if why := n.Cluster.Settled(ctx, node, 20*time.Second); why != nil {
			n.Say(fmt.Sprintf("%s is replaced: %v", node.ID, why))
			if err := n.Cluster.Replace(ctx, node); err != nil {
				return err
			}
		}
	}
	return n.Cluster.Ready(ctx, readyWithin)
}

// span is a duration from least to most.
func (a *act) span(least, most time.Duration) time.Duration {
	return least + time.Duration(a.chance.Int64N(int64(most-least)))
}

// one is the leader or a follower, by chance, and what it is called.
func (a *act) one() (*lab.Node, string) {
	leader, others := a.c.Pick(a.ctx)
	if i := a.chance.IntN(len(others) + 1); i < len(others) {
		return others[i], "the follower " + others[i].ID
	}
	return leader, "the leader " + leader.ID
}

// leader is who leads, follower one of the others.
func (a *act) leader() *lab.Node {
	leader, _ := a.c.Pick(a.ctx)
	return leader
}

func (a *act) follower() *lab.Node {
	_, others := a.c.Pick(a.ctx)
	return others[a.chance.IntN(len(others))]
}
