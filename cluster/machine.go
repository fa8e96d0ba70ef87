package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"onced"
	"onced/cluster/clock"
	"onced/cluster/watch"
	"onced/fsm"
	"onced/fsm/command"
	"onced/internal/planted"
	"onced/store"
)

// errBroken is the response of an entry that was not applied since the node is ending.
var errBroken = errors.New("this node has stopped applying")

// machine is raft's FSM: it runs the state machine on the table. Its methods are
// called by raft's one FSM goroutine; applied and skipped may be read by anyone.
type machine struct {
	dir      *store.Dir
	table    *store.Table
	clock    *clock.Clock
	leases   *leases
	watchers *watch.Watchers
	progress *progress
	log      *slog.Logger
	fatal    func(error)
	live     func() bool // this node has caught up with a leader since it started

	broken   bool   // owned by the FSM goroutine
	toSkip   uint64 // entries up to it were in the table at the start
	skipped  uint64
	entries  atomic.Uint64 // applied since the start
	commands atomic.Uint64
}

var _ raft.BatchingFSM = (*machine)(nil)

// Apply is part of raft.FSM.
func (m *machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies a run of entries as one write to the table. The response to a
// command entry is its []fsm.Result.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	responses := make([]any, len(logs))
	if err := m.run(logs, responses); err != nil {
		m.stop(err)
	}
	if m.broken {
		for i := range responses {
			responses[i] = errBroken
		}
	}
	return responses
}

// stop ends the node: from here on nothing is applied, so that the table does not drift.
func (m *machine) stop(err error) {
	m.broken = true
	m.fatal(fmt.Errorf("applying the log: %w", err))
}

func (m *machine) run(logs []*raft.Log, responses []any) error {
	if m.broken {
		return nil
	}
	logs, skipped := m.skip(logs)
	responses = responses[skipped:]
	for len(logs) > 0 {
		n := 1
		for n < len(logs) && !m.alone(logs[n-1]) && !m.alone(logs[n]) {
			n++
		}
		if err := m.commit(logs[:n], responses[:n]); err != nil {
			return err
		}
		logs, responses = logs[n:], responses[n:]
	}
	return nil
}

// skip leaves out the entries that the table has already: after a restart raft brings
// everything since the last snapshot again.
func (m *machine) skip(logs []*raft.Log) (rest []*raft.Log, skipped int) {
	applied := m.table.Applied()
	for skipped < len(logs) && logs[skipped].Index <= applied {
		skipped++
	}
	m.skipped += uint64(skipped)
	rest = logs[skipped:]
	if m.toSkip != 0 && (len(rest) > 0 || logs[len(logs)-1].Index >= m.toSkip) {
		m.log.Info("replay: the table had these entries already", "skipped", m.skipped, "table_index", m.toSkip)
		m.toSkip = 0
	}
	return rest, skipped
}

// alone tells whether an entry must be its own write: an expire reads the due index,
// which is only on the table, not in a transaction under way. It is recognised by its size, to
// not decode twice: a larger entry is never an expire, and a small one alone does no harm.
func (m *machine) alone(l *raft.Log) bool {
	return l.Type == raft.LogCommand && len(l.Data) <= maxExpireBytes
}

// maxExpireBytes is more than a marshalled Entry of one Expire takes.
const maxExpireBytes = 40

func (m *machine) commit(logs []*raft.Log, responses []any) error {
	tx := m.table.Begin()
	defer tx.Close()
	changes := leaseChanges{Tx: tx}
	var stamp int64
	for i, l := range logs {
		if l.Type != raft.LogCommand {
			continue
		}
		entry, err := fsm.DecodeEntry(l.Data)
		if err != nil {
			return err
		}
		if planted.NoTokenCheck {
			anyToken(&changes, entry)
		}
		results, err := fsm.Apply(&changes, l.Index, entry)
		if err != nil {
			return err
		}
		responses[i] = results
		stamp = max(stamp, entry.StampMs)
		m.entries.Add(1)
		m.commands.Add(uint64(len(entry.Commands)))
	}
	last := logs[len(logs)-1]
	if err := tx.Commit(last.Index, last.Term); err != nil {
		return err
	}
	m.leases.apply(changes.moves)
	m.clock.Saw(stamp)
	if stamp != 0 && m.live() { // else it may be an old stamp that is read again
		m.clock.Heard(last.Term, stamp)
	}
	m.progress.reached(last.Index)
	m.watchers.Wake(tx.Touched())
	return nil
}

// Snapshot is part of raft.FSM.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) { return m.table.Snapshot(), nil }

// Restore is part of raft.FSM: a snapshot that the leader sent replaces the table.
func (m *machine) Restore(r io.ReadCloser) error {
	defer r.Close()
	before := m.table.Applied()
	if err := m.dir.Restore(r); err != nil {
		return fmt.Errorf("restoring a snapshot: %w", err)
	}
	if err := m.leases.load(m.table); err != nil {
		return fmt.Errorf("restoring a snapshot: %w", err)
	}
	m.log.Info("restored the table from a snapshot", "index_before", before, "index", m.table.Applied())
	m.clock.Saw(m.table.Meta().Clock)
	m.progress.reached(m.table.Applied())
	m.watchers.WakeAll()
	return nil
}

// leaseChanges is a Tx that notes how leases move.
type leaseChanges struct {
	fsm.Tx
	moves []leaseMove
}

// PutRow is part of fsm.Tx.
func (c *leaseChanges) PutRow(id onced.ID, old, row *fsm.Row) {
	if from, to := leaseOf(old), leaseOf(row); from != to {
		c.moves = append(c.moves, leaseMove{from, to})
	}
	c.Tx.PutRow(id, old, row)
}

// results turns a raft response into the results of its entry.
func results(response any, index uint64) (*command.Results, error) {
	switch r := response.(type) {
	case []fsm.Result:
		m := &command.Results{Index: index, Results: make([]*command.Result, len(r))}
		for i := range r {
			m.Results[i] = fsm.EncodeResult(r[i])
		}
		return m, nil
	case error:
		return nil, r
	}
	return nil, fmt.Errorf("entry %d has no result: %w", index, errBroken)
}
