package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"onced"
	"onced/cluster/propose"
	"onced/fsm"
	"onced/fsm/verbs"
	"onced/store"
)

// The verbs of an operator. Each looks at the record first and pins the token that it saw, so
// that a retry can never settle another attempt than the one the operator meant.

// Resolve is part of onced.Keeper.
func (n *Node) Resolve(ctx context.Context, r onced.ResolveRequest) (onced.Record, error) {
	if err := r.Validate(); err != nil {
		return onced.Record{}, err
	}
	seen, err := n.Get(ctx, onced.GetRequest{ID: r.ID})
	if err != nil {
		return onced.Record{}, err
	}
	result, err := n.submit(ctx, verbs.Resolve(r, seen.Token), propose.ByCaller)
	switch {
	case err != nil:
		return onced.Record{}, err
	case result.Outcome == fsm.OutcomeKeyNotFound && r.Response == nil:
		// It was there when the call began and is gone: released, by an earlier try of this call or by another.
		return onced.Record{ID: r.ID}, nil
	}
	return verbs.RecordAnswer(r.ID, result)
}

// Forget is part of onced.Keeper.
func (n *Node) Forget(ctx context.Context, r onced.ForgetRequest) error {
	seen, err := n.Get(ctx, onced.GetRequest{ID: r.ID})
	if err != nil {
		return err
	}
	result, err := n.submit(ctx, verbs.Forget(r, seen.Token), propose.ByCaller)
	switch {
	case err != nil:
		return err
	case result.Outcome == fsm.OutcomeKeyNotFound:
		return nil // as above
	}
	return verbs.EmptyAnswer(r.ID, result)
}

// List is part of onced.Keeper.
func (n *Node) List(ctx context.Context, r onced.ListRequest) (onced.ListResult, error) {
	after, err := parseCursor(r.Cursor)
	if err != nil {
		return onced.ListResult{}, err
	}
	limit := r.Limit
	if limit == 0 {
		limit = onced.DefaultListLimit
	}
	if limit < 0 || limit > onced.MaxListLimit {
		return onced.ListResult{}, onced.Problemf(onced.CodeInvalidRequest, "limit is %d: expected 1 to %d", limit, onced.MaxListLimit)
	}
	ctx, cancel := n.untilDecided(ctx)
	defer cancel()
	if err := n.catchUp(ctx); err != nil {
		return onced.ListResult{}, unavailable(fmt.Errorf("listing: %w", err))
	}
	return n.listPage(ctx, r, after, limit)
}

// listPage reads portions until the page is full, so that a filter that matches little neither holds
// the table for long nor gives empty pages.
func (n *Node) listPage(ctx context.Context, r onced.ListRequest, after onced.ID, limit int) (onced.ListResult, error) {
	now := n.table.Meta().Clock
	query := store.ListQuery{
		Tenant: r.Tenant, Scope: r.Scope, Prefix: r.Prefix, After: after, Limit: limit,
		Open: r.State == onced.StateInProgress || r.State == onced.StateUnknown,
		Match: func(row *fsm.Row) bool {
			state := row.StateAt(now)
			return state != onced.StateAbsent && (r.State == onced.StateAbsent || r.State == state)
		},
	}
	result := onced.ListResult{Records: []onced.Record{}}
	for {
		page, err := n.table.List(query)
		if err != nil {
			n.fail(err)
			return onced.ListResult{}, unavailable(err)
		}
		for _, row := range page.Rows {
			result.Records = append(result.Records, verbs.Record(row.ID, row.Row, now))
		}
		switch {
		case !page.More:
			return result, nil
		case len(result.Records) >= limit, ctx.Err() != nil:
			result.NextCursor = cursor(page.Next)
			return result, nil
		}
		query.After, query.Limit = page.Next, limit-len(result.Records)
	}
}

// cursorVersion begins every cursor, so that one of another kind is told from ours.
const cursorVersion = "1"

// cursor names the place after id.
func cursor(id onced.ID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorVersion + id.Scope + "\x00" + string(id.Key)))
}

func parseCursor(s string) (onced.ID, error) {
	if s == "" {
		return onced.ID{}, nil
	}
	bad := onced.Problemf(onced.CodeInvalidRequest, "the cursor %.80q is not one of ours: use the next_cursor of the page before, or none", s)
	b, err := base64.RawURLEncoding.DecodeString(s)
	place, ours := strings.CutPrefix(string(b), cursorVersion)
	if err != nil || !ours {
		return onced.ID{}, bad
	}
	scope, key, found := strings.Cut(place, "\x00")
	if _, err := onced.KeyFromPath(key); !found || err != nil || onced.CheckScope(scope) != nil {
		return onced.ID{}, bad
	}
	return onced.ID{Scope: scope, Key: onced.Key(key)}, nil
}
