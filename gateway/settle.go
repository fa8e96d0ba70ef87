package gateway

import (
	"context"
	"time"

	"onced"
)

// ending is how an operation ended, to be recorded.
type ending struct {
	disposition disposition
	response    *onced.Response // keepAnswer and keepDone
	retention   time.Duration   // 0 = the record's
	reason      string          // of an unknown one, for the log
	over        bool            // the upstream has surely done with it: it answered whole, or its time is over
	told        *onced.Response // freeKey: the answer to keep for whoever comes to fetch it
}

// verdict is what became of recording an ending.
type verdict struct {
	recorded bool
	expires  onced.Instant  // of a completed record
	other    *onced.Record  // another attempt's record, completed with another answer
	lost     *onced.Problem // what there is to say of the record where it is another attempt's, and not completed
}

// settle records how the operation ended. It waits for the request time-out; what is not
// recorded by then is an empty verdict, and recording goes on in the background until it is
// recorded, refused, or a drain gives up.
func (o *operation) settle(e ending) verdict {
	result := make(chan verdict, 1)
	o.g.ops.branch()
	go func() {
		defer o.g.ops.end()
		result <- o.record(e)
	}()
	timer := time.NewTimer(o.g.requestTimeout)
	defer timer.Stop()
	select {
	case v := <-result:
		return v
	case <-timer.C:
		o.log.Warn("gateway: how the operation ended is not recorded yet; recording goes on", "disposition", e.disposition.String())
		return verdict{}
	}
}

const (
	firstPause  = 20 * time.Millisecond
	longestWait = 2 * time.Second
)

// record asks the Keeper until it is decided.
func (o *operation) record(e ending) verdict {
	for pause := firstPause; ; pause = min(2*pause, longestWait) {
		v, again, decided := o.recordOnce(e)
		if decided {
			return v
		}
		e = again
		select {
		case <-o.g.late.Done():
			o.log.Error("gateway: shutting down before it was recorded how the operation ended", "disposition", e.disposition.String())
			return verdict{}
		case <-time.After(pause):
		}
	}
}

// recordOnce asks once. Where the answer is no decision it returns the ending to ask with next.
func (o *operation) recordOnce(e ending) (verdict, ending, bool) {
	ctx, cancel := context.WithTimeout(o.g.late, o.g.requestTimeout)
	defer cancel()
	if e.told != nil { // before the key is free, so that it is found once the record is gone
		err := o.keepFreedAnswer(ctx, e.told)
		if onced.CodeOf(err) == onced.CodeUnavailable {
			o.log.Warn("gateway: recording how the operation ended; asking again", "error", err)
			return verdict{}, e, false
		}
		if err != nil {
			o.log.Warn("gateway: the answer of an operation that frees its key is not kept", "error", err)
		}
		e.told = nil
	}
	if e.disposition == holdUnknown && e.over && o.route.probe != nil {
		o.markOver(ctx)
		e.over = false
	}
	rec, err := o.write(ctx, e)
	switch code := onced.CodeOf(err); code {
	case "":
		return verdict{recorded: true, expires: rec.ExpiresAt}, e, true
	case onced.CodeStaleToken, onced.CodeAlreadyCompleted:
		v, known := o.overtaken(ctx, e, code)
		return v, e, known
	case onced.CodeResponseTooLarge, onced.CodeInvalidRequest:
		o.log.Error("gateway: the Keeper does not take the answer; recording less of it", "error", err)
		return verdict{}, e.less(), false
	default:
		o.log.Warn("gateway: recording how the operation ended; asking again", "error", err)
		return verdict{}, e, false
	}
}

func (o *operation) write(ctx context.Context, e ending) (onced.Record, error) {
	switch e.disposition {
	case freeKey:
		return onced.Record{}, o.g.keeper.Release(ctx, onced.ReleaseRequest{ID: o.id, Token: o.token})
	case holdUnknown:
		rec, err := o.g.keeper.Complete(ctx, onced.CompleteRequest{ID: o.id, Token: o.token, Unknown: true})
		rec.ExpiresAt = 0
		return rec, err
	}
	return o.g.keeper.Complete(ctx, onced.CompleteRequest{ID: o.id, Token: o.token, Response: e.response, Retention: e.retention})
}

// less returns the ending with less of its answer: without its body, then without its
// headers, then as unknown. That it happened is never forgotten.
func (e ending) less() ending {
	switch r := e.response; {
	case r == nil:
	case !r.BodyOmitted:
		e.response = &onced.Response{Status: r.Status, Headers: r.Headers, BodyOmitted: true}
	case len(r.Headers) > 0:
		e.response = &onced.Response{Status: r.Status, BodyOmitted: true}
	default:
		e = ending{disposition: holdUnknown, reason: "the Keeper did not take its answer", over: e.over}
	}
	return e
}

// overtaken finds out what the record says after the Keeper refused ours: this very answer,
// where an earlier try was recorded after all; another attempt's; or nothing of use. It returns false
// when it cannot tell yet.
func (o *operation) overtaken(ctx context.Context, e ending, code onced.Code) (verdict, bool) {
	rec, err := o.g.keeper.Get(ctx, onced.GetRequest{ID: o.id})
	if onced.CodeOf(err) == onced.CodeUnavailable {
		return verdict{}, false
	}
	if err != nil || rec.State != onced.StateCompleted || rec.Response == nil || rec.Fingerprint != o.fingerprint {
		o.log.Warn("gateway: the reservation was lost before it was recorded how the operation ended", "code", code, "disposition", e.disposition.String())
		return verdict{lost: o.lostTo(rec)}, true
	}
	if rec.Token == o.token && rec.Response.Equal(e.response) {
		return verdict{recorded: true, expires: rec.ExpiresAt}, true
	}
	o.log.Warn("gateway: the record is completed with another answer, which is sent", "code", code, "disposition", e.disposition.String())
	return verdict{other: &rec}, true
}

// lostTo is what there is to say of a record that another attempt has now, nil where that is nothing.
func (o *operation) lostTo(rec onced.Record) *onced.Problem {
	switch {
	case rec.Token == o.token || rec.Fingerprint != o.fingerprint:
		return nil
	case rec.State == onced.StateInProgress:
		p := onced.Problemf(onced.CodeRequestInProgress, "attempt %d has taken over and is running", rec.Attempt)
		p.RetryAfter = time.Second
		return p
	case rec.State == onced.StateUnknown:
		return onced.Problemf(onced.CodeOutcomeUnknown, "attempt %d has taken over, and its outcome is not known", rec.Attempt)
	}
	return nil
}
