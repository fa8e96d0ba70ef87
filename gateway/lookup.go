package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"onced"
)

// Sighting is what a look-up told of an operation whose outcome was unknown.
type Sighting string

const (
	Found    Sighting = "found"     // it happened; its answer is stored
	NotFound Sighting = "not_found" // it never happened; the duplicate takes over
	TooEarly Sighting = "too_early" // it is not there, but its attempt may still be at work
	NoWord   Sighting = "no_word"   // the look-up told nothing
)

// originalStatus is the response header by which a look-up names the status that the operation had.
const originalStatus = "Onced-Original-Status"

// lookUp asks the upstream what became of an operation whose outcome is unknown, as rec and told
// say, and has the Keeper decide by what it hears. It returns what a reserve would: a replay, a reservation, or
// a refusal. (Contract §5.5, probe.)
//
// Whether the attempt is over is found out before the upstream is asked: that nothing is there means
// nothing while something may still be on its way.
func (o *operation) lookUp(rec onced.Record, told error) (onced.ReserveResult, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.req.Context()), 2*o.g.requestTimeout+o.wait+o.lookUpTimeout())
	defer cancel()
	turn, err := o.takeTurn(ctx)
	if err != nil { // another gateway asks now, or nobody can be asked who may
		return onced.ReserveResult{}, later(told, time.Second)
	}
	defer o.endTurn(ctx, turn)
	left := o.attemptEnds(rec).Sub(turn.now)
	over := left <= 0 || o.markedOver(ctx, rec.Token)
	answer, err := o.ask(ctx, rec)
	log := o.log.With("tenant", o.id.Tenant, "scope", o.id.Scope, "key_digest", o.id.Digest(), "token", uint64(rec.Token), "attempt", rec.Attempt)
	switch {
	case err != nil:
		o.sighting = NoWord
		log.Warn("gateway: the look-up does not tell what became of the operation", "reason", err)
		return onced.ReserveResult{}, told
	case answer != nil:
		o.sighting = Found
		log.Info("gateway: the look-up found that the operation happened", "status", answer.Status)
		return o.storeFound(ctx, rec.Token, answer, told)
	case !over:
		o.sighting = TooEarly
		return onced.ReserveResult{}, later(told, left)
	}
	o.sighting = NotFound
	log.Info("gateway: the look-up found that the operation never happened; the next attempt takes over")
	return o.takeOver(rec.Token)
}

// later is a refusal with another time to come again.
func later(told error, after time.Duration) error {
	p := *onced.AsProblem(told)
	p.RetryAfter = after
	return &p
}

// lookUpTimeout bounds the look-up: a client waits for it.
func (o *operation) lookUpTimeout() time.Duration { return min(o.route.timeout, o.g.requestTimeout) }

// attemptEnds returns the cluster's time at which the attempt of rec has surely used up its timeout. Its
// last sign of life is the grant, or the last renewal, of its lease; it was sent before that, or at
// most sendWithin after.
func (o *operation) attemptEnds(rec onced.Record) onced.Instant {
	lease := rec.Lease
	if lease == 0 { // a Keeper behind the API does not tell
		lease = o.route.lease
	}
	return rec.LeaseExpiresAt.Add(-lease + min(lease, sendWithin) + o.route.timeout)
}

// ask sends the look-up. It returns the answer that the operation had, nil where it never happened, and an
// error where that is not told.
func (o *operation) ask(ctx context.Context, rec onced.Record) (*onced.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, o.lookUpTimeout())
	defer cancel()
	out, err := o.lookUpRequest(ctx, rec)
	if err != nil {
		return nil, err
	}
	resp, order, err := o.g.upstreams.once(false, true).exchange(out)
	if err != nil {
		return nil, fmt.Errorf("asking the upstream: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound {
		return nil, fmt.Errorf("the upstream answers with status %d: expected 200, or 404", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, o.route.maxResponse+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the upstream's answer: %w", err)
	case int64(len(body)) > o.route.maxResponse:
		return nil, fmt.Errorf("the upstream's answer is larger than the %d bytes of max_response", o.route.maxResponse)
	case resp.StatusCode == http.StatusNotFound:
		return nil, nil
	}
	return o.sighted(resp, order, body)
}

// lookUpRequest is the duplicate's own request in everything but method, path and body, so that the upstream
// knows whose operation it is asked about. What speaks of the body, or would have a part of the answer
// or none, is left out. Attempt and token are those of the unknown one.
func (o *operation) lookUpRequest(ctx context.Context, rec onced.Record) (*http.Request, error) {
	target, err := o.route.probe.render(o.variable)
	if err != nil {
		return nil, err
	}
	asked := *o
	asked.token, asked.attempt, asked.body = rec.Token, rec.Attempt, nil
	out := asked.outgoing(ctx)
	out.Method = http.MethodGet
	out.URL = &url.URL{Scheme: o.t.upstream.Scheme, Host: o.t.upstream.Host, Path: target.Path, RawPath: target.RawPath, RawQuery: target.RawQuery}
	for name := range out.Header {
		if strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "If-") || name == "Range" || name == "Prefer" || name == "Accept-Encoding" || isOverride(name) {
			delete(out.Header, name)
		}
	}
	return out, nil
}

// sighted is the answer that a look-up's 200 stands for, as the route stores one.
func (o *operation) sighted(resp *http.Response, order []string, body []byte) (*onced.Response, error) {
	header := endToEnd(resp.Header)
	said := header[originalStatus]
	delete(header, originalStatus)
	status := http.StatusOK
	if len(said) > 0 {
		n, err := strconv.Atoi(said[0])
		if err != nil || len(said) > 1 || len(said[0]) != 3 || n < 200 || n > 599 {
			return nil, fmt.Errorf("%s is %.60q: expected one status from 200 to 599", originalStatus, strings.Join(said, ", "))
		}
		status = n
	}
	if o.route.dispositionOf(status) == keepDone { // the route does not want such an answer kept
		return &onced.Response{Status: status, BodyOmitted: true}, nil
	}
	return &onced.Response{Status: status, Headers: o.route.storable(header, order), Body: body}, nil
}

// takeOver asks for the next attempt. If the record is not what it was any more, what it has become decides.
func (o *operation) takeOver(token onced.Token) (onced.ReserveResult, error) {
	granted, err := o.reserve(token, 0)
	if onced.CodeOf(err) != onced.CodeStaleToken {
		return granted, err
	}
	return o.reserve(0, 0)
}

// storeFound completes the record with the answer that was found, by the token of the unknown attempt: the
// late completion that it did not make. If another answer was stored meanwhile, that one counts.
func (o *operation) storeFound(ctx context.Context, token onced.Token, answer *onced.Response, told error) (onced.ReserveResult, error) {
	found, err := o.completeFound(ctx, token, answer)
	if err == nil {
		return found, nil
	}
	if code := onced.CodeOf(err); code != onced.CodeStaleToken && code != onced.CodeAlreadyCompleted {
		o.log.Warn("gateway: the answer that a look-up found could not be stored", "error", err)
		return onced.ReserveResult{}, told
	}
	granted, err := o.reserve(0, 0)
	if err != nil || granted.Replayed {
		return granted, err
	}
	// The key was freed meanwhile. But it happened, so nothing is run: its answer is stored by the new token.
	if found, err = o.completeFound(ctx, granted.Record.Token, answer); err != nil {
		o.log.Warn("gateway: the answer that a look-up found could not be stored", "error", err)
		return onced.ReserveResult{}, told
	}
	return found, nil
}

// completeFound completes the record with the answer, or with less of it where the Keeper does not take it whole.
func (o *operation) completeFound(ctx context.Context, token onced.Token, answer *onced.Response) (onced.ReserveResult, error) {
	e := ending{disposition: keepAnswer, response: answer}
	for {
		rec, err := o.g.keeper.Complete(ctx, onced.CompleteRequest{ID: o.id, Token: token, Response: e.response, Retention: o.route.retentionOf(answer.Status)})
		if code := onced.CodeOf(err); code == onced.CodeResponseTooLarge || code == onced.CodeInvalidRequest {
			if e = e.less(); e.response != nil {
				continue
			}
		}
		if err != nil {
			return onced.ReserveResult{}, err
		}
		rec.Response = e.response
		return onced.ReserveResult{Replayed: true, Record: rec}, nil
	}
}

// unknownRecord returns the record that a refusal as outcome_unknown is about, false for any other.
func unknownRecord(err error) (onced.Record, bool) {
	var p *onced.Problem
	if !errors.As(err, &p) || p.Code != onced.CodeOutcomeUnknown || p.Record == nil {
		return onced.Record{}, false
	}
	return *p.Record, true
}
