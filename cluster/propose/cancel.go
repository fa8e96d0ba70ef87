package propose

import (
	"context"
	"errors"
	"fmt"

	"onced/fsm"
	"onced/fsm/command"
)

// hasRoom tells whether another reserve with an owner of this node may begin. Its cancel, should
// it need one, is never refused: so the bound is kept here, before the reserve, and
// exceeded at most by the reserves that are under way.
func (r *Retrier) hasRoom() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending < r.cfg.MaxCancels
}

// cancelOwner takes back, in the background, what the reserve's owner may have got.
func (r *Retrier) cancelOwner(reserve *command.Reserve) {
	if !r.begin() {
		r.cfg.Logger.Warn("an owner is left without its cancel: this node is shutting down",
			"tenant", reserve.GetId().GetTenant(), "owner", reserve.GetOwner())
		return
	}
	cmd := &command.Command{Kind: &command.Command_Cancel{Cancel: &command.Cancel{
		Id:         reserve.GetId(),
		Owner:      reserve.GetOwner(),
		RememberMs: fsm.CancelMemoryMs,
	}}}
	go func() { r.end(r.decide(cmd)) }()
}

// decide tries until cmd is decided, and returns whether it was: not when the retrier is
// closed first.
func (r *Retrier) decide(cmd *command.Command) bool {
	pause := backoff{next: r.cfg.MinBackoff, max: 5 * r.cfg.MaxBackoff}
	for {
		_, changed := r.cfg.Routes.Get()
		ctx, stop := context.WithTimeout(r.ctx, r.cfg.CancelTry)
		_, err := r.cfg.Doer.Do(ctx, cmd)
		stop()
		if err == nil {
			return true
		}
		if errors.Is(err, ErrBadCommand) {
			r.cfg.Logger.Error("an owner cannot be cancelled", "error", err)
			return false
		}
		if !pause.wait(r.ctx, changed) {
			return false
		}
	}
}

// begin counts a cancel as pending; false once the retrier is closed.
func (r *Retrier) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.pending++; r.pending == 1 {
		r.idle = make(chan struct{})
	}
	r.cfg.Counters.CancelsPending.Add(1)
	r.wg.Add(1)
	return true
}

func (r *Retrier) end(decided bool) {
	defer r.wg.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	if decided {
		r.cfg.Counters.Cancels.Add(1)
	} else {
		r.undone++
	}
	r.cfg.Counters.CancelsPending.Add(-1)
	if r.pending--; r.pending == 0 {
		close(r.idle)
	}
}

// Drain returns when no cancel is pending. The error is that of ctx, with how many are left.
func (r *Retrier) Drain(ctx context.Context) error {
	for {
		r.mu.Lock()
		left, idle := r.pending, r.idle
		r.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d cancels: %w", left, ctx.Err())
		}
	}
}

// Close ends the cancels in the background and says how many are left undone: what
// their owners may have got ends with its lease, as after a crash of this node.
func (r *Retrier) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.undone > 0 {
		r.cfg.Logger.Warn("owners are left without their cancel", "count", r.undone)
		r.undone = 0
	}
}
