package client

import (
	"context"
	"net/http"
	"time"

	"onced"
)

// ending is how an operation ended, to be recorded.
type ending struct {
	outcome Outcome
	stored  *onced.Response // of Keep
}

// less returns the ending with less of its answer: without its body, then without its headers,
// then as unknown. That it happened is never forgotten.
func (e ending) less() ending {
	switch r := e.stored; {
	case e.outcome != Keep:
	case !r.BodyOmitted:
		e.stored = &onced.Response{Status: r.Status, Headers: r.Headers, BodyOmitted: true}
	case len(r.Headers) > 0:
		e.stored = &onced.Response{Status: r.Status, BodyOmitted: true}
	default:
		e = ending{outcome: Unknown}
	}
	return e
}

// verdict is what became of recording an ending.
type verdict struct {
	recorded bool
	expires  onced.Instant // of a completed record
	other    *onced.Record // another attempt's record, completed with another answer
}

const (
	firstRecordPause = 20 * time.Millisecond
	longRecordPause  = 2 * time.Second
)

// finish records the handler's answer, and then sends it. What cannot be recorded in time is told
// as unknown, and recorded in this goroutine, which a server that shuts down waits for.
func (o *operation) finish(r *recorder) {
	r.finish()
	e := ending{outcome: o.Outcome(r.status)}
	if e.outcome == Keep {
		e.stored = o.response(r)
	}
	v, e, decided := o.record(e, o.CallTimeout)
	switch {
	case v.other != nil:
		o.replay(*v.other)
	case e.outcome == Keep && !v.recorded:
		o.tellUnknown("the operation ended, but that could not be recorded in time; it must not be taken for done or for undone")
	default:
		o.mark(false, v.expires)
		o.send(r.status, r.sent, r.body.Bytes())
	}
	if !decided {
		_ = http.NewResponseController(o.w).Flush()
		o.Logger.Warn("client: how the operation ended is not recorded yet; recording goes on", "token", uint64(o.got.Token))
		o.insist(e)
	}
}

// insist records how the operation ended, for as long as that may take.
func (o *operation) insist(e ending) {
	if _, _, decided := o.record(e, o.RecordFor); !decided {
		o.Logger.Error("client: giving up to record how the operation ended", "token", uint64(o.got.Token))
	}
}

// record asks the Keeper until it is decided, or the time is over. It returns what is still
// to be recorded then.
func (o *operation) record(e ending, limit time.Duration) (v verdict, left ending, decided bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.r.Context()), limit)
	defer cancel()
	for pause := firstRecordPause; ; pause = min(2*pause, longRecordPause) {
		rec, err := o.write(ctx, e)
		switch code := onced.CodeOf(err); {
		case code == "":
			return verdict{recorded: true, expires: rec.ExpiresAt}, e, true
		case code == onced.CodeStaleToken || code == onced.CodeAlreadyCompleted:
			if v, known := o.overtaken(ctx, e); known {
				return v, e, true
			}
		case code == onced.CodeUnavailable:
		case e.outcome == Keep && (code == onced.CodeResponseTooLarge || code == onced.CodeInvalidRequest):
			o.Logger.Error("client: the Keeper does not take the answer; recording less of it", "error", err)
			e = e.less()
			continue
		default:
			o.Logger.Error("client: the Keeper refuses how the operation ended", "error", err)
			return verdict{}, e, true
		}
		if !rest(ctx, pause) {
			return verdict{}, e, false
		}
	}
}

func (o *operation) write(ctx context.Context, e ending) (onced.Record, error) {
	switch e.outcome {
	case Free:
		return onced.Record{}, o.keeper.Release(ctx, onced.ReleaseRequest{ID: o.id, Token: o.got.Token})
	case Keep:
		return o.keeper.Complete(ctx, onced.CompleteRequest{ID: o.id, Token: o.got.Token, Response: e.stored})
	}
	rec, err := o.keeper.Complete(ctx, onced.CompleteRequest{ID: o.id, Token: o.got.Token, Unknown: true})
	rec.ExpiresAt = 0
	return rec, err
}

// overtaken finds out what the record says after the Keeper refused ours: this very answer, where an
// earlier try was recorded after all; another attempt's; or nothing of use. It returns false when it
// cannot tell yet.
func (o *operation) overtaken(ctx context.Context, e ending) (verdict, bool) {
	rec, err := o.keeper.Get(ctx, onced.GetRequest{ID: o.id})
	if onced.CodeOf(err) == onced.CodeUnavailable {
		return verdict{}, false
	}
	if err != nil || rec.State != onced.StateCompleted || rec.Response == nil || rec.Fingerprint != o.fp {
		o.Logger.Warn("client: the reservation was lost before it was recorded how the operation ended", "token", uint64(o.got.Token))
		return verdict{}, true
	}
	if rec.Token == o.got.Token && rec.Response.Equal(e.stored) {
		return verdict{recorded: true, expires: rec.ExpiresAt}, true
	}
	o.Logger.Warn("client: the record is completed with another answer, which is sent", "token", uint64(o.got.Token))
	return verdict{other: &rec}, true
}
