package client

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"onced"
	"onced/internal/wire"
)

// Reserve implements onced.Keeper.
func (c *Client) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	id, err := c.named(r.ID)
	r.ID = judged(id)
	if err := valid(err, r.WithDefaults()); err != nil {
		return onced.ReserveResult{}, err
	}
	ours := r.Owner == ""
	if ours {
		r.Owner = newOwner()
	}
	q := c.post(id, "reserve", nil)
	q.waitUntil = time.Now().Add(r.Wait)
	q.prepare = func(wait time.Duration) (string, []byte) {
		r := r
		r.Wait = wait
		return q.path, wire.AppendReserve(nil, r)
	}
	result, maybe, err := ask(ctx, c, q, func(body []byte) (onced.ReserveResult, error) {
		return wire.DecodeReserveResult(body, id)
	})
	if err != nil && maybe && ours {
		c.cancelLater(id, r.Owner)
	}
	return result, err
}

// newOwner returns a nonce of 26 characters that nobody else ever makes.
func newOwner() string { return rand.Text() }

// Complete implements onced.Keeper.
func (c *Client) Complete(ctx context.Context, r onced.CompleteRequest) (onced.Record, error) {
	id, err := c.named(r.ID)
	r.ID = judged(id)
	if err := valid(err, r); err != nil {
		return onced.Record{}, err
	}
	return c.record(ctx, c.post(id, "complete", wire.AppendComplete(nil, r)))
}

// Release implements onced.Keeper.
func (c *Client) Release(ctx context.Context, r onced.ReleaseRequest) error {
	id, err := c.named(r.ID)
	r.ID = judged(id)
	if err := valid(err, r); err != nil {
		return err
	}
	_, err = c.do(ctx, c.post(id, "release", wire.AppendRelease(nil, r)))
	return err
}

// Renew implements onced.Keeper. Of the record only its name, its token and until when the
// lease holds is known.
func (c *Client) Renew(ctx context.Context, r onced.RenewRequest) (onced.Record, error) {
	id, err := c.named(r.ID)
	r.ID = judged(id)
	if err := valid(err, r); err != nil {
		return onced.Record{}, err
	}
	until, _, err := ask(ctx, c, c.post(id, "renew", wire.AppendRenew(nil, r)), wire.DecodeRenewed)
	if err != nil {
		return onced.Record{}, err
	}
	return onced.Record{ID: id, State: onced.StateInProgress, Token: r.Token, Lease: r.Lease, LeaseExpiresAt: until}, nil
}

// Resolve implements onced.Keeper. It is sent again only when nothing of it was sent.
func (c *Client) Resolve(ctx context.Context, r onced.ResolveRequest) (onced.Record, error) {
	id, err := c.named(r.ID)
	r.ID = judged(id)
	if err := valid(err, r); err != nil {
		return onced.Record{}, err
	}
	q := c.post(id, "resolve", wire.AppendResolve(nil, r))
	q.once = true
	return c.record(ctx, q)
}

// Forget implements onced.Keeper. It is sent again only when nothing of it was sent.
func (c *Client) Forget(ctx context.Context, r onced.ForgetRequest) error {
	id, err := c.named(r.ID)
	if err != nil {
		return err
	}
	query := url.Values{}
	if r.Force {
		query.Set("force", "true")
	}
	if r.Reason != "" {
		query.Set("reason", r.Reason)
	}
	_, err = c.do(ctx, &request{method: http.MethodDelete, path: keyPath(id, "", query), tenant: id.Tenant, once: true})
	return err
}

// Get implements onced.Keeper. Stale reads the table of the node that the Client is with.
func (c *Client) Get(ctx context.Context, r onced.GetRequest) (onced.Record, error) {
	id, err := c.named(r.ID)
	if err != nil {
		return onced.Record{}, err
	}
	if r.Wait < 0 || r.Wait > onced.MaxWait {
		return onced.Record{}, onced.Problemf(onced.CodeInvalidRequest, "wait is %s: expected 0s to %s", r.Wait, onced.MaxWait)
	}
	q := &request{method: http.MethodGet, tenant: id.Tenant, waitUntil: time.Now().Add(r.Wait)}
	q.prepare = func(wait time.Duration) (string, []byte) {
		query := url.Values{}
		if wait > 0 {
			query.Set("wait", wait.String())
		}
		if r.Stale {
			query.Set("stale", "true")
		}
		return keyPath(id, "", query), nil
	}
	return c.record(ctx, q)
}

// List implements onced.Keeper.
func (c *Client) List(ctx context.Context, r onced.ListRequest) (onced.ListResult, error) {
	tenant, err := c.tenant(r.Tenant)
	if err != nil {
		return onced.ListResult{}, err
	}
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("prefix", r.Prefix)
	set("cursor", r.Cursor)
	if r.Scope != nil {
		query.Set("scope", *r.Scope)
	}
	if r.State != onced.StateAbsent {
		set("state", r.State.String())
	}
	if r.Limit != 0 {
		set("limit", strconv.Itoa(r.Limit))
	}
	page, _, err := ask(ctx, c, &request{method: http.MethodGet, path: "/v1/keys?" + query.Encode(), tenant: tenant}, wire.DecodeList)
	return page, err
}

// ask sends q and returns what decode makes of its answer.
func ask[T any](ctx context.Context, c *Client, q *request, decode func(body []byte) (T, error)) (result T, maybe bool, err error) {
	q.read = func(body []byte) (err error) {
		result, err = decode(body)
		return err
	}
	if maybe, err = c.do(ctx, q); err != nil {
		var none T
		return none, maybe, err
	}
	return result, false, nil
}

// valid returns err, else what is wrong with r.
func valid(err error, r interface{ Validate() error }) error {
	if err != nil {
		return err
	}
	return r.Validate()
}

// post is a call of a key with a body.
func (c *Client) post(id onced.ID, verb string, body []byte) *request {
	return &request{method: http.MethodPost, path: keyPath(id, verb, nil), tenant: id.Tenant, body: body}
}

// record asks for a record.
func (c *Client) record(ctx context.Context, q *request) (onced.Record, error) {
	rec, _, err := ask(ctx, c, q, wire.DecodeRecord)
	return rec, err
}

// tenant returns the tenant of a call, "" for the credential's own.
func (c *Client) tenant(name string) (string, error) {
	if name == "" {
		return c.Tenant, nil
	}
	return name, onced.CheckTenant(name)
}

// named returns id with its tenant, after judging its parts.
func (c *Client) named(id onced.ID) (onced.ID, error) {
	tenant, err := c.tenant(id.Tenant)
	if err != nil {
		return id, err
	}
	id.Tenant = tenant
	if err := onced.CheckScope(id.Scope); err != nil {
		return id, err
	}
	_, err = onced.KeyFromPath(string(id.Key))
	return id, err
}

// judged returns id as the checks of package onced want it: with a tenant, also where that is
// the credential's to say.
func judged(id onced.ID) onced.ID {
	if id.Tenant == "" {
		id.Tenant = "-"
	}
	return id
}
