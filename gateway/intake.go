package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"onced"
)

const (
	defaultHeaderTimeout = 10 * time.Second
	defaultBodyTimeout   = 10 * time.Second
	defaultBodyRate      = 16 << 10
	// intakePiece is how much memory a body takes at a time: no more than it has sent, so that clients which
	// announce much and send nothing hold nothing.
	intakePiece = 32 << 10
)

// pace is how fast a body has to arrive.
type pace struct {
	allowed time.Duration // for any body
	rate    int64         // bytes that buy one second more
}

// deadline returns when a body must be there of which so much has arrived.
func (p pace) deadline(begun time.Time, arrived int64) time.Time {
	extra := time.Duration(float64(arrived) / float64(p.rate) * float64(time.Second))
	return begun.Add(p.allowed + extra)
}

// readBody reads the request's body whole, and counts it as held while it comes.
//
// Problems: request_too_large beyond the route's max_request; invalid_request when it breaks off, is
// malformed, or comes too slowly; unavailable where there is no room for it. Nothing was reserved then.
func (o *operation) readBody(w http.ResponseWriter) ([]byte, error) {
	max := o.route.maxRequest
	if o.req.ContentLength > max {
		return nil, tooLarge(max)
	}
	if o.req.ContentLength > o.g.bodies.limit.Load()-o.g.bodies.used.Load() {
		return nil, o.noRoom() // tell at once what could not end well
	}
	rc := http.NewResponseController(w)
	source := http.MaxBytesReader(w, o.req.Body, max)
	begun, body := time.Now(), []byte(nil)
	for {
		body = withRoom(body, o.req.ContentLength)
		rc.SetReadDeadline(o.t.pace.deadline(begun, int64(len(body))))
		n, err := source.Read(body[len(body):min(cap(body), len(body)+intakePiece)])
		body = body[:len(body)+n]
		if n > 0 {
			if refused := o.hold(int64(n)); refused != nil {
				return nil, refused
			}
		}
		if err == io.EOF {
			rc.SetReadDeadline(time.Time{}) // else it bounds what the server still reads of the body
			return body, nil
		}
		if err != nil {
			return nil, o.brokenBody(err, max)
		}
	}
}

// withRoom returns body with room for another piece, or for what is still announced and one byte, which shows the
// end. It grows in steps that double, so that what is allocated is in proportion to what has arrived.
func withRoom(body []byte, announced int64) []byte {
	piece := intakePiece
	if announced >= 0 {
		piece = int(max(1, min(int64(piece), announced-int64(len(body))+1)))
	}
	if cap(body)-len(body) >= piece {
		return body
	}
	return append(make([]byte, 0, 2*len(body)+piece), body...)
}

func (o *operation) brokenBody(err error, max int64) error {
	var beyond *http.MaxBytesError
	switch {
	case errors.As(err, &beyond):
		return tooLarge(max)
	case errors.Is(err, os.ErrDeadlineExceeded):
		o.g.meter.Overloaded(o.route.pattern.text, reasonSlowBody)
		o.client.unread = 0 // it had its time
		return onced.Problemf(onced.CodeInvalidRequest,
			"the request's body came too slowly: expected all of it within %s and a second more for each %d bytes; nothing was started", o.t.pace.allowed, o.t.pace.rate)
	}
	return onced.Problemf(onced.CodeInvalidRequest, "the request's body did not arrive whole (%v); nothing was started", err)
}
