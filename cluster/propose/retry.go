package propose

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"onced/fsm"
	"onced/fsm/command"
	"onced/internal/planted"
)

// Doer is one try to have a command applied: a Proposer.
type Doer interface {
	Do(ctx context.Context, cmd *command.Command) (Result, error)
}

// RetryConfig is what a Retrier needs. Doer and Routes are required.
type RetryConfig struct {
	Doer   Doer
	Routes *Routes

	MinBackoff time.Duration // between the first two tries; 0 = 10 ms
	MaxBackoff time.Duration // 0 = 200 ms
	CancelTry  time.Duration // how long one try of a cancel may take; 0 = 10 s
	MaxCancels int           // pending, beyond which reserves are refused; 0 = 10,000
	Counters   *Counters     // nil = its own
	Logger     *slog.Logger  // nil = none
}

// Retrier asks again until a command's fate is known. Create it with NewRetrier and end
// it with Close, before its Doer. It is safe for concurrent use.
type Retrier struct {
	cfg    RetryConfig
	ctx    context.Context // of the cancels in the background
	cancel context.CancelFunc

	mu      sync.Mutex
	pending int           // cancels that are not decided
	undone  int           // cancels that ended without being decided
	closed  bool          // no cancel begins any more
	idle    chan struct{} // closed when pending is 0
	wg      sync.WaitGroup
}

// NewRetrier returns a Retrier.
func NewRetrier(cfg RetryConfig) *Retrier {
	cfg.MinBackoff = or(cfg.MinBackoff, 10*time.Millisecond)
	cfg.MaxBackoff = or(cfg.MaxBackoff, 200*time.Millisecond)
	cfg.CancelTry = or(cfg.CancelTry, 10*time.Second)
	cfg.MaxCancels = or(cfg.MaxCancels, 10_000)
	cfg.Counters = or(cfg.Counters, &Counters{})
	cfg.Logger = or(cfg.Logger, slog.New(slog.DiscardHandler))
	r := &Retrier{cfg: cfg, idle: make(chan struct{})}
	close(r.idle)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Owned says whose the owner of a reserve is.
type Owned bool

const (
	// ByCaller is for a reserve whose caller gave the owner, and cancels it itself; and for
	// every other command.
	ByCaller Owned = false
	// ByNode is for a reserve whose owner this node made, for this one Submit.
	ByNode Owned = true
)

// Submit asks until cmd has a result, ctx ends, or a queue is full for a reserve. Each try
// sends the same command. cmd must not be changed afterwards.
//
// Errors: *GaveUp; ErrBadCommand. After an error, or a refusal, of a reserve with an owner
// ByNode, the owner never gets a reservation, or loses it by a cancel in the background. A refusal of one
// with an owner ByCaller is told only if no try of it can still arrive; else it is *GaveUp, and the caller asks again or cancels.
func (r *Retrier) Submit(ctx context.Context, cmd *command.Command, owned Owned) (Result, error) {
	if owned == ByNode && !r.hasRoom() {
		return Result{}, r.gaveUp(false, errCancelsPending, nil)
	}
	result, unknown, err := r.ask(ctx, cmd)
	if owned == ByNode && unknown && !granted(result) && !planted.Ghost {
		r.cancelOwner(cmd.GetReserve())
	}
	if owned == ByCaller && unknown && err == nil && cmd.GetReserve() != nil && !final(result) {
		return Result{}, r.gaveUp(true, errRefusedLater, nil)
	}
	return result, err
}

// final tells whether nothing that a try of the same reserve does later can be news to its caller.
func final(r Result) bool {
	return granted(r) || fsm.Outcome(r.Result.GetOutcome()) == fsm.OutcomeReplayed
}

// granted tells whether the reserve got, or had, the reservation.
func granted(r Result) bool {
	o := fsm.Outcome(r.Result.GetOutcome())
	return o == fsm.OutcomeReserved || o == fsm.OutcomeRepeated
}

// ask tries until it knows, and tells whether the fate of a try is unknown.
func (r *Retrier) ask(ctx context.Context, cmd *command.Command) (result Result, unknown bool, err error) {
	pause := backoff{next: r.cfg.MinBackoff, max: r.cfg.MaxBackoff}
	for {
		_, changed := r.cfg.Routes.Get()
		result, err = r.cfg.Doer.Do(ctx, cmd)
		unknown = unknown || errors.Is(err, ErrUnknown)
		switch {
		case err == nil:
			return result, unknown, nil
		case !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotApplied):
			return Result{}, unknown, err
		case errors.Is(err, ErrOverloaded) && cmd.GetReserve() != nil, errors.Is(err, ErrClosed):
			return Result{}, unknown, r.gaveUp(unknown, err, nil)
		}
		if !pause.wait(ctx, changed) {
			return Result{}, unknown, r.gaveUp(unknown, err, ctx.Err())
		}
		r.cfg.Counters.Retries.Add(1)
		if planted.NewOwner && unknown {
			cmd = otherOwner(cmd)
		}
	}
}

func (r *Retrier) gaveUp(unknown bool, last, cause error) error {
	r.cfg.Counters.GaveUp.Add(1)
	return &GaveUp{Unknown: unknown, Last: last, Cause: cause}
}

// backoff grows from try to try, and begins anew when the leader changes.
type backoff struct{ next, max time.Duration }

// wait sleeps for half to all of the pause, or until changed; false when ctx ended.
func (b *backoff) wait(ctx context.Context, changed <-chan struct{}) bool {
	timer := time.NewTimer(b.next/2 + rand.N(b.next/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
		return ctx.Err() == nil
	case <-timer.C:
		b.next = min(2*b.next, b.max)
		return ctx.Err() == nil
	}
}
