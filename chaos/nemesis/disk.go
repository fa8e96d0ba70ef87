//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"onced/chaos/lab"
)

func (a *act) full() (harm, error) {
	n, role := a.one()
	n.Harm()
	h := harm{text: role, hold: a.span(time.Second, 5*time.Second)}
	h.heal = func(context.Context) error { return n.EmptyDisk() }
	return h, n.FillDisk()
}

// readOnly: no kernel makes a file system read-only under a process that writes to it, so the node finds it so
// when it is started.
func (a *act) readOnly() (harm, error) {
	n, role := a.one()
	n.Kill()
	h := harm{text: role, hold: a.span(time.Second, 3*time.Second)}
	h.heal = func(ctx context.Context) error {
		refused, struck := a.c.Settled(ctx, n, 10*time.Second), n.Struck()
		n.Kill()
		if err := n.SetReadOnly(false); err != nil {
			return err
		}
		if struck {
			return nil // another fault ended it before it could say so
		}
		if !errors.Is(refused, lab.ErrEnded) || !strings.Contains(refused.Error(), "read-only") {
			return fmt.Errorf("%s was started on a read-only disk, and did not refuse: %v", n.ID, refused)
		}
		return nil
	}
	if err := n.SetReadOnly(true); err != nil {
		return h, err
	}
	if err := n.Start(); err != nil {
		return h, err
	}
	n.Harm()
	return h, nil
}

func (a *act) diskError() (harm, error) {
	n, role := a.one()
	text := []string{"input/output error", "read-only file system", "disk quota exceeded"}[a.chance.IntN(3)]
	return a.broken(n, role+": "+text, text, a.span(time.Second, 4*time.Second))
}

// syncError has the sync err of what was written: the node may not count on it, nor on its not being there.
func (a *act) syncError() (harm, error) {
	n, role := a.one()
	return a.broken(n, role, "sync: input/output error", a.span(time.Second, 4*time.Second))
}

// stall lets a disk hang: shortly, which a node outlives, or for longer than it may.
func (a *act) stall() (harm, error) {
	n, role := a.one()
	hold := a.span(500*time.Millisecond, 4*time.Second)
	if a.chance.IntN(6) == 0 {
		hold = 11 * time.Second
	}
	return a.broken(n, fmt.Sprintf("%s for %s", role, hold.Round(100*time.Millisecond)), "stall", hold)
}

func (a *act) broken(n *lab.Node, text, fault string, hold time.Duration) (harm, error) {
	n.Harm()
	h := harm{text: text, hold: hold}
	h.heal = func(context.Context) error {
		if err := n.SetDisk(""); err != nil {
			return err
		}
		if fault != "stall" {
			n.Kill() // it may not have written anything meanwhile, and lives
		}
		return nil
	}
	return h, n.SetDisk(fault)
}

// without waits until the others go on without n. What is cut off the end of a log of kind wal may look like a write
// that a crash cut, which nobody can tell: an acknowledged entry that only n and one more had would be left on one.
func (a *act) without(n *lab.Node) error {
	if err := a.c.Led(context.WithoutCancel(a.ctx), readyWithin); err != nil {
		return err
	}
	for _, other := range a.others(n) {
		if err := a.c.Settled(context.WithoutCancel(a.ctx), other, readyWithin); err != nil {
			return err
		}
	}
	return nil
}

// damage changes a file of a node that is down, and starts it. It may refuse, or not need what was
// changed. One that has ended is replaced, see Nemesis.well.
func (a *act) damage(what string) (harm, error) {
	n, role := a.one()
	n.Kill()
	d := lab.Damage{What: what, Truncate: a.chance.IntN(3) == 0}
	changed, err := d.Apply(n, a.chance)
	if what == "log" && err == nil {
		err = a.without(n)
	}
	h := harm{text: fmt.Sprintf("%s: %s", role, changed), hold: a.span(time.Second, 4*time.Second)}
	if err != nil {
		return h, err
	}
	if err := n.Start(); err != nil {
		return h, err
	}
	n.Harm()
	return h, nil
}
