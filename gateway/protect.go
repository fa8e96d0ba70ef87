package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"time"

	"onced"
)

// operation is one protected request on its way. It belongs to the goroutine of
// its handler; what goes on after the answer has its own copies.
type operation struct {
	g       *Gateway
	t       *table
	route   *route
	req     *http.Request
	client  *client
	log     *slog.Logger
	started time.Time

	id          onced.ID
	fingerprint string
	body        []byte   // of the request, as sent
	segments    []string // of its path, read plainly
	prefers     preference
	wait        time.Duration // how long a duplicate waits for the running one

	token    onced.Token // once reserved
	attempt  uint32
	async    bool     // its client was, or may be, answered before it ends; then its goroutine has what it holds
	sighting Sighting // what a look-up told, "" where there was none

	placed bool  // it has a place at the upstream; see enter
	held   int64 // bytes of bodies that are counted as held in memory
}

// protect takes a protected request all the way: admit, reserve, forward once, record, answer.
func (g *Gateway) protect(w http.ResponseWriter, r *http.Request, t *table, c choice) {
	o := &operation{g: g, t: t, route: c.route, req: r, client: newClient(w, r, c.contract()), log: g.log.With("request_id", requestIDOf(r)), started: time.Now()}
	if !g.ops.begin() {
		o.refuse(onced.Problemf(onced.CodeUnavailable, "this gateway is shutting down; nothing was started"))
		return
	}
	defer g.ops.end()
	defer func() {
		if !o.async {
			o.leave()
			o.letGo()
		}
	}()
	if err := o.admit(w, c); err != nil {
		o.refuse(err)
		return
	}
	granted, err := o.enter()
	switch {
	case o.prefers.async && onced.CodeOf(err) == onced.CodeRequestInProgress:
		o.accept(false)
	case err != nil:
		o.refuse(err)
	case granted.Replayed:
		o.replay(granted.Record)
	default:
		o.token, o.attempt = granted.Record.Token, granted.Record.Attempt
		o.log = o.log.With("tenant", o.id.Tenant, "scope", o.id.Scope, "key_digest", o.id.Digest(), "token", uint64(o.token), "attempt", o.attempt)
		o.detect()
		o.start()
	}
}

// admit finds out whose key it is, which, and what for. Nothing is looked up before
// the account is known.
func (o *operation) admit(w http.ResponseWriter, c choice) error {
	tenant, err := o.t.account.tenantOf(o.req.Header)
	if err != nil {
		return err
	}
	key, err := o.route.keyOf(o.req.Header)
	if err != nil {
		return err
	}
	o.id = onced.ID{Tenant: tenant, Key: key}
	o.segments = c.segments
	if o.prefers, o.wait = preferenceOf(o.req.Header), o.route.wait; o.prefers.async {
		o.wait = o.prefers.wait
	}
	if o.route.scoped {
		o.id.Scope = shortScope(c.route.pattern.scopeOf(c.method, c.segments))
	}
	if o.body, err = o.readBody(w); err != nil {
		return err
	}
	plain, coding, err := decodeBody(o.req.Header, o.body, o.route.maxRequest)
	if err != nil {
		return err
	}
	if len(plain) != len(o.body) { // a second body; an encoded one that decodes to its own length is as good as none
		if err = o.hold(int64(len(plain))); err != nil {
			return err
		}
	}
	o.fingerprint = o.route.digest.Sum(digestible(o.req, plain, coding, o.body))
	return nil
}

// shortScope returns scope, or a digest of it where it is too long for a name.
func shortScope(scope string) string {
	if len(scope) <= onced.MaxScopeBytes {
		return scope
	}
	sum := sha256.Sum256([]byte(scope))
	return "route " + base64.RawURLEncoding.EncodeToString(sum[:])
}

// sendWithin is how old a grant, or a renewal, may be when its operation is sent. Whoever finds a record whose
// holder is gone knows by it when the request was sent at the latest.
const sendWithin = time.Second

// reserve asks the Keeper, with takeover for the next attempt of an unknown record. Whoever hangs
// up meanwhile, the request was sent whole, so the operation is wanted. A duplicate waits as long as wait for the
// running one.
func (o *operation) reserve(takeover onced.Token, wait time.Duration) (onced.ReserveResult, error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.req.Context()), o.g.requestTimeout+wait)
	defer cancel()
	granted, err := o.g.keeper.Reserve(ctx, onced.ReserveRequest{
		ID: o.id, Fingerprint: o.fingerprint, Lease: o.route.lease, Retention: o.route.retention,
		Tombstone: o.route.tombstone, OnLapse: o.route.onLapse, Wait: wait, Takeover: takeover,
	})
	if err != nil || granted.Replayed || o.fresh(asked) {
		return granted, err
	}
	return granted, o.confirm(ctx, granted.Record.Token)
}

// fresh tells whether what was granted after asked can be relied on.
func (o *operation) fresh(asked time.Time) bool {
	return time.Since(asked) < min(o.route.lease, sendWithin)
}

// confirm renews a reservation whose lease may be over before anything was sent, as
// the answer took long, until a renewal comes in time. Nothing may be sent on one that is not ours any more.
func (o *operation) confirm(ctx context.Context, token onced.Token) error {
	var err error
	for err == nil {
		asked := time.Now()
		if _, err = o.g.keeper.Renew(ctx, onced.RenewRequest{ID: o.id, Token: token, Lease: o.route.lease}); err == nil && o.fresh(asked) {
			return nil
		}
	}
	o.token = token
	o.settle(ending{disposition: freeKey})
	return onced.Problemf(onced.CodeUnavailable, "the reservation could not be confirmed in time (%s); nothing was started", onced.CodeOf(err))
}

// refuse answers with a problem. An error that is no Problem is unavailable: fail closed.
func (o *operation) refuse(err error) {
	p := onced.AsProblem(err)
	if p.Code == onced.CodeUnavailable && p.RetryAfter == 0 {
		copied := *p
		copied.RetryAfter, p = time.Second, &copied
	}
	o.done(outcomeOf(p.Code))
	o.client.refuse(refusal{problem: p})
}

// done tells the observer.
func (o *operation) done(outcome Outcome) {
	took := time.Since(o.started)
	o.g.observe(Event{Route: o.route.pattern.text, Outcome: outcome, Took: took, Sighting: o.sighting})
	o.log.Debug("gateway: request", "route", o.route.pattern.text, "outcome", string(outcome), "took", took)
}
