package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"onced"
	"onced/cluster/propose"
	"onced/fsm"
	"onced/fsm/command"
	"onced/fsm/verbs"
	"onced/internal/planted"
)

var _ onced.Keeper = (*Node)(nil)

// retryPause is what a caller is advised to wait when the cluster could not decide:
// an election takes about as long.
const retryPause = time.Second

// unavailable is the problem of a call that was not decided.
func unavailable(err error) error {
	p := onced.Problemf(onced.CodeUnavailable, "the cluster could not decide in time: %v", err)
	p.RetryAfter = retryPause
	return p
}

// newOwner is a nonce for one attempt (128 bits of chance).
func newOwner() string { return rand.Text() }

// untilDecided bounds a call by the request timeout, and by the end of a node that has stopped: whoever waits then should
// ask another at once.
func (n *Node) untilDecided(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.RequestTimeout)
	stop := context.AfterFunc(n.working, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// submit has a command decided within the request timeout.
func (n *Node) submit(ctx context.Context, c *command.Command, owned propose.Owned) (fsm.Result, error) {
	ctx, cancel := n.untilDecided(ctx)
	defer cancel()
	decided, err := n.retrier.Submit(ctx, c, owned)
	if err != nil {
		return fsm.Result{}, n.notDecided(err)
	}
	r, err := fsm.DecodeResult(decided.Result)
	if err != nil {
		return fsm.Result{}, unavailable(err)
	}
	return r, nil
}

// notDecided words the end of a call that got no result.
func (n *Node) notDecided(err error) error {
	var gaveUp *propose.GaveUp
	switch {
	case n.broken() != nil:
		return unavailable(errors.New("this node has stopped"))
	case errors.As(err, &gaveUp) && errors.Is(err, propose.ErrNoLeader):
		return unavailable(errors.New("no leader was known; a majority of the nodes may be down or cut off"))
	case errors.As(err, &gaveUp) && gaveUp.Unknown:
		return unavailable(errors.New("the leader was lost while it decided"))
	}
	return unavailable(err)
}

// Reserve is part of onced.Keeper.
func (n *Node) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	r = r.WithDefaults()
	if err := r.Validate(); err != nil {
		return onced.ReserveResult{}, err
	}
	owned := propose.ByCaller
	if r.Owner == "" {
		owned = propose.ByNode
	}
	end := time.Now().Add(r.Wait)
	for {
		woken, stop, err := n.watchFor(r.ID, r.Wait)
		if err != nil {
			return onced.ReserveResult{}, err
		}
		result, err := n.reserveOnce(ctx, r, owned)
		left := time.Until(end)
		if !waits(err) || left <= 0 {
			stop()
			return result, err
		}
		more := n.waitForEnd(ctx, woken, left, onced.AsProblem(err).Record)
		stop()
		if !more {
			return result, err
		}
	}
}

// reserveOnce replays from this node's table, or has the cluster decide.
func (n *Node) reserveOnce(ctx context.Context, r onced.ReserveRequest, owned propose.Owned) (onced.ReserveResult, error) {
	if result, ok, err := n.replay(r); ok || err != nil {
		return result, err
	}
	if owned == propose.ByNode {
		r.Owner = newOwner() // one for each try that may be cancelled
	}
	decided, err := n.submit(ctx, verbs.Reserve(r), owned)
	if err != nil {
		return onced.ReserveResult{}, err
	}
	return verbs.ReserveAnswer(r.ID, decided)
}

// replay answers from this node's own table, without the leader: what is completed stays so until its
// retention is over, by the table's clock or this node's. Everything else is for the log to decide.
func (n *Node) replay(r onced.ReserveRequest) (onced.ReserveResult, bool, error) {
	row, err := n.table.Row(r.ID)
	if err != nil {
		n.fail(err)
		return onced.ReserveResult{}, false, unavailable(err)
	}
	clock := n.table.Meta().Clock
	if row == nil || row.Fingerprint != r.Fingerprint || row.StateAt(max(clock, n.clock.Wall())) != onced.StateCompleted {
		return onced.ReserveResult{}, false, nil
	}
	result, err := verbs.ReserveAnswer(r.ID, fsm.Result{Outcome: fsm.OutcomeReplayed, Row: row, Now: clock})
	return result, err == nil, err
}

// waits tells whether a duplicate's wait goes on after this answer.
func waits(err error) bool { return err != nil && onced.CodeOf(err) == onced.CodeRequestInProgress }

// watchFor registers for changes of a record, before it is looked at; it costs nothing without a wait.
func (n *Node) watchFor(id onced.ID, wait time.Duration) (<-chan struct{}, func(), error) {
	if wait <= 0 {
		return nil, func() {}, nil
	}
	woken, stop, err := n.watchers.Watch(id)
	if err != nil {
		return nil, nil, unavailable(err)
	}
	return woken, stop, nil
}

// lapseSlack is how long after a lease's end it is looked at again: the leader stamps the lapse within it.
const lapseSlack = 2 * leaseSlot * time.Millisecond

// waitForEnd waits until the record changes, its lease is over, or left is. False means
// that the wait is over.
func (n *Node) waitForEnd(ctx context.Context, woken <-chan struct{}, left time.Duration, rec *onced.Record) bool {
	if rec != nil {
		lease := rec.LeaseExpiresAt.Sub(onced.Instant(n.table.Meta().Clock)) + lapseSlack
		if lease > 0 {
			left = min(left, lease)
		}
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
		return false
	case <-n.working.Done():
		return false
	}
	return true
}

// Complete is part of onced.Keeper.
func (n *Node) Complete(ctx context.Context, r onced.CompleteRequest) (onced.Record, error) {
	if err := r.Validate(); err != nil {
		return onced.Record{}, err
	}
	return n.recordAnswer(ctx, r.ID, verbs.Complete(r))
}

// Renew is part of onced.Keeper.
func (n *Node) Renew(ctx context.Context, r onced.RenewRequest) (onced.Record, error) {
	if err := r.Validate(); err != nil {
		return onced.Record{}, err
	}
	return n.recordAnswer(ctx, r.ID, verbs.Renew(r))
}

func (n *Node) recordAnswer(ctx context.Context, id onced.ID, c *command.Command) (onced.Record, error) {
	result, err := n.submit(ctx, c, propose.ByCaller)
	if err != nil {
		return onced.Record{}, err
	}
	return verbs.RecordAnswer(id, result)
}

// Release is part of onced.Keeper.
func (n *Node) Release(ctx context.Context, r onced.ReleaseRequest) error {
	if err := r.Validate(); err != nil {
		return err
	}
	result, err := n.submit(ctx, verbs.Release(r), propose.ByCaller)
	if err != nil {
		return err
	}
	return verbs.EmptyAnswer(r.ID, result)
}

// Get is part of onced.Keeper.
func (n *Node) Get(ctx context.Context, r onced.GetRequest) (onced.Record, error) {
	end := time.Now().Add(r.Wait)
	for {
		woken, stop, err := n.watchFor(r.ID, r.Wait)
		if err != nil {
			return onced.Record{}, err
		}
		rec, err := n.look(ctx, r)
		left := time.Until(end)
		if err != nil || rec.State != onced.StateInProgress || left <= 0 {
			stop()
			return rec, err
		}
		more := n.waitForEnd(ctx, woken, left, &rec)
		stop()
		if !more {
			return rec, nil
		}
	}
}

// look reads a record once.
func (n *Node) look(ctx context.Context, r onced.GetRequest) (onced.Record, error) {
	if !r.Stale && !planted.StaleRead {
		ctx, cancel := n.untilDecided(ctx)
		defer cancel()
		if err := n.catchUp(ctx); err != nil {
			return onced.Record{}, unavailable(fmt.Errorf("reading: %w", err))
		}
	}
	row, err := n.table.Row(r.ID)
	if err != nil {
		n.fail(err)
		return onced.Record{}, unavailable(err)
	}
	rec, err := verbs.FullRecord(r.ID, row, n.table.Meta().Clock)
	switch {
	case err != nil:
		n.fail(err)
		return onced.Record{}, unavailable(err)
	case rec.State == onced.StateAbsent:
		return onced.Record{}, onced.Problemf(onced.CodeKeyNotFound, "there is no record of this key")
	}
	return rec, nil
}
