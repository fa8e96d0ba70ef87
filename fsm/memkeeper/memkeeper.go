// Package memkeeper is a [onced.Keeper] in memory on the real state machine: the
// double that the API's and the gateway's tests run against.
//
// Invariants:
//
//   - Every decision is made by package fsm, so that a test against it is a test of the machine.
//   - Calls are applied one at a time, in some order.
package memkeeper

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"onced"
	"onced/fsm"
	"onced/fsm/command"
	"onced/fsm/memtable"
	"onced/fsm/verbs"
)

// Keeper is a onced.Keeper in memory, safe for concurrent use.
type Keeper struct {
	now func() onced.Instant

	mu      sync.Mutex
	table   *memtable.Table
	index   uint64
	owners  int
	changed chan struct{} // closed and replaced at every write
	down    error
}

var _ onced.Keeper = (*Keeper)(nil)

// New returns an empty Keeper whose clock is now.
func New(now func() onced.Instant) *Keeper {
	return &Keeper{now: now, table: memtable.New(), changed: make(chan struct{})}
}

// SetDown makes every call fail with a CodeUnavailable problem of that detail,
// as a node without a majority does; "" ends it.
func (k *Keeper) SetDown(detail string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = nil
	if detail != "" {
		k.down = &onced.Problem{Code: onced.CodeUnavailable, Detail: detail, RetryAfter: time.Second}
	}
}

// do applies one command.
func (k *Keeper) do(ctx context.Context, c *command.Command) (fsm.Result, error) {
	result, _, err := k.doAndWatch(ctx, c)
	return result, err
}

// doAndWatch is do, with a channel that is closed at the next write after it.
func (k *Keeper) doAndWatch(ctx context.Context, c *command.Command) (fsm.Result, <-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return fsm.Result{}, nil, onced.AsProblem(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	result, err := k.apply(c)
	return result, k.changed, err
}

func (k *Keeper) apply(c *command.Command) (fsm.Result, error) {
	if k.down != nil {
		return fsm.Result{}, k.down
	}
	k.index++
	results, err := fsm.Apply(k.table, k.index, &command.Entry{Version: fsm.Version, StampMs: int64(k.now()), Commands: []*command.Command{c}})
	if err != nil {
		return fsm.Result{}, onced.AsProblem(err)
	}
	if results[0].Outcome != fsm.OutcomeInProgress { // else waiting reserves would wake each other for ever
		close(k.changed)
		k.changed = make(chan struct{})
	}
	return results[0], nil
}

// Reserve is part of onced.Keeper.
func (k *Keeper) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	r = r.WithDefaults()
	if err := r.Validate(); err != nil {
		return onced.ReserveResult{}, err
	}
	if r.Owner == "" {
		k.mu.Lock()
		k.owners++
		r.Owner = fmt.Sprintf("memkeeper-%d", k.owners)
		k.mu.Unlock()
	}
	deadline := k.now().Add(r.Wait)
	for {
		result, changed, err := k.doAndWatch(ctx, verbs.Reserve(r))
		if err != nil {
			return onced.ReserveResult{}, err
		}
		left := deadline.Sub(k.now())
		if result.Outcome != fsm.OutcomeInProgress || left <= 0 {
			return verbs.ReserveAnswer(r.ID, result)
		}
		k.wait(ctx, changed, min(left, time.Duration(result.Row.LeaseUntil-result.Now)*time.Millisecond))
	}
}

func (k *Keeper) wait(ctx context.Context, changed <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(max(d, time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timer.C:
	}
}

// Complete is part of onced.Keeper.
func (k *Keeper) Complete(ctx context.Context, r onced.CompleteRequest) (onced.Record, error) {
	if err := r.Validate(); err != nil {
		return onced.Record{}, err
	}
	result, err := k.do(ctx, verbs.Complete(r))
	if err != nil {
		return onced.Record{}, err
	}
	return verbs.RecordAnswer(r.ID, result)
}

// Release is part of onced.Keeper.
func (k *Keeper) Release(ctx context.Context, r onced.ReleaseRequest) error {
	if err := r.Validate(); err != nil {
		return err
	}
	result, err := k.do(ctx, verbs.Release(r))
	if err != nil {
		return err
	}
	return verbs.EmptyAnswer(r.ID, result)
}

// Renew is part of onced.Keeper.
func (k *Keeper) Renew(ctx context.Context, r onced.RenewRequest) (onced.Record, error) {
	if err := r.Validate(); err != nil {
		return onced.Record{}, err
	}
	result, err := k.do(ctx, verbs.Renew(r))
	if err != nil {
		return onced.Record{}, err
	}
	return verbs.RecordAnswer(r.ID, result)
}

// saw returns the token of the record that an operator's verb is about.
func (k *Keeper) saw(id onced.ID) onced.Token {
	k.mu.Lock()
	defer k.mu.Unlock()
	row, _ := k.table.Row(id)
	if row == nil {
		return 0
	}
	return onced.Token(row.Token)
}

// Resolve is part of onced.Keeper.
func (k *Keeper) Resolve(ctx context.Context, r onced.ResolveRequest) (onced.Record, error) {
	if err := r.Validate(); err != nil {
		return onced.Record{}, err
	}
	result, err := k.do(ctx, verbs.Resolve(r, k.saw(r.ID)))
	if err != nil {
		return onced.Record{}, err
	}
	return verbs.RecordAnswer(r.ID, result)
}

// Forget is part of onced.Keeper.
func (k *Keeper) Forget(ctx context.Context, r onced.ForgetRequest) error {
	result, err := k.do(ctx, verbs.Forget(r, k.saw(r.ID)))
	if err != nil {
		return err
	}
	return verbs.EmptyAnswer(r.ID, result)
}

// Get is part of onced.Keeper.
func (k *Keeper) Get(ctx context.Context, r onced.GetRequest) (onced.Record, error) {
	deadline := k.now().Add(r.Wait)
	for {
		rec, changed, err := k.read(r.ID)
		left := deadline.Sub(k.now())
		if err != nil || rec.State != onced.StateInProgress || left <= 0 || ctx.Err() != nil {
			return rec, err
		}
		if lease := rec.LeaseExpiresAt.Sub(k.now()); lease > 0 {
			left = min(left, lease)
		}
		k.wait(ctx, changed, left)
	}
}

// read looks at a record now, without a write: a lapse is seen by its reader's clock.
func (k *Keeper) read(id onced.ID) (onced.Record, <-chan struct{}, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down != nil {
		return onced.Record{}, nil, k.down
	}
	row, _ := k.table.Row(id)
	rec, err := verbs.FullRecord(id, row, max(int64(k.now()), k.table.Meta().Clock))
	if err == nil && rec.State == onced.StateAbsent {
		err = onced.Problemf(onced.CodeKeyNotFound, "there is no record of this key")
	}
	return rec, k.changed, err
}

// List is part of onced.Keeper.
func (k *Keeper) List(ctx context.Context, r onced.ListRequest) (onced.ListResult, error) {
	after, err := base64.RawURLEncoding.DecodeString(r.Cursor)
	if err != nil {
		return onced.ListResult{}, onced.Problemf(onced.CodeInvalidRequest, "the cursor is not one of ours")
	}
	limit := r.Limit
	if limit == 0 {
		limit = onced.DefaultListLimit
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down != nil {
		return onced.ListResult{}, k.down
	}
	var page onced.ListResult
	for _, id := range k.table.IDs() {
		place := id.Scope + "\x00" + string(id.Key)
		if id.Tenant != r.Tenant || r.Cursor != "" && place <= string(after) || !strings.HasPrefix(string(id.Key), r.Prefix) ||
			r.Scope != nil && *r.Scope != id.Scope {
			continue
		}
		row, _ := k.table.Row(id)
		rec := verbs.Record(id, row, int64(k.now()))
		if rec.State == onced.StateAbsent || r.State != onced.StateAbsent && r.State != rec.State {
			continue
		}
		if len(page.Records) == limit {
			last := page.Records[limit-1]
			page.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(last.Scope + "\x00" + string(last.Key)))
			break
		}
		page.Records = append(page.Records, rec)
	}
	return page, nil
}
