package gateway

import (
	"encoding/json"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"time"

	"onced"
)

// DefaultMaxAsync is that of Deps.MaxAsync.
const DefaultMaxAsync = 1000

// slots bounds what may be under way at once. A buffered channel is its own counter.
type slots chan struct{}

// take returns false when there is none left.
func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) give() { <-s }

// start runs an operation that was just reserved. Where the client asked for it, it is
// answered before the end; with too many of those under way it waits like any other, which a preference allows.
func (o *operation) start() {
	if !o.prefers.async || !o.g.async.take() {
		o.run()
		return
	}
	o.async = true
	o.req = shallow(o.req)
	o.req.Header = withoutPreference(o.req.Header)
	if o.prefers.wait == 0 {
		o.accept(true)
	}
	o.g.ops.branch()
	ended := make(chan any, 1) // with what ended it: nil, or its panic
	go func() {
		defer o.g.ops.end()
		defer o.g.async.give()
		defer o.letGo()
		defer o.leave()
		defer func() { ended <- o.caught(recover()) }()
		o.run()
	}()
	if o.prefers.wait == 0 {
		return
	}
	timer := time.NewTimer(o.prefers.wait)
	defer timer.Stop()
	var end any
	select {
	case <-timer.C:
		if o.accept(true) {
			return
		}
		end = <-ended // its answer has begun, and goes to this client
	case end = <-ended:
	}
	if end != nil {
		panic(end)
	}
}

// shallow is a copy of r that can have other headers.
func shallow(r *http.Request) *http.Request {
	c := *r
	return &c
}

// caught sees to a panic of an operation that has no handler to pass it to. The reservation of such a one
// lapses.
func (o *operation) caught(p any) any {
	if p != nil && p != http.ErrAbortHandler {
		o.log.Error("gateway: an operation ended in a panic", "panic", p, "stack", string(debug.Stack()))
		return http.ErrAbortHandler
	}
	return p
}

// accept answers 202 with where the answer will be, false when another answer has begun. first tells
// whether this request is the one that runs.
func (o *operation) accept(first bool) bool {
	location := o.location()
	body, err := json.Marshal(struct {
		Key      string `json:"key"`
		Scope    string `json:"scope"`
		State    string `json:"state"`
		Location string `json:"location"`
	}{string(o.id.Key), o.id.Scope, onced.StateInProgress.String(), location})
	if err != nil {
		body = nil // cannot be: these are strings
	}
	applied := respondAsync
	if o.prefers.wait > 0 {
		applied += ", " + waitName + "=" + strconv.Itoa(int(o.prefers.wait/time.Second))
	}
	h := http.Header{
		"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "Location": {location},
		"Preference-Applied": {applied}, "Retry-After": {"1"},
	}
	o.client.share(h)
	exposeNames(h, "Location, Preference-Applied, Retry-After")
	outcome := InProgress
	if first {
		outcome = Accepted
		o.route.contract.mark(http.StatusAccepted, h, false, 0)
	}
	if !o.client.detach(http.StatusAccepted, h, append(body, '\n')) {
		return false
	}
	o.g.observe(Event{Route: o.route.pattern.text, Outcome: outcome, Took: time.Since(o.started)})
	return true
}

// location is where on every gateway the answer of the operation is found. It names the contract where a gateway could not
// tell it there.
func (o *operation) location() string {
	key := url.PathEscape(string(o.id.Key))
	if key == "." || key == ".." { // as they are they would be resolved away
		key = "%2E" + key[1:]
	}
	query := url.Values{}
	if o.id.Scope != "" {
		query.Set("scope", o.id.Scope)
	}
	if o.t.ownRoute(query).contract != o.route.contract {
		query.Set("contract", o.route.contract.name)
	}
	if len(query) == 0 {
		return operationsPrefix + key
	}
	return operationsPrefix + key + "?" + query.Encode()
}
