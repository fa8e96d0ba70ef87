package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"onced"
	"onced/internal/wire"
)

// request is one call, in a form that can be sent to any node any number of times.
type request struct {
	method string
	path   string // encoded, with its query
	tenant string // "" = no header
	body   []byte
	once   bool // an operator's verb: never sent again once a byte of it may have arrived
	insist bool // Config.Rounds does not bound it

	// For a call that waits at the node: until when. path and body are then made anew for each try.
	waitUntil time.Time
	prepare   func(wait time.Duration) (path string, body []byte)

	// read takes a success. An answer that it does not understand tells nothing of the call's fate.
	// nil = any success will do.
	read func(body []byte) error
}

// fault is why a try ended without a success.
type fault struct {
	problem *onced.Problem
	decided bool // the answer is final: not to be sent again
	unsent  bool // no byte of the request can have arrived
}

// send sends r to one node, once. limit is how long the node may take, and wait what is left of
// the call's wait, which comes on top.
func (c *Client) send(ctx context.Context, n *node, r *request, limit, wait time.Duration) *fault {
	path, body := r.path, r.body
	if r.prepare != nil {
		path, body = r.prepare(wait)
	}
	ctx, watch := newTryWatch(ctx, limit+wait+bodyTime(int64(len(body))))
	defer watch.stop()
	hr, err := c.httpRequest(ctx, n, r, path, body)
	if err != nil {
		return &fault{problem: unavailable("asking %s: %v", n.base, err), unsent: true}
	}
	var connected atomic.Bool
	if c.traced {
		hr = hr.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}))
	}
	response, err := c.transport.RoundTrip(hr)
	if err != nil {
		unsent := neverConnected(err) || c.traced && !connected.Load() // a handshake that fails is no dial
		return &fault{problem: unavailable("%s does not answer: %v", n.base, reason(ctx, err)), unsent: unsent}
	}
	defer response.Body.Close()
	watch.reset(limit + bodyTime(response.ContentLength))
	data, err := io.ReadAll(io.LimitReader(response.Body, c.MaxAnswerBytes+1))
	switch {
	case err != nil:
		return &fault{problem: unavailable("the answer of %s broke off: %v", n.base, reason(ctx, err))}
	case int64(len(data)) > c.MaxAnswerBytes:
		return &fault{problem: unavailable("the answer of %s is longer than %d bytes", n.base, c.MaxAnswerBytes)}
	case response.StatusCode < 200 || response.StatusCode > 299:
		return refusalOf(n, response, data)
	}
	if r.read == nil {
		return nil
	}
	if err := r.read(data); err != nil {
		return &fault{problem: unavailable("%s: %v", n.base, err)}
	}
	return nil
}

func (c *Client) httpRequest(ctx context.Context, n *node, r *request, path string, body []byte) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	hr, err := http.NewRequestWithContext(ctx, r.method, n.base+path, reader)
	if err != nil {
		return nil, err
	}
	hr.GetBody = nil // or net/http could send it again by itself
	if body != nil {
		hr.Header.Set("Content-Type", "application/json")
	}
	if token := *c.token.Load(); token != "" {
		hr.Header.Set("Authorization", "Bearer "+token)
	}
	if r.tenant != "" {
		hr.Header.Set("Onced-Tenant", r.tenant)
	}
	return hr, nil
}

// refusalOf reads an answer that is no success.
func refusalOf(n *node, response *http.Response, data []byte) *fault {
	p := wire.DecodeProblem(data, response.StatusCode)
	if p.RetryAfter == 0 {
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
			p.RetryAfter = time.Duration(min(seconds, 3600)) * time.Second
		}
	}
	if p.Code != onced.CodeUnavailable {
		return &fault{problem: p, decided: true}
	}
	// A code of a later release is a decision that this one cannot read. Nothing else that says
	// 4xx is from a node, so nothing was decided.
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	decided := response.StatusCode < 500 && strings.TrimSpace(kind) == wire.ProblemType
	p.Detail = fmt.Sprintf("%s: %s", n.base, p.Detail)
	return &fault{problem: p, decided: decided}
}

func unavailable(format string, args ...any) *onced.Problem {
	return onced.Problemf(onced.CodeUnavailable, format, args...)
}

// neverConnected tells whether err says that there was no connection to send on.
func neverConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// errTryOver is the cause of a try that took too long.
var errTryOver = errors.New("it took too long")

// reason returns why ctx ended, if it did, else err.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// tryWatch ends a try's context when it takes too long.
type tryWatch struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newTryWatch(ctx context.Context, limit time.Duration) (context.Context, *tryWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &tryWatch{time.AfterFunc(limit, func() { cancel(errTryOver) }), cancel}
}

func (w *tryWatch) reset(limit time.Duration) { w.timer.Reset(limit) }

func (w *tryWatch) stop() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}

// bodyTime is what a body adds to the time of a try: as if it came at 256 KiB a second.
func bodyTime(bytes int64) time.Duration {
	return time.Duration(min(max(bytes, 0), 1<<32)) * time.Second / (256 << 10)
}

// keyPath is the path of a key. A key of dots alone is escaped too, as proxies on the way may
// take it for a path segment of their own.
func keyPath(id onced.ID, verb string, query url.Values) string {
	key := url.PathEscape(string(id.Key))
	if strings.Trim(key, ".") == "" {
		key = strings.ReplaceAll(key, ".", "%2E")
	}
	path := "/v1/keys/" + key
	if verb != "" {
		path += "/" + verb
	}
	if id.Scope != "" {
		if query == nil {
			query = url.Values{}
		}
		query.Set("scope", id.Scope)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}
