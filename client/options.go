package client

import (
	"log/slog"
	"net/http"
	"slices"
	"time"

	"onced"
	"onced/gateway/fingerprint"
)

// Outcome is what a handler's answer means for its key.
type Outcome int

const (
	// Keep completes the record with the answer: a repeat gets it.
	Keep Outcome = iota
	// Free gives the key back: nothing was done, and a repeat runs.
	Free
	// Unknown leaves the record unknown: it may have happened.
	Unknown
)

// Options are what Middleware needs. Tenant is required.
type Options struct {
	// Tenant returns whose key a request's is, from what authenticated it. An error, or "", refuses
	// the request before anything is looked up. HeaderTenant and SingleTenant are ready-made.
	Tenant func(*http.Request) (string, error)
	// Scope names the part of the tenant's keys. nil = none.
	Scope func(*http.Request) string
	// Methods are those whose requests are protected; others pass. nil = POST and PATCH.
	Methods []string
	// Optional lets a request without a key pass to the handler, unprotected.
	Optional bool
	// Fingerprint returns what the key is used for. nil = the digest that the gateway makes
	// by default: method, path, query and body, JSON compared by meaning.
	Fingerprint func(r *http.Request, body []byte) string
	// Outcome judges an answer. nil = DefaultOutcome.
	Outcome func(status int) Outcome
	// KeepHeaders are headers to be replayed of those that never are by default: Set-Cookie,
	// WWW-Authenticate and Date.
	KeepHeaders []string

	Lease     time.Duration // 0 = onced.DefaultLease
	Retention time.Duration // 0 = onced.DefaultRetention
	Tombstone time.Duration // 0 = none
	Wait      time.Duration // how long a duplicate waits for the running one. 0 = not at all
	OnLapse   onced.OnLapse

	MaxRequest  int64 // bytes of a body that are taken. 0 = 1 MiB
	MaxResponse int64 // bytes of a body that are stored; a longer one is recorded as omitted. 0 = 1 MiB

	// CallTimeout is how long a client waits for the reserve, and for the recording of its answer.
	// 0 = 10 s.
	CallTimeout time.Duration
	// RecordFor is how long recording goes on after that, while the handler's goroutine lasts. 0 = 5 min.
	RecordFor time.Duration

	// Lost is called, once at most and while the handler runs, when its reservation is lost, or its
	// lease is about to end because it could not be renewed. nil = nobody is told but the log.
	Lost   func(r *http.Request, problem *onced.Problem)
	Logger *slog.Logger // nil = nothing
}

const (
	defaultMaxBody     = 1 << 20
	defaultCallTimeout = 10 * time.Second
	defaultRecordFor   = 5 * time.Minute
)

func (o Options) withDefaults() Options {
	if o.Tenant == nil {
		panic("client: Middleware needs Options.Tenant: whose key it is must be said")
	}
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if o.Fingerprint == nil {
		o.Fingerprint = defaultFingerprint()
	}
	if o.Outcome == nil {
		o.Outcome = DefaultOutcome
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.Lease, onced.DefaultLease)
	setDefault(&o.MaxRequest, defaultMaxBody)
	setDefault(&o.MaxResponse, defaultMaxBody)
	setDefault(&o.CallTimeout, defaultCallTimeout)
	setDefault(&o.RecordFor, defaultRecordFor)
	return o
}

func setDefault[T ~int64](value *T, otherwise T) {
	if *value == 0 {
		*value = otherwise
	}
}

// DefaultOutcome judges as the gateway does: 401, 408, 421, 425, 429 and 503 free the key, any
// other 5xx is unknown, and the rest is kept.
func DefaultOutcome(status int) Outcome {
	switch {
	case slices.Contains([]int{401, 408, 421, 425, 429, 503}, status):
		return Free
	case status >= 500:
		return Unknown
	}
	return Keep
}

// HeaderTenant takes the tenant from a header that whatever authenticates before us sets.
func HeaderTenant(name string) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		switch lines := r.Header.Values(name); len(lines) {
		case 0:
			return "", nil
		case 1:
			return lines[0], nil
		default:
			return "", onced.Problemf(onced.CodeInvalidRequest, "there are %d %s lines: expected one", len(lines), name)
		}
	}
}

// SingleTenant takes every caller for the same tenant.
func SingleTenant(name string) func(*http.Request) (string, error) {
	return func(*http.Request) (string, error) { return name, nil }
}

func defaultFingerprint() func(*http.Request, []byte) string {
	digest, err := fingerprint.New(nil, fingerprint.Options{})
	if err != nil {
		panic(err) // the options are the defaults
	}
	return func(r *http.Request, body []byte) string {
		return digest.Sum(fingerprint.Request{
			Method: r.Method, Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery, Header: r.Header,
			Body: body, Coding: r.Header.Get("Content-Encoding"), Raw: body,
		})
	}
}
