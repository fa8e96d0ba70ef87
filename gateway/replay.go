package gateway

import (
	"net/http"

	"onced"
)

// replay answers with a completed record.
func (o *operation) replay(rec onced.Record) {
	r := rec.Response
	if r == nil { // a broken promise of the Keeper; it must not become an execution or an empty answer
		o.refuse(onced.Problemf(onced.CodeUnavailable, "the record is completed, but its answer could not be read; nothing was started"))
		return
	}
	if r.BodyOmitted && o.replayBlob(rec) {
		return
	}
	o.done(Replayed)
	if r.BodyOmitted || r.Status < 200 {
		status, h, body := o.route.contract.render(refusal{problem: onced.Problemf(onced.CodeResponseNotKept,
			"the operation was done and answered with status %d, but that answer was not kept; do not send it again", r.Status), original: r.Status})
		o.client.sign(h)
		o.client.share(h)
		o.route.contract.mark(status, h, true, rec.ExpiresAt)
		o.client.send(status, h, body)
		return
	}
	o.sendStored(rec, o.route.replayable(r.Headers), r.Body)
}

// sendStored sends the answer of a completed record, with the headers that are replayed of it, as its client can read it and
// as the contract has it.
func (o *operation) sendStored(rec onced.Record, h http.Header, stored []byte) {
	r := rec.Response
	body := o.route.contract.edited(h, readable(o.req.Header["Accept-Encoding"], r.Status, h, stored, maxStored))
	o.client.share(h)
	o.route.contract.mark(r.Status, h, true, rec.ExpiresAt)
	o.client.order = orderOf(r.Headers)
	o.client.send(r.Status, h, body)
}
