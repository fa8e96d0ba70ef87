package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
)

// readiness is what one node's /readyz says.
type readiness struct {
	Node  string `json:"node"` // its URL
	Ready bool   `json:"ready"`
	Why   string `json:"why,omitempty"` // it is not, in one line
}

// ready asks every node of --nodes whether it is ready, and no node about another: it is the health check of a
// container that has no shell. It needs no token. The error says how many are not.
func (c *statusCommand) ready(a *app) error {
	nodes, err := c.remotes()
	if err != nil {
		return refusal{err}
	}
	all := make([]readiness, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() {
			all[i] = readiness{Node: node.base, Ready: true}
			if err := node.get(a.ctx, "/readyz", &struct{}{}); err != nil {
				all[i] = readiness{Node: node.base, Why: strings.Join(strings.Fields(err.Error()), " ")}
			}
		})
	}
	asking.Wait()
	if err := c.tellReady(a, all); err != nil {
		return err
	}
	missing := 0
	for _, r := range all {
		if !r.Ready {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d nodes not ready", missing, len(all))
	}
	return nil
}

func (c *statusCommand) tellReady(a *app, all []readiness) error {
	if c.Output.json() {
		return json.NewEncoder(a.stdout).Encode(all)
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, r := range all {
		if r.Ready {
			fmt.Fprintf(t, "%s\tready\n", r.Node)
		} else {
			fmt.Fprintf(t, "%s\tnot ready: %s\n", r.Node, r.Why)
		}
	}
	return t.Flush()
}
