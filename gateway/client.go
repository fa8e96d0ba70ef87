package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// clientStall is how long a client may take no byte of its answer before it counts as gone.
	clientStall = 10 * time.Second
	// pieceSize is how much of an answer is written, or relayed, at a time.
	pieceSize = 32 << 10
	// unreadFor is how long net/http may go on reading a refused request's body, so that a client
	// which is still sending sees its answer.
	unreadFor = 10 * time.Second
	// unaskedFor is the same for a client that was to send its body only when asked.
	unaskedFor = 500 * time.Millisecond
)

// client is the connection that a request came from. A client that is gone is
// remembered and written to no more: it never fails an operation.
type client struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	http10 bool
	speaks *contract     // how it is refused
	unread time.Duration // unreadFor or unaskedFor
	wire   *arranged     // nil where the order of header lines cannot be had
	origin string        // whose pages may read the gateway's own answers, "*" for any, "" for none
	order  []string      // names of the answer's lines in the order that they are wanted in; others follow
	id     string        // of the request

	mu     sync.Mutex // 1xx answers come from the transport's goroutine
	begun  bool
	gone   error
	left   bool        // it was answered for good: nothing more is written, as its handler has returned
	always http.Header // on every answer, whatever else that says
}

func newClient(w http.ResponseWriter, r *http.Request, speaks *contract) *client {
	c := &client{w: w, rc: http.NewResponseController(w), http10: !r.ProtoAtLeast(1, 1), speaks: speaks, wire: wireOf(r), id: requestIDOf(r)}
	if c.unread = unreadFor; r.Header.Get("Expect") != "" {
		c.unread = unaskedFor
	}
	c.origin, _ = r.Context().Value(originKey{}).(string)
	return c
}

// inform passes an informational answer on.
func (c *client) inform(status int, h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun || c.http10 || c.gone != nil || status == http.StatusContinue {
		return
	}
	c.setHeader(endToEnd(h))
	c.rc.SetWriteDeadline(time.Now().Add(clientStall))
	c.w.WriteHeader(status)
	clear(c.w.Header())
}

// begin sends status and headers. length is the body's, -1 when it is not known.
func (c *client) begin(status int, h http.Header, length int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left {
		c.head(status, h, length, c.order)
	}
}

// head is begin for who holds mu, with the order of its lines.
func (c *client) head(status int, h http.Header, length int64, order []string) {
	c.begun = true
	c.setHeader(h)
	if length >= 0 { // net/http leaves it out where the status has no body
		c.w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	}
	c.rc.SetWriteDeadline(time.Now().Add(clientStall))
	c.wire.arrange(order)
	c.w.WriteHeader(status)
}

func (c *client) setHeader(h http.Header) {
	out := c.w.Header()
	clear(out)
	for name, values := range h {
		out[name] = values
	}
	for name, values := range c.always {
		out[name] = values
	}
	if _, ok := out["Content-Type"]; !ok {
		out["Content-Type"] = nil // or net/http would guess one
	}
}

// write sends a piece of the body. Errors are remembered, not returned.
func (c *client) write(b []byte) {
	for len(b) > 0 && c.gone == nil {
		n := min(len(b), pieceSize)
		c.rc.SetWriteDeadline(time.Now().Add(clientStall))
		_, c.gone = c.w.Write(b[:n])
		b = b[n:]
	}
}

// flush sends what net/http holds back.
func (c *client) flush() {
	if c.gone == nil {
		c.rc.SetWriteDeadline(time.Now().Add(clientStall))
		c.gone = c.rc.Flush()
	}
}

// send sends a whole answer.
func (c *client) send(status int, h http.Header, body []byte) {
	c.begin(status, h, int64(len(body)))
	c.write(body)
}

// refuse sends a problem. Without a bound, a client whose body was not read, and never comes, would hold its
// connection for good.
func (c *client) refuse(f refusal) {
	status, h, body := c.speaks.render(f)
	c.sign(h)
	c.share(h)
	expose(h, c.speaks.replayed)
	c.order = nil
	c.boundUnread()
	c.send(status, h, body)
}

// sign gives an answer that the gateway itself words the request's id: what a client quotes who asks about it.
func (c *client) sign(h http.Header) { h[requestIDHeader] = []string{c.id} }

// boundUnread bounds what is still read of the request. Once the client was answered for good, its connection is
// another request's.
func (c *client) boundUnread() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left {
		c.rc.SetReadDeadline(time.Now().Add(c.unread))
	}
}

// detach sends a whole answer as the last thing that this client is sent, unless another one has begun: then
// it returns false. The handler may return after it, whatever the operation writes later.
func (c *client) detach(status int, h http.Header, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun {
		return false
	}
	c.head(status, h, int64(len(body)), nil) // order is the operation's, which is at work
	c.write(body)
	c.left, c.gone = true, errAnswered
	return true
}

var errAnswered = errors.New("the client was answered before the operation ended")
