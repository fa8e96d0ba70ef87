package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"
)

// Account is the tenant that the demo's requests belong to, and AccountHeader
// the header that says so to the gateway.
const (
	Account       = "acme"
	AccountHeader = "X-Account"
)

const (
	// patience is how long a client goes on following advice for one request.
	patience = 45 * time.Second
	// unknownTries is how often a client asks again about an outcome that is unknown:
	// a late answer may still be stored, but nobody can promise one.
	unknownTries = 2
	// pause is what a client waits before it repeats when nobody told it how long.
	pause = 100 * time.Millisecond
)

// answer is what the operation's owner said, as it reached a client.
type answer struct {
	status   int
	location string
	body     string
}

func (a answer) String() string { return fmt.Sprintf("%d %s %q", a.status, a.location, a.body) }

// ending is how a request ended for its client.
type ending uint8

const (
	answered ending = iota
	lost            // on purpose
	unknown         // the cluster says honestly that it cannot tell
	refused         // for good: the advice was not to repeat it
	gaveUp          // out of patience
	aborted         // the demo was interrupted
)

// result is what became of one step.
type result struct {
	ending   ending
	answer   answer
	replayed bool
	took     time.Duration  // from the first send to the end, repeats and pauses included
	retries  map[string]int // why it was sent again, by problem code or kind of error
	code     string         // of the problem that it was told last; "" = none
	reason   string         // of an ending other than answered
}

// problem is the part of an RFC 9457 problem that a client acts on.
type problem struct {
	Code   string `json:"code"`
	Retry  string `json:"retry"`
	Detail string `json:"detail"`
}

// client sends the requests of a plan to one of several doors, all equal.
type client struct {
	plan   plan
	doors  []string // base URLs
	http   *http.Client
	charge time.Duration
}

// do sends step s, first to door number at, until its end is known. sent is
// called when the first request has gone out, or could not.
func (c *client) do(ctx context.Context, s step, at int, sent func()) (r result) {
	start := time.Now()
	r.retries = map[string]int{}
	defer func() { r.took = time.Since(start) }()
	if s.loss != kept {
		c.lose(ctx, s, at, sent)
		r.ending = lost
		return r
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for try := 0; ; try++ {
		reply := c.send(limited, s, at+try, sent)
		sent()
		if done := r.take(reply); done {
			return r
		}
		if sleep(limited, reply.after) != nil {
			r.ending = gaveUp
			if ctx.Err() != nil {
				r.ending = aborted
			}
			return r
		}
	}
}

// take notes what a request came back with, and tells whether that is the end.
func (r *result) take(reply reply) (done bool) {
	switch {
	case reply.err != nil:
		r.retries["connection lost"]++
		r.reason = reply.err.Error()
		return false
	case reply.problem == nil:
		r.ending, r.answer, r.replayed = answered, reply.answer, reply.replayed
		return true
	}
	p := reply.problem
	r.code, r.reason = p.Code, p.Code+": "+p.Detail
	if p.Retry != "same_key" {
		r.ending = refused
		return true
	}
	r.retries[p.Code]++
	if r.retries["outcome_unknown"] == unknownTries {
		r.ending = unknown
		return true
	}
	return false
}

// reply is what one HTTP request came back with: an error, a problem or an answer.
type reply struct {
	err      error
	problem  *problem
	answer   answer
	replayed bool
	after    time.Duration // when to repeat it, if it is to be repeated
}

func (c *client) send(ctx context.Context, s step, at int, sent func()) reply {
	response, err := c.post(ctx, s, at, sent)
	if err != nil {
		return reply{err: err, after: pause}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{err: err, after: pause}
	}
	kind := response.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "application/problem+json") || response.StatusCode >= 500 {
		return problemReply(response, body)
	}
	return reply{
		answer:   answer{response.StatusCode, response.Header.Get("Location"), string(body)},
		replayed: response.Header.Get("Idempotency-Replayed") == "true",
	}
}

// problemReply reads the advice of a refusal. A 5xx without any says nothing about
// what happened: the same key is the one safe way to ask.
func problemReply(response *http.Response, body []byte) reply {
	p := &problem{}
	if json.Unmarshal(body, p) != nil || p.Code == "" {
		p = &problem{Code: "status " + strconv.Itoa(response.StatusCode), Retry: "same_key", Detail: "no problem document"}
	}
	after := pause
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		after = time.Duration(seconds) * time.Second
	}
	return reply{problem: p, after: after}
}

// lose sends step s once and throws its answer away, before or after it arrives.
func (c *client) lose(ctx context.Context, s step, at int, sent func()) {
	defer sent()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wrote := sent
	if s.loss == hungUp {
		wrote = func() {
			sent()
			time.AfterFunc(c.charge/2, cancel)
		}
	}
	response, err := c.post(ctx, s, at, wrote)
	if err == nil {
		response.Body.Close() // unread: the connection is dropped with the answer in it
	}
}

// post sends step s to door number at. wrote is called when the request is on its way.
func (c *client) post(ctx context.Context, s step, at int, wrote func()) (*http.Response, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { wrote() },
	})
	body, err := json.Marshal(c.plan.orderOf(s))
	if err != nil {
		return nil, fmt.Errorf("writing the order: %w", err)
	}
	door := c.doors[at%len(c.doors)]
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, door+"/charge", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	r.GetBody = nil // net/http must not send it again on its own
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", c.plan.key(s.key))
	r.Header.Set(AccountHeader, Account)
	return c.http.Do(r)
}

// sleep waits d, or returns why ctx ended before.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
