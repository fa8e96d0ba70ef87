package propose

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"onced/fsm"
	"onced/fsm/command"
)

// Field numbers of command.proto: entries and frames are put together from
// commands that are marshalled already. A test compares with the generated code.
const (
	entryVersion  = protowire.Number(1)
	entryStamp    = protowire.Number(2)
	entryCommands = protowire.Number(3)

	frameTerm     = protowire.Number(1)
	frameCommands = protowire.Number(2)

	commandNotAfter = protowire.Number(1)
)

// lead hands a batch to this node's log as one entry. It runs in the pump, so that
// stamps are in the order of the log.
func (p *Proposer) lead(route Route, batch []*call) {
	now, leading := p.cfg.Clock.Now()
	if !leading {
		settleAll(batch, ErrNoLeader)
		return
	}
	data, batch := entry(route.Term, now, time.Now(), batch)
	if len(batch) == 0 {
		return
	}
	p.entries.begin(len(batch))
	p.cfg.Counters.Entries.Add(1)
	p.cfg.Counters.EntryCommands.Add(uint64(len(batch)))
	p.cfg.Counters.EntryBytes.Add(uint64(len(data)))
	future := p.cfg.Log.Append(data)
	go func() {
		results, err := future.Wait()
		p.entries.end(len(batch))
		p.kick()
		p.decided(batch, results, err)
	}()
}

// entry marshals the calls of batch that are in time, with the stamp now (cluster ms), and
// returns them. local is the same moment on this node's clock. The others are settled.
func entry(term uint64, now int64, local time.Time, batch []*call) ([]byte, []*call) {
	data := make([]byte, 0, batchBytes(batch))
	data = appendVarint(data, entryVersion, fsm.Version)
	data = appendVarint(data, entryStamp, uint64(now))
	kept := batch[:0]
	for _, c := range batch {
		left := c.deadline.Sub(local).Milliseconds()
		switch {
		case c.hop != 0 && c.hop != term:
			c.settle(Result{}, ErrNoLeader)
		case c.hop == 0 && left < 0, c.hop != 0 && c.lateAt(now):
			c.settle(Result{}, ErrTooLate)
		default:
			data = appendCall(data, entryCommands, c, now+left)
			kept = append(kept, c)
		}
	}
	return data, kept
}

// decided gives each call of an entry its end.
func (p *Proposer) decided(batch []*call, results *command.Results, err error) {
	if err == nil && len(results.GetResults()) != len(batch) {
		err = fmt.Errorf("the log gave %d results for %d commands: %w", len(results.GetResults()), len(batch), ErrUnknown)
		p.cfg.Logger.Error("a log entry has the wrong number of results", "error", err)
	}
	if err != nil {
		settleAll(batch, classified(err))
		return
	}
	for i, c := range batch {
		c.decide(results.Results[i], results.Index)
	}
}

// decide settles c by what the machine said. A late command had no effect and never will.
func (c *call) decide(r *command.Result, index uint64) {
	if fsm.Outcome(r.GetOutcome()) == fsm.OutcomeLate {
		c.settle(Result{}, ErrTooLate)
		return
	}
	c.settle(Result{Result: r, Index: index}, nil)
}

func batchBytes(batch []*call) int {
	n := 32
	for _, c := range batch {
		n += c.size() + perCommand
	}
	return n
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// lateAt tells whether a call from a frame is too late at now (cluster ms).
func (c *call) lateAt(now int64) bool { return c.notAfter != 0 && c.notAfter < now }

// appendCall appends c as a repeated Command. What came in a frame keeps the not_after that it came with.
func appendCall(b []byte, field protowire.Number, c *call, notAfter int64) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	if c.hop != 0 {
		return protowire.AppendBytes(b, c.body)
	}
	stamp := protowire.SizeTag(commandNotAfter) + protowire.SizeVarint(uint64(notAfter))
	b = protowire.AppendVarint(b, uint64(stamp+len(c.body)))
	b = appendVarint(b, commandNotAfter, uint64(notAfter))
	return append(b, c.body...)
}
