package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"onced"
	"onced/internal/wire"
)

// verb is one method of one path.
type verb struct {
	name        string   // of the call, in metrics and logs
	keyed       bool     // its path has a key
	operator    bool     // only an operator may
	everyTenant bool     // it tells of every tenant: not for a client
	params      []string // the query parameters that it takes
	serve       func(c *call) error
}

// verbs are the methods of one path.
type verbs map[string]verb

// route is the handler of one path.
type route struct {
	api     *api
	methods verbs
}

// call is one request under way.
type call struct {
	*api
	w      http.ResponseWriter
	r      *http.Request
	seen   *observed
	caller Caller
	id     onced.ID // of a keyed verb; else only its tenant
	params params
}

// verbs returns the handler of one path.
func (a *api) verbs(byMethod verbs) http.Handler { return route{a, byMethod} }

// ServeHTTP takes the method, who it is, the key, the parameters, and only then the verb itself.
func (rt route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	v, ok := rt.methods[method]
	if !ok {
		methodNotAllowed(w, r, rt.methods.methods())
		return
	}
	c := call{api: rt.api, w: w, r: r, seen: observedOf(w)}
	c.seen.call = v.name
	if err := c.run(v); err != nil {
		c.refuse(err)
	}
}

func (v verbs) methods() []string {
	var methods []string
	for method := range v {
		methods = append(methods, method)
	}
	return methods
}

func (c *call) run(v verb) error {
	var err error
	if c.caller, err = c.authenticate(c.r, v); err != nil {
		return err
	}
	c.seen.tenant = c.caller.Tenant
	c.id.Tenant = c.caller.Tenant
	if v.keyed {
		if c.id.Key, err = keyOf(c.r); err != nil {
			return err
		}
	}
	if c.params, err = parseParams(c.r.URL.RawQuery, v.params); err != nil {
		return err
	}
	if c.id.Scope, err = c.params.scope(); err != nil {
		return err
	}
	if v.keyed {
		c.seen.id = c.id
	}
	return v.serve(c)
}

// keyOf decodes the key of the path. The path was matched as it was sent, so
// this is the one time that it is decoded.
func keyOf(r *http.Request) (onced.Key, error) {
	encoded, _, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), keysPath), "/")
	decoded, err := url.PathUnescape(encoded)
	if err != nil {
		return "", onced.Problemf(onced.CodeKeyInvalid, "the key %.60q has a bad escape: expected it percent-encoded", encoded)
	}
	return onced.KeyFromPath(decoded)
}

// context returns the context of asking the Keeper: until the call's deadline, and until the
// client hangs up unless the call is to go on then.
func (c *call) context(wait time.Duration, goOn bool) (context.Context, context.CancelFunc) {
	ctx := c.r.Context()
	if goOn {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, c.RequestTimeout+wait)
}

// answer sends a JSON body.
func (c *call) answer(status int, outcome string, body []byte) {
	c.seen.outcome = outcome
	sendJSON(c.w, status, body)
}

func sendJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// The client may be gone; there is nobody else to tell.
	_, _ = w.Write(body)
}

// refuse sends err as a problem.
func (c *call) refuse(err error) {
	p := problemOf(err)
	c.seen.outcome = string(p.Code)
	if p.Code == onced.CodeUnauthenticated {
		c.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	wire.WriteProblem(c.w, p, 0)
}

// problemOf returns err as a problem, which says when to try again where nothing else does.
func problemOf(err error) *onced.Problem {
	p := *onced.AsProblem(err)
	if p.Code == onced.CodeUnavailable && p.RetryAfter <= 0 {
		p.RetryAfter = time.Second
	}
	return &p
}

// notFound answers for a path that nobody serves. Its code is not key_not_found: a
// client must not take a mistyped path for an absent record.
func notFound(w http.ResponseWriter, r *http.Request) {
	p := onced.Problemf(onced.CodeInvalidRequest, "there is nothing at %.200q", r.URL.EscapedPath())
	if strings.HasPrefix(r.URL.EscapedPath(), "/v1/keys/") {
		p.Detail += "; expected /v1/keys/{key} or /v1/keys/{key}/ and one of reserve, complete, release, renew, resolve; a / in a key is written %2F"
	}
	observedOf(w).outcome = "not_found"
	wire.WriteProblem(w, p, http.StatusNotFound)
}

func methodNotAllowed(w http.ResponseWriter, r *http.Request, methods []string) {
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	slices.Sort(methods)
	allow := strings.Join(methods, ", ")
	w.Header().Set("Allow", allow)
	observedOf(w).outcome = "method_not_allowed"
	p := onced.Problemf(onced.CodeInvalidRequest, "the method of %.200q is %.20q: expected one of %s", r.URL.EscapedPath(), r.Method, allow)
	wire.WriteProblem(w, p, http.StatusMethodNotAllowed)
}

// page is the handler of a path that anybody may ask, by GET and by HEAD.
type page struct {
	name  string // in logs
	serve http.HandlerFunc
}

// ServeHTTP implements http.Handler.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	observedOf(w).page = p.name
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		methodNotAllowed(w, r, []string{http.MethodGet})
		return
	}
	p.serve(w, r)
}
