//go:build linux

package nemesis

import (
	"context"
	"fmt"
	"time"

	"onced/chaos/lab"
)

// link is a way from one node to another.
type link struct{ from, to *lab.Node }

// cut cuts links, silently or such that the sender is told, by chance.
func (a *act) cut(text string, links ...link) (harm, error) {
	silently := a.chance.IntN(3) > 0
	if !silently {
		text += ", refused at the sender"
	}
	h := harm{text: text, hold: a.span(500*time.Millisecond, 5*time.Second), heal: a.mend()}
	for _, l := range links {
		if err := a.c.Cut(l.from, l.to, silently); err != nil {
			return h, err
		}
	}
	return h, nil
}

func (a *act) mend() func(context.Context) error {
	return func(context.Context) error { return a.c.Mend() }
}

// detach takes the network of containers away.
func (a *act) detach(text string, nodes ...*lab.Node) (harm, error) {
	h := harm{text: text + ", also for clients", hold: a.span(500*time.Millisecond, 5*time.Second), heal: a.mend()}
	return h, each(nodes, a.c.Detach)
}

func both(x, y *lab.Node) []link { return []link{{x, y}, {y, x}} }

func (a *act) others(n *lab.Node) (others []*lab.Node) {
	for _, o := range a.c.Nodes() {
		if o != n {
			others = append(others, o)
		}
	}
	return others
}

func (a *act) isolate(n *lab.Node, role string) (harm, error) {
	if a.c.Contained() {
		return a.detach(role+" "+n.ID+" alone", n)
	}
	others := a.others(n)
	return a.cut(role+" "+n.ID+" alone", append(both(n, others[0]), both(n, others[1])...)...)
}

func (a *act) cutAll() (harm, error) {
	n := a.c.Nodes()
	if a.c.Contained() {
		return a.detach("all", n...)
	}
	return a.cut("all", append(append(both(n[0], n[1]), both(n[1], n[2])...), both(n[0], n[2])...)...)
}

func (a *act) oneWay() (harm, error) {
	n, role := a.one()
	others := a.others(n)
	switch a.chance.IntN(3) {
	case 0:
		return a.cut(role+" hears and is not heard", link{n, others[0]}, link{n, others[1]})
	case 1:
		return a.cut(role+" is heard and does not hear", link{others[0], n}, link{others[1], n})
	}
	other := others[a.chance.IntN(2)]
	return a.cut(fmt.Sprintf("%s is not heard by %s", role, other.ID), link{n, other})
}

func (a *act) bridge() (harm, error) {
	n, role := a.one()
	others := a.others(n)
	return a.cut(role+" sees both", both(others[0], others[1])...)
}

// weather makes every link worse, or those of one node.
func (a *act) weather(text string, w lab.Weather) (harm, error) {
	nodes := a.c.Nodes()
	only, role := a.one()
	everywhere := a.chance.IntN(2) == 0
	if !everywhere {
		text += " of " + role
	}
	h := harm{hold: a.span(2*time.Second, 5*time.Second), heal: a.mend(),
		text: fmt.Sprintf("%s: delay %s, jitter %s, loss %.0f %%", text, w.Delay.Round(time.Millisecond), w.Jitter.Round(time.Millisecond), 100*w.Loss)}
	for _, from := range nodes {
		for _, to := range nodes {
			if from == to || !everywhere && from != only && to != only {
				continue
			}
			if err := a.c.Weather(from, to, w); err != nil {
				return h, err
			}
		}
	}
	return h, nil
}
