//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"
)

// fill writes count records with answers of a kind, many at once, or a few of a large one.
func (c *cluster) fill(name string, count, kindOf int) (records []kept) {
	c.t.Helper()
	records = make([]kept, count)
	var writers sync.WaitGroup
	step := 16
	if len(kind(kindOf, 0).body) > 64<<10 {
		step = 4
	}
	for w := range step {
		writers.Go(func() {
			for i := w; i < count; i += step {
				key, s := fmt.Sprintf("%s-%d", name, i), kind(kindOf, i)
				a := c.insist(i, func(n *node) answer { return n.reserve(key, object{"owner": "o"}) })
				records[i] = kept{key, a.record().Token, &s, &s}
				if a = c.insist(i+1, func(n *node) answer { return n.complete(key, records[i].token, s.object()) }); a.status != 200 {
					c.t.Errorf("completing %s: %s", key, a)
				}
			}
		})
	}
	writers.Wait()
	return records
}

var replayLine = regexp.MustCompile(`skipped=(\d+) table_index=(\d+)`)

// replayed is what a node started at byte from of its log says of its replay.
func (n *node) replayed(from int) (skipped, index int) {
	n.t.Helper()
	line := n.waitLog(from, "the table had these entries already")
	m := replayLine.FindStringSubmatch(line)
	if m == nil {
		n.t.Fatalf("the line does not say how many: %s", line)
	}
	skipped, _ = strconv.Atoi(m[1])
	index, _ = strconv.Atoi(m[2])
	return skipped, index
}

// TestRestartReplaysWhatIsMissing restarts a node that ended in order and one that was killed: entries that the
// table has are skipped, the others are applied once.
func TestRestartReplaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	records := c.fill("before", 300, 2)
	c.equalTables()
	n := c.others(c.leader())[0]
	last := int(n.metric("onced_table_history_index"))
	from := n.size()
	n.stop()
	records = append(records, c.fill("while-away", 20, 2)...)
	c.start(n)
	c.ready(n)
	c.equalTables()
	skipped, index := n.replayed(from)
	if index < last || skipped < 100 || skipped > index {
		t.Errorf("after an orderly end at entry %d it skipped %d entries with its table at %d", last, skipped, index)
	}
	now := int(n.metric("onced_table_history_index"))
	if applied := int(n.metric("onced_applied_entries_total")); applied > now-index {
		t.Errorf("it applied %d entries after the restart; only those from %d to %d were missing", applied, index, now)
	}
	// Killed, the table lacks what was not flushed: that is applied again, and no more than that.
	from = n.size()
	n.kill()
	c.start(n)
	c.ready(n)
	c.equalTables()
	skipped, index = n.replayed(from)
	now = int(n.metric("onced_table_history_index"))
	if applied := int(n.metric("onced_applied_entries_total")); applied > now-index || skipped > index || index < last {
		t.Errorf("killed, it skipped %d with its table at %d, and applied %d up to %d", skipped, index, applied, now)
	}
	c.verifyAll(records)
}

// smallLog lets snapshots be taken and the log be cut soon.
func smallLog(_ int, n *node) {
	n.env = append(n.env, "ONCED_FAULT_SNAPSHOT_BYTES=65536", "ONCED_FAULT_TRAILING_BYTES=65536")
}

// TestSnapshotIsStreamed leaves a node behind by more than the log reaches back: it gets a snapshot, also
// when it is killed while that comes in, and has the table of the others.
func TestSnapshotIsStreamed(t *testing.T) {
	t.Parallel()
	c := begin(t, smallLog)
	n := c.others(c.leader())[0]
	records := c.fill("seen", 20, 2)
	c.equalTables()
	has := n.metric("onced_table_history_index")
	n.kill()
	records = append(records, c.fill("unseen", 24, 3)...)    // 24 MiB, so that it takes a moment
	records = append(records, c.fill("trailing", 400, 2)...) // more entries than are always kept
	c.cut(n, has)
	from, killed := n.size(), 0
	for try := range rounds(6, 3) {
		c.start(n)
		if n.killReceiving(time.Duration(try*try) * 4 * time.Millisecond) {
			killed++
		}
	}
	t.Logf("killed %d times while a snapshot came in", killed)
	if killed == 0 {
		t.Error("it was never killed in the middle: the test shows nothing")
	}
	c.start(n)
	c.ready(n)
	c.equalTables()
	n.waitLog(from, "restored the table from a snapshot")
	c.verifyAll(records)
}

// cut waits until both other nodes' logs begin after index, which is all that n has.
func (c *cluster) cut(n *node, index float64) {
	c.t.Helper()
	for _, other := range c.others(n) {
		eventually(c.t, other.id+" cuts its log", func() error {
			m, err := other.metrics()
			if err != nil {
				return err
			}
			const kept = 64 // entries behind a snapshot, at least
			if snapshot := m["onced_last_snapshot_index"]; snapshot < index+kept+1 {
				return fmt.Errorf("the snapshot is at %v", snapshot)
			}
			return nil
		})
	}
}

// killReceiving kills a node that was just started, delay after the first bytes of a
// snapshot have come, and tells whether that was in the middle.
func (n *node) killReceiving(delay time.Duration) bool {
	n.t.Helper()
	unfinished := func() bool {
		found, _ := filepath.Glob(filepath.Join(n.data, "snapshots", "*.tmp"))
		return len(found) > 0
	}
	for end := time.Now().Add(patience); !unfinished(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("no snapshot comes to %s", n.id)
		}
		if a := n.get("/readyz"); a.status == 200 {
			n.kill()
			return false // it was faster than the eye, or had it from the last time
		}
	}
	time.Sleep(delay)
	n.kill()
	_, err := os.Stat(n.data)
	return err == nil && unfinished()
}
