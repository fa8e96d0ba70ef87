package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// relay sends an answer on while it arrives, as it is too large to keep, or a stream.
// It is recorded before the client can take it for whole: with hold, before its last
// piece is sent, else before the end of the stream is. What cannot be recorded, or was cut,
// ends the client's connection in the middle.
//
// head is what was read already. There is no Idempotency-Expires on such an answer, as it
// begins before it is recorded. With hold it is kept in the blob store, where there is one; that never changes what
// the client gets, but for the time that its last piece takes.
func (o *operation) relay(ctx context.Context, resp *http.Response, clock *budget, a *answer, head []byte, hold bool) {
	header := a.header.Clone()
	o.route.contract.mark(a.status, header, false, 0)
	clock.pause()
	o.client.begin(a.status, header, resp.ContentLength)
	held := head
	var kept *keeping
	if hold {
		kept = o.keep(a, resp.ContentLength)
		kept.write(head)
	} else {
		o.client.flush()
	}
	defer kept.abandon()
	clock.resume()
	for buffer := make([]byte, pieceSize); ; {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			clock.pause()
			if hold {
				o.client.write(held)
				held = append([]byte(nil), buffer[:n]...)
				kept.write(held)
			} else {
				o.client.write(buffer[:n])
				o.client.flush()
			}
			clock.resume()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			o.relayCut(cutCause(ctx, err))
		}
	}
	clock.pause()
	e := o.ending(a, nil, false)
	if e.response != nil {
		if e.response.Reference = kept.commit(); e.response.Reference != "" {
			e.retention = o.route.keptFor(a.status) // the blob's too
		}
	}
	v := o.settle(e)
	if v.other != nil {
		kept.drop()
	}
	if !v.recorded && (a.disposition == keepAnswer || a.disposition == keepDone) {
		o.abort()
	}
	o.done(a.outcome())
	o.client.write(held)
}

// relayCut records an answer that broke off on its way as unknown.
func (o *operation) relayCut(err error) {
	o.log.Warn("gateway: the outcome of the operation is unknown, its answer was cut", "reason", err)
	o.settle(ending{disposition: holdUnknown, reason: err.Error(), over: errors.Is(err, errTimeout)})
	o.abort()
}

// abort cuts the client's connection, so that what it has of the answer is not taken for whole.
func (o *operation) abort() {
	o.done(Unknown)
	panic(http.ErrAbortHandler)
}
