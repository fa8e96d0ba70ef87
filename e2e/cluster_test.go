//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"onced/internal/process"
)

// cluster is three nodes.
type cluster struct {
	t     *testing.T
	dir   string
	nodes []*node
}

// layOut makes a cluster of n nodes that are not started. tune may change each before.
func layOut(t *testing.T, n int, tune func(i int, n *node)) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: scratch(t)}
	for i := range n {
		nd := newNode(t, c.dir, fmt.Sprintf("n%d", i+1))
		if tune != nil {
			tune(i, nd)
		}
		c.nodes = append(c.nodes, nd)
	}
	t.Cleanup(c.end)
	return c
}

// begin lays a cluster of three out, starts it and waits until every node is ready.
func begin(t *testing.T, tune func(i int, n *node)) *cluster {
	t.Helper()
	c := layOut(t, 3, tune)
	c.start(c.nodes...)
	c.ready(c.nodes...)
	return c
}

// end kills what still runs, looks for what no node may ever say and, after a failure, shows what the nodes said last.
func (c *cluster) end() {
	for _, n := range c.nodes {
		n.kill()
		for _, never := range []string{"DATA RACE", "panic: ", "fatal error: "} {
			if lines := n.logged(0, never); len(lines) > 0 {
				c.t.Errorf("%s says %q", n.id, lines[0])
			}
		}
	}
	if !c.t.Failed() {
		return
	}
	for _, n := range c.nodes {
		c.t.Logf("the log of %s ends with:\n%s", n.id, process.Tail(n.log, 20))
	}
}

func (c *cluster) peers() string {
	if len(c.nodes) == 1 {
		return ""
	}
	var peers []string
	for _, n := range c.nodes {
		peers = append(peers, n.id+"="+n.peer)
	}
	return strings.Join(peers, ",")
}

func (c *cluster) start(nodes ...*node) {
	c.t.Helper()
	for _, n := range nodes {
		n.start(c.peers())
	}
}

// kill is a SIGKILL to all of nodes at once.
func (c *cluster) kill(nodes ...*node) {
	var dying sync.WaitGroup
	for _, n := range nodes {
		dying.Go(n.kill)
	}
	dying.Wait()
}

// ready waits until each of nodes says that it is.
func (c *cluster) ready(nodes ...*node) {
	c.t.Helper()
	for _, n := range nodes {
		eventually(c.t, n.id+" is ready", func() error {
			a := n.get("/readyz")
			if a.err != nil {
				return a.err
			}
			if a.status != 200 {
				return errors.New(string(a.body))
			}
			return nil
		})
	}
}

// leader returns the node that leads, as a node other than those in but says.
func (c *cluster) leader(but ...*node) *node {
	c.t.Helper()
	var leader *node
	eventually(c.t, "a leader", func() error {
		leader = c.seenLeader(but...)
		if leader == nil {
			return errors.New("nobody names one")
		}
		return nil
	})
	return leader
}

// seenLeader is leader without waiting; nil when nobody names one.
func (c *cluster) seenLeader(but ...*node) *node {
	for _, asked := range c.others(but...) {
		var s struct{ Leader, Role string }
		if a := asked.get("/v1/cluster"); a.err != nil || a.decode(&s) != nil {
			continue
		}
		for _, n := range c.others(but...) {
			if n.id == s.Leader {
				return n
			}
		}
	}
	return nil
}

// others are the nodes but those.
func (c *cluster) others(but ...*node) (rest []*node) {
	for _, n := range c.nodes {
		if !slices.Contains(but, n) {
			rest = append(rest, n)
		}
	}
	return rest
}
