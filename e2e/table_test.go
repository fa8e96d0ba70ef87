//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// metrics reads a node's figures by their names with labels, as they are written.
func (n *node) metrics() (map[string]float64, error) {
	a := n.get("/metrics")
	if a.err != nil {
		return nil, a.err
	}
	figures := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(a.body)); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if figure, err := strconv.ParseFloat(value, 64); ok && err == nil {
			figures[name] = figure
		}
	}
	return figures, nil
}

// metric reads one figure that must be there.
func (n *node) metric(name string) float64 {
	n.t.Helper()
	figures, err := n.metrics()
	if err != nil {
		n.t.Fatal(err)
	}
	figure, ok := figures[name]
	if !ok {
		n.t.Fatalf("%s has no metric %s", n.id, name)
	}
	return figure
}

// history is a node's checksum of its table and the log index that it is of.
type history struct{ index, checksum uint64 }

func (n *node) history() (history, error) {
	m, err := n.metrics()
	if err != nil {
		return history{}, err
	}
	index, ok := m["onced_table_history_index"]
	high, ok2 := m[`onced_table_history{half="high"}`]
	low, ok3 := m[`onced_table_history{half="low"}`]
	if !ok || !ok2 || !ok3 {
		return history{}, fmt.Errorf("%s does not tell its history", n.id)
	}
	return history{uint64(index), uint64(high)<<32 | uint64(low)}, nil
}

// settled waits until every node's table is at one index and returns an error unless they are
// equal there. Nothing else may be written meanwhile.
func (c *cluster) settled() error {
	c.t.Helper()
	// An entry that every table takes note of: raft keeps some of its own entries to itself.
	c.insist(0, func(n *node) answer { return n.post("settled", "release", object{"owner": "nobody"}) })
	var all []history
	eventually(c.t, "the tables are at one index", func() error {
		all = nil
		for _, n := range c.nodes {
			h, err := n.history()
			if err != nil {
				return err
			}
			all = append(all, h)
		}
		for _, h := range all {
			if h.index != all[0].index {
				return fmt.Errorf("they are at %v", all)
			}
		}
		return nil
	})
	for i, h := range all {
		if h != all[0] {
			return fmt.Errorf("at index %d the history of %s is %x, that of %s is %x", h.index, c.nodes[i].id, h.checksum, c.nodes[0].id, all[0].checksum)
		}
	}
	return nil
}

// equalTables fails the test unless all tables are equal.
func (c *cluster) equalTables() {
	c.t.Helper()
	if err := c.settled(); err != nil {
		c.t.Error(err)
	}
}
