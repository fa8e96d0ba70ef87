package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"onced"
)

// contract is what a route promises to its clients about keys: what of answers is kept, how long, how a
// refusal is told, and how a replay is marked. All differences between contracts are in the values
// below; nothing else in this package asks for a contract's name.
type contract struct {
	name string

	// What a route has that does not say it.
	store, release []string
	retention      time.Duration
	onUnknown      string

	// What a route cannot change, as its clients rely on it.
	maxKey      int           // bytes of a key
	needsKey    bool          // key: required, and nothing else
	fixedPolicy bool          // on_unknown is as above, and nothing else
	minKept     time.Duration // the least retention; 0 = any
	always      []string      // statuses that are kept with their answer
	never       []string      // statuses whose answer is never kept
	quotedKeys  bool          // a key_pattern that begins with a quote is matched over the header as it was sent

	// How it speaks.
	told        map[onced.Code]told                     // how a problem is told, where not as the API does
	write       func(h http.Header, s said) []byte      // the body of a refusal, with the headers that belong to it
	replayed    string                                  // the header that marks a replay
	shouldRetry string                                  // the header that tells official clients whether to send again; "" = none
	edit        func(h http.Header, body []byte) []byte // what a replay's body becomes; nil = it stays
}

// told is how one problem is told. What is zero is as onced.Codes has it.
type told struct {
	status int
	name   string // of its code
	kind   string // its type, in an envelope that has one
}

var (
	successes = []string{"2xx", "3xx"}
	nothing   = []string{"401", "408", "421", "425", "429", "503"} // was done, the upstream says
)

var contracts = []contract{
	{
		name:  "default",
		store: []string{"2xx", "3xx", "4xx"}, release: nothing, retention: onced.DefaultRetention, onUnknown: "hold",
		maxKey: onced.MaxHeaderKeyBytes,
		write:  writeProblem, replayed: replayedHeader,
	},
	{
		name:  "ietf", // draft-ietf-httpapi-idempotency-key-header
		store: []string{"2xx", "3xx", "4xx"}, release: nothing, retention: onced.DefaultRetention, onUnknown: "hold",
		maxKey: onced.MaxHeaderKeyBytes, quotedKeys: true,
		told:  map[onced.Code]told{onced.CodeConflict: {status: 422}},
		write: writeLinkedProblem, replayed: replayedHeader,
	},
	{
		name:  "stripe",
		store: []string{"2xx", "3xx", "4xx", "5xx"}, release: []string{"409", "429"}, retention: onced.DefaultRetention, onUnknown: "hold",
		maxKey: onced.MaxKeyBytes, never: []string{"409", "429"},
		told: map[onced.Code]told{
			onced.CodeConflict:          {status: 400, kind: stripeIdempotency},
			onced.CodeKeyExpired:        {status: 400, kind: stripeIdempotency},
			onced.CodeRequestInProgress: {name: "idempotency_key_in_use", kind: stripeIdempotency},
			onced.CodeResponseNotKept:   {kind: stripeIdempotency},
			onced.CodeOutcomeUnknown:    {kind: stripeAPI},
			onced.CodeRateLimited:       {name: "rate_limit"},
		},
		write: writeEnvelope, replayed: "Idempotent-Replayed", shouldRetry: "Stripe-Should-Retry",
	},
	{
		name:  "realtime",
		store: successes, release: []string{"4xx", "503"}, retention: 30 * 24 * time.Hour, onUnknown: "retry",
		maxKey: onced.MaxHeaderKeyBytes, needsKey: true, fixedPolicy: true, minKept: 30 * 24 * time.Hour, always: successes, never: []string{"4xx", "5xx"},
		told: map[onced.Code]told{
			onced.CodeRateLimited:   {name: "realtime_rate_limited"},
			onced.CodeQuotaExceeded: {name: "realtime_rate_limited"},
			onced.CodeUnavailable:   {name: "realtime_route_unavailable"},
		},
		write: writeProblem, replayed: replayedHeader, edit: sayReplayed,
	},
}

// standard is the contract of what no route has another for.
var standard = &contracts[0]

// contractOf returns the contract of a name, the default one for "".
func contractOf(name string) (*contract, error) {
	var names []string
	for i := range contracts {
		if cmp.Or(name, standard.name) == contracts[i].name {
			return &contracts[i], nil
		}
		names = append(names, contracts[i].name)
	}
	return nil, fmt.Errorf("%q: expected one of %s", name, strings.Join(names, ", "))
}

// contract is how the client of a request is spoken to.
func (c choice) contract() *contract {
	if c.route == nil {
		return standard
	}
	return c.route.contract
}

// mark adds the gateway's markers to an answer, and exposes them to browsers where the upstream allows
// their origin. expires is the zero Instant where nothing was recorded.
func (ct *contract) mark(status int, h http.Header, replayed bool, expires onced.Instant) {
	h[ct.replayed] = []string{"false"}
	if replayed {
		h[ct.replayed] = []string{"true"}
	}
	if expires != 0 {
		h[expiresHeader] = []string{expires.Time().Format("2006-01-02T15:04:05.000Z")}
	}
	if _, said := h[ct.shouldRetry]; ct.shouldRetry != "" && !said && expires != 0 && status >= 500 {
		h[ct.shouldRetry] = []string{"false"} // it is kept: sending it again brings it again
	}
	expose(h, ct.replayed)
}

// edited returns a replay's body as the contract gives it. It may change h.
func (ct *contract) edited(h http.Header, body []byte) []byte {
	if ct.edit == nil {
		return body
	}
	return ct.edit(h, body)
}
