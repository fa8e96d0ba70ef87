//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Replace removes a node from the cluster, wipes it, and has a new one join on its seat. It waits until that one is ready. The other
// two must be well.
func (c *Cluster) Replace(ctx context.Context, old *Node) error {
	old.Harm()
	var via []string
	var member *Node
	for _, n := range c.Nodes() {
		if n != old {
			via, member = append(via, n.API), n
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := c.until(ctx, func() error {
		out, err := exec.CommandContext(ctx, c.Binary, "members", "remove", "--nodes", strings.Join(via, ","), old.ID).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "no member") {
			return fmt.Errorf("removing %s: %w: %s", old.ID, err, out)
		}
		return nil
	})
	if err != nil {
		return err
	}
	old.Kill()
	if err := old.Wipe(); err != nil {
		return err
	}
	c.mu.Lock()
	n, err := c.newNode(old.Seat)
	if err == nil {
		n.join = member.peer
		c.nodes[old.Seat] = n
		c.gone = append(c.gone, old)
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return n.Start()
}

// Settled waits until a node is ready or its process has ended, and tells which: an error that is ErrRefused holds
// the last line of one that was refused.
func (c *Cluster) Settled(ctx context.Context, n *Node, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return c.until(ctx, func() error {
		if !n.Runs() {
			cancel()
			return fmt.Errorf("%w: %s", ErrEnded, n.lastWords())
		}
		_, err := c.get(ctx, n.API+"/readyz")
		return err
	})
}

// ErrEnded says that a node's process has ended.
var ErrEnded = errors.New("the process has ended")
