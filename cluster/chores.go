package cluster

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"onced/cluster/clock"
	"onced/cluster/propose"
	"onced/fsm/command"
)

// The chores of a leader. Each ends with its term's context.

const (
	sweepEvery    = leaseSlot * time.Millisecond
	stampAtLeast  = 5 * time.Second // so that every member knows about what time it is, see package clock
	sweepPortion  = 256             // things removed by one expire, so that none stalls a write
	clockEvery    = 10 * time.Second
	clockTimeout  = time.Second
	clockGrace    = 50 * time.Millisecond // for the rest, once a majority has answered
	compareEvery  = 10 * time.Second
	compareAfter  = 10_000 // entries
	compareAtMost = time.Minute
)

// every calls do at each tick until ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// sweep removes what is due, and stamps the time when a lease ends while nobody writes.
func (n *Node) sweep(ctx context.Context) {
	every(ctx, sweepEvery, func() {
		for ctx.Err() == nil && n.sweepOnce(ctx) {
		}
	})
}

// sweepOnce tells whether there may be more to do at once.
func (n *Node) sweepOnce(ctx context.Context) bool {
	now, leading := n.clock.Now()
	if !leading {
		return false
	}
	due, ok, err := n.table.NextDue()
	if err != nil {
		n.fail(err)
		return false
	}
	if ok && due <= now {
		_, err := n.retrier.Submit(ctx, &command.Command{Kind: &command.Command_Expire{Expire: &command.Expire{Limit: sweepPortion}}}, propose.ByCaller)
		return err == nil
	}
	if stamp := n.table.Meta().Clock; now-stamp >= stampAtLeast.Milliseconds() || n.leases.dueBetween(stamp, now) {
		n.tick(ctx)
	}
	return false
}

// tick stamps the cluster's time on an entry that does nothing else.
func (n *Node) tick(ctx context.Context) {
	_, err := n.retrier.Submit(ctx, &command.Command{Kind: &command.Command_Tick{Tick: &command.Tick{}}}, propose.ByCaller)
	if err != nil && ctx.Err() == nil {
		n.log.Debug("stamping the time", "error", err)
	}
}

// checkClock compares the cluster's time with the voters' clocks from time to time.
func (n *Node) checkClock(ctx context.Context, term uint64) {
	every(ctx, clockEvery, func() {
		off, ok := n.clock.Check(term, n.askClocks(ctx), n.voters())
		if ok && (off > time.Second || off < -time.Second) {
			n.log.Warn("the cluster's time differs from the voters' clocks; it is worked off at 1 %", "by", off)
		}
	})
}

// askClocks returns what this node and the voters that answer say of the time: it waits for a
// majority, and a moment longer for the rest; in a cold start, where the wall clocks decide, for all of them.
func (n *Node) askClocks(ctx context.Context) []clock.Answer {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	others := n.others(true)
	answers := make(chan clock.Answer, len(others))
	for _, m := range others {
		go func() {
			body, err := n.link.Call(ctx, m.Address, pathClock, nil)
			if err != nil {
				body = nil
			}
			answers <- parseAnswer(body)
		}()
	}
	clocks := []clock.Answer{n.clock.Answer()}
	majority := (len(others)+1)/2 + 1
	var grace <-chan time.Time
	for range others {
		if grace == nil && len(clocks) >= majority && anyFloor(clocks) {
			grace = time.After(clockGrace)
		}
		select {
		case a := <-answers:
			if a.Wall != 0 {
				clocks = append(clocks, a)
			}
		case <-grace:
			return clocks
		case <-ctx.Done():
			return clocks
		}
	}
	return clocks
}

// anyFloor tells whether somebody has heard a leader, so that the wall clocks decide nothing.
func anyFloor(answers []clock.Answer) bool {
	return slices.ContainsFunc(answers, func(a clock.Answer) bool { return a.Floor != 0 })
}

// appendAnswer and parseAnswer are an answer on its way between nodes; what is none is the zero Answer.
func appendAnswer(b []byte, a clock.Answer) []byte {
	return appendVarints(b, uint64(a.Wall), uint64(a.Floor), a.Term)
}

func parseAnswer(b []byte) clock.Answer {
	if v := parseVarints(b); len(v) >= 3 {
		return clock.Answer{Wall: int64(v[0]), Floor: int64(v[1]), Term: v[2]}
	}
	return clock.Answer{}
}

func appendVarints(b []byte, numbers ...uint64) []byte {
	for _, v := range numbers {
		b = protowire.AppendVarint(b, v)
	}
	return b
}

// parseVarints reads numbers until the end, or until what is none.
func parseVarints(b []byte) (numbers []uint64) {
	for len(b) > 0 {
		v, size := protowire.ConsumeVarint(b)
		if size < 0 {
			return numbers
		}
		numbers, b = append(numbers, v), b[size:]
	}
	return numbers
}

// compare lets the members compare their tables' histories every so many entries, and
// proposes the majority's as a verdict when they differ.
func (n *Node) compare(ctx context.Context) {
	entries, last := n.machine.entries.Load(), time.Now()
	every(ctx, compareEvery, func() {
		written := n.machine.entries.Load() - entries
		if written == 0 || written < compareAfter && time.Since(last) < compareAtMost {
			return
		}
		n.compareOnce(ctx)
		entries, last = n.machine.entries.Load(), time.Now()
	})
}

// compareOnce marks a place in the log, asks every voter for its checksum there, and
// judges. A voter that does not answer is not judged.
func (n *Node) compareOnce(ctx context.Context) {
	marked, err := n.retrier.Submit(ctx, &command.Command{Kind: &command.Command_Mark{Mark: &command.Mark{}}}, propose.ByCaller)
	if err != nil {
		return
	}
	votes := n.askHistories(ctx, marked.Index)
	if len(votes) < 2 {
		return
	}
	for history, count := range votes {
		if 2*count > n.voters() {
			n.log.Error("tables differ; the minority stops", "entry", marked.Index, "checksums", len(votes))
			_, _ = n.retrier.Submit(ctx, &command.Command{Kind: &command.Command_Verdict{Verdict: &command.Verdict{MarkIndex: marked.Index, History: history}}}, propose.ByCaller)
			return
		}
	}
	n.log.Error("tables differ and no majority agrees; stop the cluster and compare backups", "entry", marked.Index, "checksums", len(votes))
}

// askHistories counts the voters by their checksum at the mark.
func (n *Node) askHistories(ctx context.Context, mark uint64) map[uint64]int {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.RequestTimeout)
	defer cancel()
	votes := map[uint64]int{}
	if meta := n.table.Meta(); meta.MarkIndex == mark {
		votes[meta.MarkHistory]++
	}
	others := n.others(true)
	answers := make(chan []byte, len(others))
	for _, m := range others {
		go func() {
			body, err := n.link.Call(ctx, m.Address, pathMark, protowire.AppendVarint(nil, mark))
			if err != nil {
				body = nil
			}
			answers <- body
		}()
	}
	for range others {
		if body := <-answers; len(body) == 8 {
			history, _ := protowire.ConsumeFixed64(body)
			votes[history]++
		}
	}
	return votes
}
