//go:build linux

package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// History is a node's checksum of its table and the log index that it is of.
type History struct {
	Node     string
	Index    uint64
	Checksum uint64
}

// history reads it from the node's metrics.
func (c *Cluster) history(ctx context.Context, n *Node) (History, error) {
	figures, err := c.Metrics(ctx, n)
	if err != nil {
		return History{}, err
	}
	index, ok := figures["onced_table_history_index"]
	high, ok2 := figures[`onced_table_history{half="high"}`]
	low, ok3 := figures[`onced_table_history{half="low"}`]
	if !ok || !ok2 || !ok3 {
		return History{}, fmt.Errorf("%s does not tell its history", n.ID)
	}
	return History{n.ID, uint64(index), uint64(high)<<32 | uint64(low)}, nil
}

// Metrics reads a node's figures by their names with labels, as they are written.
func (c *Cluster) Metrics(ctx context.Context, n *Node) (map[string]float64, error) {
	body, err := c.get(ctx, n.API+"/metrics")
	if err != nil {
		return nil, err
	}
	figures := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if figure, err := strconv.ParseFloat(value, 64); ok && err == nil {
			figures[name] = figure
		}
	}
	return figures, nil
}

// Quiet waits until no node owes a cancel any more.
func (c *Cluster) Quiet(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return c.until(ctx, func() error {
		for _, n := range c.Nodes() {
			figures, err := c.Metrics(ctx, n)
			if err != nil {
				return err
			}
			if owed := figures["onced_pending_cancels"]; owed != 0 {
				return fmt.Errorf("%s has %v cancels pending", n.ID, owed)
			}
		}
		return nil
	})
}

// Histories waits until every table is at one index, and returns the checksums there. Nothing may be written meanwhile but
// what the cluster writes by itself.
func (c *Cluster) Histories(ctx context.Context, d time.Duration) ([]History, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var all []History
	err := c.until(ctx, func() error {
		all = nil
		for _, n := range c.Nodes() {
			h, err := c.history(ctx, n)
			if err != nil {
				return err
			}
			all = append(all, h)
		}
		for _, h := range all {
			if h.Index != all[0].Index {
				return errors.New("they are at different entries")
			}
		}
		return nil
	})
	if err != nil {
		return all, fmt.Errorf("the tables do not come to one index: %w: %v", err, all)
	}
	return all, nil
}
