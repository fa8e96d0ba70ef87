package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"onced"
)

// run forwards a reserved operation, once, and sees to its end. The client's
// connection has no say in it.
func (o *operation) run() {
	stopLease := o.keepLease()
	defer stopLease()
	ctx, clock, cancel := newBudget(context.WithoutCancel(o.req.Context()), o.route.timeout)
	defer cancel()
	resp, err := o.forward(ctx)
	var unsent *notSentError
	switch {
	case errors.As(err, &unsent):
		o.notSent(unsent)
	case err != nil:
		o.unknown(err)
	default:
		defer resp.Body.Close()
		o.answered(ctx, resp, clock)
	}
}

// notSent frees the key of an operation that never reached the upstream.
func (o *operation) notSent(err error) {
	o.log.Warn("gateway: the upstream could not be reached; nothing was sent", "error", err)
	said := onced.Problemf(onced.CodeUnavailable, "the upstream could not be reached; nothing was started")
	said.RetryAfter = time.Second
	e := ending{disposition: freeKey}
	if o.async {
		e.told = stored(o.route.contract.render(refusal{problem: said}))
	}
	switch v := o.settle(e); {
	case v.other != nil:
		o.replay(*v.other)
	case v.lost != nil:
		o.refuse(v.lost)
	default:
		o.refuse(said)
	}
}

// stored is an answer as a record has it.
func stored(status int, h http.Header, body []byte) *onced.Response {
	return &onced.Response{Status: status, Headers: (&route{}).storable(h, nil), Body: body}
}

// unknown records that the operation may have happened.
func (o *operation) unknown(err error) {
	o.log.Warn("gateway: the outcome of the operation is unknown", "reason", err)
	if v := o.settle(ending{disposition: holdUnknown, reason: err.Error(), over: errors.Is(err, errTimeout)}); v.other != nil {
		o.replay(*v.other)
		return
	}
	o.tellUnknown(reasonOf(err))
}

func reasonOf(err error) string {
	if errors.Is(err, errTimeout) {
		return "the upstream did not answer in time; the operation may have happened"
	}
	return "the upstream's answer did not arrive whole; the operation may have happened"
}

// tellUnknown answers the first request of an operation whose outcome is not known, or
// not recorded.
func (o *operation) tellUnknown(detail string) {
	o.done(Unknown)
	status, h, body := o.route.contract.render(refusal{problem: onced.Problemf(onced.CodeOutcomeUnknown, "%s", detail), status: http.StatusGatewayTimeout})
	o.client.sign(h)
	o.client.share(h)
	o.route.contract.mark(status, h, false, 0)
	o.client.order = nil
	o.client.send(status, h, body)
}

// answered takes the upstream's answer: whole into memory where it fits, else through.
func (o *operation) answered(ctx context.Context, resp *http.Response, clock *budget) {
	a := &answer{status: resp.StatusCode, header: endToEnd(resp.Header), disposition: o.route.dispositionOf(resp.StatusCode)}
	if a.status < 200 || a.status > 599 {
		o.unknown(errors.New("the upstream's status is none of HTTP"))
		return
	}
	if isEventStream(resp) {
		o.relay(ctx, resp, clock, a, nil, false)
		return
	}
	var head []byte
	if resp.ContentLength <= o.route.maxResponse {
		var err error
		if head, err = io.ReadAll(io.LimitReader(resp.Body, o.route.maxResponse+1)); err != nil {
			o.unknown(cutCause(ctx, err))
			return
		}
		o.holdAnswer(int64(len(head)))
	}
	if resp.ContentLength > o.route.maxResponse || int64(len(head)) > o.route.maxResponse {
		o.relay(ctx, resp, clock, a, head, true)
		return
	}
	o.finish(a, head)
}

// cutCause names why an answer broke off.
func cutCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func isEventStream(resp *http.Response) bool {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return resp.ContentLength < 0 && strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// answer is what the upstream said, without its body.
type answer struct {
	status      int
	header      http.Header // end-to-end
	disposition disposition
}

// ending returns how the operation ended, by this answer. keep tells whether the body is kept.
func (o *operation) ending(a *answer, body []byte, keep bool) ending {
	e := ending{disposition: a.disposition, retention: o.route.retentionOf(a.status), reason: http.StatusText(a.status), over: true}
	switch {
	case a.disposition == freeKey && o.async:
		e.told = &onced.Response{Status: a.status, Headers: o.route.storable(a.header, o.client.order), Body: body, BodyOmitted: !keep}
	case a.disposition == keepAnswer && keep:
		e.response = &onced.Response{Status: a.status, Headers: o.route.storable(a.header, o.client.order), Body: body}
	case a.disposition == keepAnswer:
		e.response = &onced.Response{Status: a.status, Headers: o.route.storable(a.header, o.client.order), BodyOmitted: true}
	case a.disposition == keepDone: // the route does not want it kept: nothing but that it happened
		e.response = &onced.Response{Status: a.status, BodyOmitted: true}
	}
	return e
}

// finish records an answer that is there whole, and then sends it.
func (o *operation) finish(a *answer, body []byte) {
	v := o.settle(o.ending(a, body, true))
	kept := a.disposition == keepAnswer || a.disposition == keepDone
	switch {
	case v.other != nil:
		o.replay(*v.other)
	case kept && !v.recorded:
		o.tellUnknown("the operation ended, but that could not be recorded in time; it must not be taken for done or for undone")
	default:
		o.done(a.outcome())
		o.route.contract.mark(a.status, a.header, false, v.expires)
		o.client.send(a.status, a.header, body)
	}
}

func (a *answer) outcome() Outcome {
	switch a.disposition {
	case freeKey:
		return Released
	case holdUnknown:
		return Unknown
	}
	return Executed
}
