package gateway

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"onced"
	"onced/internal/wire"
)

// The paths below /.onced/ are the gateway's own, on every method and in every spelling: a request for one is
// never forwarded.
const (
	ownSegment       = ".onced"
	operationsPrefix = "/.onced/operations/"
	operationsRoute  = "GET /.onced/operations/{key}" // as Event.Route names it
)

// ownPath tells whether a path as sent is the gateway's own, and whether an upstream might
// read it as one below that prefix though it is not.
func ownPath(escaped string) (own, odd bool) {
	isOwn := func(path []string) bool { return len(path) > 0 && strings.EqualFold(path[0], ownSegment) }
	if isOwn(plainSegments(escaped)) {
		return true, false
	}
	if !isOdd(escaped) {
		return false, false
	}
	if !slices.ContainsFunc(texts(escaped), func(text string) bool { return strings.Contains(strings.ToLower(text), ownSegment) }) {
		return false, false // however long it is
	}
	for _, reading := range otherReadings(escaped) {
		if isOwn(reading) {
			return false, true
		}
	}
	return false, false
}

// serveOwn answers what is asked of the gateway itself: what became of an operation.
func (g *Gateway) serveOwn(w http.ResponseWriter, r *http.Request, t *table) {
	query, _ := url.ParseQuery(r.URL.RawQuery) // judged by readQuery
	own := t.ownRoute(query)
	o := &operation{g: g, t: t, route: own, req: r, client: newClient(w, r, own.contract), log: g.log, started: time.Now()}
	o.client.always = http.Header{"Cache-Control": {"no-store"}} // the path alone does not tell two accounts apart
	path := plainSegments(r.URL.EscapedPath())
	switch {
	case len(path) != 3 || path[0] != ownSegment || path[1] != "operations":
		o.refuseAs(http.StatusNotFound, onced.Problemf(onced.CodeInvalidRequest, "the gateway has nothing at this path; what is below /%s/ is its own and never forwarded: expected %s{key}", ownSegment, operationsPrefix))
	case o.client.preflight(r):
		o.done(Passed)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		o.client.always["Allow"] = []string{"GET, HEAD"}
		o.refuseAs(http.StatusMethodNotAllowed, onced.Problemf(onced.CodeInvalidRequest, "the method is %s: expected GET or HEAD", r.Method))
	default:
		o.tell(path[2])
	}
}

// tell answers with what is known of an operation of the caller's account. Who it is is asked before anything is
// looked up.
func (o *operation) tell(key string) {
	tenant, err := o.t.account.tenantOf(o.req.Header)
	if err != nil {
		o.refuse(err)
		return
	}
	o.id.Tenant = tenant
	if o.id.Key, err = onced.KeyFromPath(key); err != nil {
		o.refuse(err)
		return
	}
	if err := o.readQuery(); err != nil {
		o.refuse(err)
		return
	}
	rec, err := o.look()
	switch {
	case err != nil:
		o.refuse(err)
	case rec.State == onced.StateCompleted:
		o.replay(rec)
	case rec.State == onced.StateExpired:
		o.refuse(onced.Problemf(onced.CodeKeyExpired, "the answer was kept until %s", rec.ExpiresAt.Time().Format(time.RFC3339)))
	case rec.State == onced.StateUnknown || lapsed(rec):
		p := onced.Problemf(onced.CodeOutcomeUnknown, "attempt %d was sent, and what came of it is not known; the same request with the same key tells more, or takes over, where its route allows it", rec.Attempt)
		p.RetryAfter = 5 * time.Second
		o.refuse(p)
	default:
		o.done(InProgress)
		h := http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}}
		o.client.share(h)
		exposeNames(h, "Retry-After")
		o.client.send(http.StatusAccepted, h, append(wire.AppendRecord(nil, rec), '\n'))
	}
}

// look reads the record, or the answer that freed its key.
func (o *operation) look() (onced.Record, error) {
	rec, err := o.get(o.wait)
	if onced.CodeOf(err) == onced.CodeUnavailable && o.wait > 0 && o.g.closing.Err() != nil {
		rec, err = o.get(0)
	}
	if onced.CodeOf(err) != onced.CodeKeyNotFound {
		return rec, err
	}
	ctx, cancel := context.WithTimeout(o.req.Context(), o.g.requestTimeout)
	defer cancel()
	return o.freedAnswer(ctx)
}

// get reads the record. Who only waits is not waited for by a shutdown.
func (o *operation) get(wait time.Duration) (onced.Record, error) {
	ctx, cancel := context.WithTimeout(o.req.Context(), o.g.requestTimeout+wait)
	defer cancel()
	if wait > 0 {
		stop := context.AfterFunc(o.g.closing, cancel)
		defer stop()
	}
	return o.g.keeper.Get(ctx, onced.GetRequest{ID: o.id, Wait: wait})
}

// lapsed tells whether a running record has no holder any more: under retry it stays in_progress until the next
// request takes over. It is only told, and decides nothing, so the gateway's own clock will do.
func lapsed(rec onced.Record) bool {
	return rec.State == onced.StateInProgress && rec.LeaseExpiresAt <= onced.InstantOf(time.Now())
}

// readQuery reads ?scope= and ?wait=; contract is what ownRoute reads. Another parameter, or one that stands twice, is a mistake.
func (o *operation) readQuery() error {
	values, err := url.ParseQuery(o.req.URL.RawQuery)
	if err != nil {
		return onced.Problemf(onced.CodeInvalidRequest, "the query cannot be read: %v", err)
	}
	for name, lines := range values {
		if name != "scope" && name != "wait" && name != "contract" || len(lines) != 1 {
			return onced.Problemf(onced.CodeInvalidRequest, "the query parameter %.60q is there %d times: expected scope, wait and contract, each at most once", name, len(lines))
		}
	}
	if _, err := contractOf(values.Get("contract")); err != nil {
		return onced.Problemf(onced.CodeInvalidRequest, "contract is %v", err)
	}
	o.id.Scope = values.Get("scope")
	if err := onced.CheckScope(o.id.Scope); err != nil {
		return err
	}
	if o.id.Scope == asideScope {
		return onced.Problemf(onced.CodeKeyNotFound, "the scope %q is the gateway's own", asideScope)
	}
	if !values.Has("wait") {
		return nil
	}
	if o.wait, err = time.ParseDuration(values.Get("wait")); err != nil || o.wait < 0 || o.wait > onced.MaxWait {
		return onced.Problemf(onced.CodeInvalidRequest, "wait is %.60q: expected a duration from 0s to %s, such as 10s", values.Get("wait"), onced.MaxWait)
	}
	return nil
}

// refuseAs is refuse with another status than the code's.
func (o *operation) refuseAs(status int, p *onced.Problem) {
	o.done(Refused)
	o.client.refuse(refusal{problem: p, status: status})
}

// ownRoutes are the routes by which answers are given at the gateway's own path, one of each contract, by its name. It
// is not known which route stored an answer, so a header that was stored is given if any route keeps it.
func (t *table) ownRoutes(secret []byte) (map[string]*route, error) {
	own := map[string]*route{}
	for i := range contracts {
		rt, err := compileRoute(Route{Match: "POST /", Contract: contracts[i].name}, secret)
		if err != nil {
			return nil, err
		}
		rt.pattern.text = operationsRoute
		for _, other := range t.routes {
			maps.Copy(rt.keep, other.keep)
		}
		own[contracts[i].name] = rt
	}
	return own, nil
}

// ownRoute returns that of ownRoutes whose contract an operation's client is spoken to by. A record does not say it, so the
// query does: by the contract's name, or by the scope that a route gave. Else it is the contract that all routes
// have, or the default one.
func (t *table) ownRoute(query url.Values) *route {
	if rt := t.own[query.Get("contract")]; rt != nil {
		return rt
	}
	if method, path, ok := strings.Cut(query.Get("scope"), " "); ok {
		if rt := t.first(method, plainSegments(path)); rt.protected() && rt.scoped {
			return t.own[rt.contract.name]
		}
	}
	common := ""
	for _, rt := range t.routes {
		switch name := rt.contract.name; {
		case !rt.protected() || name == common:
		case common != "":
			return t.own[standard.name]
		default:
			common = name
		}
	}
	return t.own[cmp.Or(common, standard.name)]
}
