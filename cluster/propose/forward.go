package propose

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"onced/fsm/command"
)

// forward sends a batch to the leader as one frame. It runs in the pump and does not block.
func (p *Proposer) forward(route Route, batch []*call) {
	commands := len(batch)
	p.frames.begin(commands)
	latest := batch[0].deadline
	for _, c := range batch {
		if c.deadline.After(latest) {
			latest = c.deadline
		}
	}
	// When every caller has given up, the connection is cut: what the leader has not begun then goes with it.
	ctx, cancel := context.WithDeadline(p.routeCtx, latest)
	p.wg.Go(func() {
		defer cancel()
		results, batch, err := p.fly(ctx, route, batch)
		p.frames.end(commands)
		p.kick()
		p.landed(batch, results, err)
	})
}

// fly sends the calls of batch that are in time, and returns them with the leader's answer.
// The others are settled. The error wraps ErrNotApplied, or the fate is not known.
func (p *Proposer) fly(ctx context.Context, route Route, batch []*call) (*command.Results, []*call, error) {
	now, err := p.leaderTime(ctx, route)
	if err != nil {
		return nil, batch, fmt.Errorf("asking the leader's time: %w: %v", ErrNotApplied, err)
	}
	frame, batch := frame(route.Term, now, time.Now(), batch)
	if len(batch) == 0 {
		return nil, nil, nil
	}
	if ctx.Err() != nil {
		return nil, batch, fmt.Errorf("forwarding: %w: %w", ErrNotApplied, ctx.Err())
	}
	p.cfg.Counters.Frames.Add(1)
	p.cfg.Counters.FrameCommands.Add(uint64(len(batch)))
	p.cfg.Counters.FrameBytes.Add(uint64(len(frame)))
	results, err := p.exchange(ctx, route, frame)
	return results, batch, err
}

// leaderTime returns the least that the leader's time is, asking for it where
// nothing recent is known.
func (p *Proposer) leaderTime(ctx context.Context, route Route) (int64, error) {
	if now, ok := p.estimate.now(route.Term, time.Now()); ok {
		return now, nil
	}
	empty, _ := frame(route.Term, 0, time.Now(), nil)
	results, err := p.exchange(ctx, route, empty)
	if err != nil {
		return 0, err
	}
	if results.Refused {
		return 0, ErrNoLeader
	}
	now, ok := p.estimate.now(route.Term, time.Now())
	if !ok {
		return 0, ErrNoLeader
	}
	return now, nil
}

// exchange sends a frame and reads the answer, with the leader's time in it.
func (p *Proposer) exchange(ctx context.Context, route Route, frame []byte) (*command.Results, error) {
	answer, err := p.cfg.Forwarder.Forward(ctx, route.Addr, frame)
	if err != nil {
		return nil, fmt.Errorf("forwarding to %s: %w", route.Leader, err)
	}
	arrived := time.Now()
	results := new(command.Results)
	if err := proto.Unmarshal(answer, results); err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", route.Leader, err)
	}
	if !results.Refused && results.NowMs != 0 {
		p.estimate.sample(route.Term, results.NowMs, arrived)
	}
	return results, nil
}

// frame marshals the calls of batch that are in time and returns them. now is the leader's
// time at the moment local of this node's clock. The others are settled.
func frame(term uint64, now int64, local time.Time, batch []*call) ([]byte, []*call) {
	data := appendVarint(make([]byte, 0, batchBytes(batch)), frameTerm, term)
	kept := batch[:0]
	for _, c := range batch {
		left := c.deadline.Sub(local).Milliseconds()
		switch {
		case c.hop != 0: // it came while this node lost the lead: one hop at most
			c.settle(Result{}, ErrNoLeader)
		case left < 0:
			c.settle(Result{}, ErrTooLate)
		default:
			data = appendCall(data, frameCommands, c, now+left)
			kept = append(kept, c)
		}
	}
	return data, kept
}

// landed gives each call of a frame its end.
func (p *Proposer) landed(batch []*call, results *command.Results, err error) {
	switch {
	case len(batch) == 0:
		return
	case err != nil:
		settleAll(batch, classified(err))
		return
	case results.Refused:
		settleAll(batch, ErrNoLeader)
		return
	case len(results.Results) != len(batch):
		p.cfg.Logger.Error("a frame's answer has the wrong number of results", "commands", len(batch), "results", len(results.Results))
		settleAll(batch, fmt.Errorf("the leader gave %d results for %d commands: %w", len(results.Results), len(batch), ErrUnknown))
		return
	}
	for i, c := range batch {
		r := results.Results[i]
		if err := errorOf(r.Fate); err != nil {
			c.settle(Result{}, err)
		} else {
			c.decide(r, results.Index)
		}
	}
}

// errorOf is the error of a fate; one that this release does not know is unknown.
func errorOf(f command.Fate) error {
	switch f {
	case command.Fate_FATE_DECIDED:
		return nil
	case command.Fate_FATE_NOT_APPLIED:
		return ErrNoLeader
	case command.Fate_FATE_OVERLOADED:
		return ErrOverloaded
	case command.Fate_FATE_TOO_LATE:
		return ErrTooLate
	}
	return ErrUnknown
}

// fateOf is the inverse of errorOf.
func fateOf(err error) command.Fate {
	switch {
	case err == nil:
		return command.Fate_FATE_DECIDED
	case errors.Is(err, ErrOverloaded):
		return command.Fate_FATE_OVERLOADED
	case errors.Is(err, ErrTooLate):
		return command.Fate_FATE_TOO_LATE
	case errors.Is(err, ErrNotApplied):
		return command.Fate_FATE_NOT_APPLIED
	}
	return command.Fate_FATE_UNKNOWN
}
