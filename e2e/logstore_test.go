//go:build linux

package e2e

import (
	"fmt"
	"testing"
)

// TestLogStoreConverted changes the log store of one node after the other, killed and stopped in turn, under records
// that must stay, and back again.
func TestLogStoreConverted(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	records := c.fill("before", 200, 0)
	other := map[string]string{"wal": "bolt", "bolt": "wal"}
	for round := range 2 {
		for i, n := range c.nodes {
			to := n.logStore
			if round == 0 {
				to = other[to]
			}
			if i%2 == 0 {
				n.kill()
			} else {
				n.stop()
			}
			n.settings, n.replace = []string{"log_store: " + to}, "log_store"
			from := n.size()
			c.start(n)
			c.ready(n)
			if lines := n.logged(from, "converted raft's log"); len(lines) != 1 {
				t.Errorf("%s tells of its conversion to %s: %q", n.id, to, lines)
			}
			records = append(records, c.fill(fmt.Sprintf("round-%d-%d", round, i), 50, 0)...)
		}
	}
	c.kill(c.nodes...)
	c.start(c.nodes...)
	c.ready(c.nodes...)
	c.verifyAll(records)
}
