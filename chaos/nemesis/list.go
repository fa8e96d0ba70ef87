//go:build linux

package nemesis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"onced/chaos/lab"
)

// All are the faults.
var All = []Fault{
	{Name: "kill-leader", About: "SIGKILL of the leader", boxed: true, do: func(a *act) (harm, error) { return a.kill(a.leader()) }},
	{Name: "kill-follower", About: "SIGKILL of a follower", boxed: true, do: func(a *act) (harm, error) { return a.kill(a.follower()) }},
	{Name: "kill-two", About: "SIGKILL of two nodes at once", boxed: true, do: func(a *act) (harm, error) { return a.kill(a.leader(), a.follower()) }},
	{Name: "kill-all", About: "SIGKILL of every node at once", boxed: true, do: func(a *act) (harm, error) { return a.kill(a.c.Nodes()...) }},
	{Name: "term-leader", About: "SIGTERM of the leader", boxed: true, do: func(a *act) (harm, error) { return a.term(a.leader()) }},
	{Name: "term-follower", About: "SIGTERM of a follower", boxed: true, do: func(a *act) (harm, error) { return a.term(a.follower()) }},
	{Name: "term-all", About: "SIGTERM of every node at once", boxed: true, do: func(a *act) (harm, error) { return a.term(a.c.Nodes()...) }},
	{Name: "freeze-leader", About: "SIGSTOP of the leader, which wakes later", boxed: true, do: func(a *act) (harm, error) { return a.freeze(a.leader()) }},
	{Name: "freeze-follower", About: "SIGSTOP of a follower", boxed: true, do: func(a *act) (harm, error) { return a.freeze(a.follower()) }},
	{Name: "freeze-followers", About: "SIGSTOP of both followers", boxed: true, do: func(a *act) (harm, error) { _, others := a.c.Pick(a.ctx); return a.freeze(others...) }},
	{Name: "restart-rolling", About: "one node after the other is stopped and started", boxed: true, alone: true, do: (*act).rolling},
	{Name: "lag-follower", About: "a follower is away until it needs a snapshot", do: (*act).lag},
	{Name: "replace-member", About: "a member is removed and wiped, and a new one joins", alone: true, do: (*act).replace},

	{Name: "cut-leader", About: "the leader alone against two", Need: Space, boxed: true, do: func(a *act) (harm, error) { return a.isolate(a.leader(), "the leader") }},
	{Name: "cut-follower", About: "a follower alone against two", Need: Space, boxed: true, do: func(a *act) (harm, error) { return a.isolate(a.follower(), "the follower") }},
	{Name: "cut-all", About: "nobody reaches anybody", Need: Space, boxed: true, do: (*act).cutAll},
	{Name: "cut-oneway", About: "a node is heard, or hears, and not both", Need: Space, do: (*act).oneWay},
	{Name: "cut-bridge", About: "one node sees both others, which do not see each other", Need: Space, do: (*act).bridge},
	{Name: "wire-slow", About: "slow links", Need: Wire, do: func(a *act) (harm, error) {
		delay := a.span(10*time.Millisecond, 150*time.Millisecond)
		return a.weather("slow links", lab.Weather{Delay: delay, Jitter: delay / 4})
	}},
	{Name: "wire-lossy", About: "links that lose packets", Need: Wire, do: func(a *act) (harm, error) {
		return a.weather("lossy links", lab.Weather{Loss: 0.02 + 0.25*a.chance.Float64()})
	}},
	{Name: "wire-reorder", About: "links that reorder packets", Need: Wire, do: func(a *act) (harm, error) {
		return a.weather("reordering links", lab.Weather{Delay: 5 * time.Millisecond, Jitter: a.span(5*time.Millisecond, 40*time.Millisecond), Reorder: 0.3})
	}},

	{Name: "disk-full", About: "a disk without room", Need: Space, do: (*act).full},
	{Name: "disk-readonly", About: "a disk that is read-only", Need: Space, do: (*act).readOnly},
	{Name: "disk-error", About: "writes to a disk err", do: (*act).diskError},
	{Name: "disk-sync", About: "a write reaches the disk, and its sync errs", do: (*act).syncError},
	{Name: "disk-stall", About: "a disk stalls, now and then for too long", do: (*act).stall},
	{Name: "clock-jump", About: "a node's clock is an hour off", do: (*act).jump},
	{Name: "clock-drift", About: "a node's clock is too fast, or too slow", do: (*act).drift},
	{Name: "damage-log", About: "bytes of a node's log are changed, or cut off, while it is down", alone: true, do: func(a *act) (harm, error) { return a.damage("log") }},
	{Name: "damage-table", About: "bytes of a node's table", alone: true, do: func(a *act) (harm, error) { return a.damage("table") }},
	{Name: "damage-snapshot", About: "bytes of a node's snapshots", alone: true, do: func(a *act) (harm, error) { return a.damage("snapshot") }},
}

// each does something to all of nodes at once.
func each(nodes []*lab.Node, do func(*lab.Node) error) error {
	errs := make([]error, len(nodes))
	var doing sync.WaitGroup
	for i, n := range nodes {
		doing.Go(func() { errs[i] = do(n) })
	}
	doing.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func ids(nodes []*lab.Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.ID)
	}
	return strings.Join(all, ", ")
}

func (a *act) kill(nodes ...*lab.Node) (harm, error) {
	h := harm{text: ids(nodes), hold: a.span(100*time.Millisecond, 3*time.Second)}
	return h, each(nodes, func(n *lab.Node) error { n.Kill(); return nil })
}

func (a *act) term(nodes ...*lab.Node) (harm, error) {
	h := harm{text: ids(nodes), hold: a.span(100*time.Millisecond, 2*time.Second)}
	return h, each(nodes, func(n *lab.Node) error {
		if !n.Runs() {
			return nil // another fault was quicker
		}
		harmed := n.Harmed() // by a disk that hangs, say, for which it has to wait
		n.Thaw()
		if err := n.Stop(); err != nil && !harmed {
			return err
		}
		return nil
	})
}

func (a *act) freeze(nodes ...*lab.Node) (harm, error) {
	h := harm{text: ids(nodes), hold: a.span(300*time.Millisecond, 4*time.Second)}
	h.heal = func(context.Context) error {
		return each(nodes, func(n *lab.Node) error { n.Thaw(); return nil })
	}
	return h, each(nodes, func(n *lab.Node) error { n.Freeze(); return nil })
}

func (a *act) rolling() (harm, error) {
	h := harm{text: "every node in turn"}
	for _, n := range a.c.Nodes() {
		if err := n.Stop(); err != nil {
			return h, err
		}
		if err := n.Start(); err != nil {
			return h, err
		}
		if err := a.c.Ready(context.WithoutCancel(a.ctx), readyWithin); err != nil {
			return h, err
		}
	}
	return h, nil
}

func (a *act) lag() (harm, error) {
	h, err := a.kill(a.follower())
	h.hold = a.span(5*time.Second, 9*time.Second)
	return h, err
}

func (a *act) replace() (harm, error) {
	n, role := a.one()
	return harm{text: role}, a.c.Replace(context.WithoutCancel(a.ctx), n)
}

func (a *act) jump() (harm, error) {
	n, role := a.one()
	offset := []time.Duration{time.Hour, -time.Hour}[a.chance.IntN(2)]
	return a.clock(n, fmt.Sprintf("%s by %s", role, offset), offset, 0)
}

func (a *act) drift() (harm, error) {
	n, role := a.one()
	drift := []float64{0.5, 0.05, -0.05, -0.5}[a.chance.IntN(4)]
	return a.clock(n, fmt.Sprintf("%s by %+.0f %%", role, 100*drift), 0, drift)
}

func (a *act) clock(n *lab.Node, text string, offset time.Duration, drift float64) (harm, error) {
	h := harm{text: text, hold: a.span(2*time.Second, 5*time.Second), heal: func(context.Context) error { return n.SetClock(0, 0) }}
	return h, n.SetClock(offset, drift)
}
