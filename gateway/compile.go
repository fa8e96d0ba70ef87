package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"time"

	"onced"
	"onced/gateway/fingerprint"
)

const (
	keyRequired = "required"
	keyOptional = "optional"
	keyOff      = "off"

	defaultTimeout = 30 * time.Second
	maxTimeout     = 24 * time.Hour
	defaultBody    = 1 << 20
	maxBody        = 1 << 30
	maxStored      = 8 << 20 // an answer is one log entry, and the cluster's heartbeats wait behind it
)

// route is a Route that was judged and has its defaults.
type route struct {
	pattern       pattern
	key           string
	contract      *contract
	keyPattern    *regexp.Regexp // nil = any key
	keyAsSent     bool           // keyPattern is matched over the header's value, quotes included
	scoped        bool           // scope: route
	lease         time.Duration
	timeout       time.Duration
	retention     time.Duration
	tombstone     time.Duration
	wait          time.Duration
	onLapse       onced.OnLapse
	probe         *probe // nil unless on_unknown: probe
	store         statusSet
	release       statusSet
	digest        *fingerprint.Digester
	keep          map[string]bool // canonical names
	maxRequest    int64
	maxResponse   int64
	maxConcurrent int64
	concurrent    *bound // requests at the upstream; set by adopt
	bodyless      bool   // fingerprint: {body: none}
	reuse         bool
	codeTerms     map[int]time.Duration // retention_by_status
	classTerms    map[int]time.Duration
}

// protected tells whether the route is for protected requests; a nil one is not.
func (rt *route) protected() bool { return rt != nil && rt.key != keyOff }

// retentionOf returns the retention of a stored status, 0 = the record's own.
func (rt *route) retentionOf(status int) time.Duration {
	if d, ok := rt.codeTerms[status]; ok {
		return d
	}
	return rt.classTerms[status/100]
}

// compile judges c and gives every field its default.
func compile(c Config, secret []byte) (*table, error) {
	t := &table{}
	for _, f := range t.settings(c, secret) {
		if err := f.judge(); err != nil {
			return nil, &placed{text: "gateway: ", err: at(f.name, err)}
		}
	}
	for i, r := range c.Routes {
		if err := t.add(r, secret); err != nil {
			return nil, &placed{text: fmt.Sprintf("gateway: routes[%d] (%s): ", i, r.Match), path: []any{"routes", i}, err: err}
		}
	}
	if err := t.roomy(); err != nil {
		return nil, &placed{text: "gateway: ", err: err}
	}
	var err error
	t.own, err = t.ownRoutes(secret)
	return t, err
}

// add judges the next route.
func (t *table) add(r Route, secret []byte) error {
	rt, err := compileRoute(r, secret)
	if err != nil {
		return err
	}
	for j, earlier := range t.routes {
		if earlier.pattern.covers(&rt.pattern) {
			return at("match", fmt.Errorf("it is never reached, as routes[%d] (%s) takes all of its requests; put it before that one", j, earlier.pattern.text))
		}
	}
	t.routes = append(t.routes, rt)
	return nil
}

// field is one field of a route: its name in the file, and what judges it and gives it its default.
type field struct {
	name  string
	judge func() error
}

func compileRoute(r Route, secret []byte) (*route, error) {
	ct, err := contractOf(r.Contract) // first, as it has the defaults of the others
	if err != nil {
		return nil, at("contract", err)
	}
	rt := &route{contract: ct, reuse: r.ReuseConnections, bodyless: r.Fingerprint.Body == fingerprint.None}
	for _, f := range slices.Concat(rt.policy(r), rt.content(r, secret), rt.promises(r)) {
		if err := f.judge(); err != nil {
			return nil, at(f.name, err)
		}
	}
	return rt, rt.consistent(r)
}

// policy are the fields that say whose key it is, and for how long it holds.
func (rt *route) policy(r Route) []field {
	span := func(to *time.Duration, d Duration, def, low, high time.Duration) func() error {
		return func() (err error) { *to, err = d.within(def, low, high); return }
	}
	return []field{
		{"match", func() (err error) { rt.pattern, err = parsePattern(r.Match); return }},
		{"key", func() (err error) { rt.key, err = oneOf(r.Key, keyRequired, keyOptional, keyOff); return }},
		{"key_pattern", func() error { return rt.setKeyPattern(r.KeyPattern) }},
		{"scope", func() error {
			scope, err := oneOf(r.Scope, "account", "route")
			rt.scoped = scope == "route"
			return err
		}},
		{"lease", span(&rt.lease, r.Lease, onced.DefaultLease, onced.MinLease, onced.MaxLease)},
		{"timeout", span(&rt.timeout, r.Timeout, defaultTimeout, time.Millisecond, maxTimeout)},
		{"retention", span(&rt.retention, r.Retention, rt.contract.retention, onced.MinRetention, onced.MaxRetention)},
		{"tombstone", span(&rt.tombstone, r.Tombstone, 0, 0, onced.MaxTombstone)},
		{"wait", span(&rt.wait, r.Wait, 0, 0, onced.MaxWait)},
		{"on_unknown", func() error { return rt.setOnUnknown(cmp.Or(r.OnUnknown, rt.contract.onUnknown)) }},
		{"probe", func() error { return rt.setProbe(r) }},
	}
}

// content are the fields that say what of requests and answers counts and is kept.
func (rt *route) content(r Route, secret []byte) []field {
	statuses := func(to *statusSet, list []string, def ...string) func() error {
		return func() (err error) { *to, err = parseStatuses(orDefault(list, def...)); return err }
	}
	return []field{
		{"store", statuses(&rt.store, r.Store, rt.contract.store...)},
		{"release", statuses(&rt.release, r.Release, rt.contract.release...)},
		{"store", rt.disjoint},
		{"release", rt.releasesNoSuccess},
		{"fingerprint", func() (err error) { rt.digest, err = compileFingerprint(r.Fingerprint, secret); return }},
		{"keep_headers", func() (err error) { rt.keep, err = keepable(r.KeepHeaders); return }},
		{"max_request", func() (err error) { rt.maxRequest, err = r.MaxRequest.within(defaultBody, maxBody); return }},
		{"max_concurrent", func() error { return rt.setConcurrent(r.MaxConcurrent) }},
		{"max_response", func() (err error) { rt.maxResponse, err = r.MaxResponse.within(defaultBody, maxStored); return }},
		{"retention_by_status", func() error { return rt.setTerms(r.RetentionByStatus) }},
	}
}

func (rt *route) setOnUnknown(text string) error {
	_, err := oneOf(text, "hold", "retry", "probe")
	if text == "retry" {
		rt.onLapse = onced.Retry
	}
	return err
}

// setProbe judges the look-up also where it is not used, so that a slip is found before it is.
func (rt *route) setProbe(r Route) error {
	if r.Probe == "" {
		if r.OnUnknown == "probe" {
			return errors.New(`on_unknown: probe needs it: expected the look-up, such as "GET /charges?key={key}"`)
		}
		return nil
	}
	p, err := parseProbe(r.Probe, &rt.pattern)
	if err == nil && r.OnUnknown == "probe" {
		rt.probe = p
	}
	return err
}

func (rt *route) disjoint() error {
	if both := rt.store.common(rt.release); both != "" {
		return fmt.Errorf("%s stands in store and in release (a list that is not said has its default)", both)
	}
	return nil
}

func (rt *route) releasesNoSuccess() error {
	for status := 200; status < 400; status++ {
		if rt.release.has(status) {
			return fmt.Errorf("it has %d: a success that frees its key is run again by the next repeat; only 4xx and 5xx can say that nothing happened", status)
		}
	}
	return nil
}

func (rt *route) setTerms(terms map[string]Duration) error {
	rt.codeTerms, rt.classTerms = map[int]time.Duration{}, map[int]time.Duration{}
	for _, text := range slices.Sorted(maps.Keys(terms)) {
		term := terms[text]
		code, class, err := parseStatus(text)
		if err != nil {
			return &placed{path: []any{text}, err: err}
		}
		d, err := term.within(0, onced.MinRetention, onced.MaxRetention)
		if err != nil {
			return at(text, err)
		}
		if class != 0 {
			rt.classTerms[class] = d
		} else {
			rt.codeTerms[code] = d
		}
	}
	return nil
}

func compileFingerprint(f Fingerprint, secret []byte) (*fingerprint.Digester, error) {
	for i, name := range f.Headers {
		if !isToken(name) {
			return nil, at("headers", item(i, fmt.Errorf("%q is no header name", name)))
		}
	}
	d, err := fingerprint.New(secret, fingerprint.Options{Body: f.Body, Headers: f.Headers, IgnoreFields: f.IgnoreFields})
	if err != nil { // its text says which
		return nil, &placed{path: []any{faultyOption(err)}, err: err}
	}
	return d, nil
}

// faultyOption is the option that an error of fingerprint.New begins with.
func faultyOption(err error) string {
	if strings.HasPrefix(err.Error(), "body") {
		return "body"
	}
	return "ignore_fields"
}

// keepable checks the names of keep_headers: it can only add what is left out by default.
func keepable(names []string) (map[string]bool, error) {
	keep := map[string]bool{}
	for i, name := range names {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if !neverReplayed[canonical] {
			return nil, item(i, fmt.Errorf("%q: expected Set-Cookie, WWW-Authenticate or Date; hop-by-hop headers are never replayed, all others always", name))
		}
		keep[canonical] = true
	}
	return keep, nil
}
