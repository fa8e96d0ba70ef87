package peer

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

	"onced/cluster/peer/internal/gate"
)

// MaxBody is the largest body of a call or of its answer, in bytes.
const MaxBody = gate.MaxBody

// ErrNotSent is wrapped when a call failed before anything left this node, and
// nothing will any more: the peer has not done it.
var ErrNotSent = errors.New("not sent")

// StatusError is a peer's answer other than 200: its own word that it did not do
// what was asked. Code is the HTTP status, Body what it said.
type StatusError struct {
	Code int
	Body []byte
}

// Error returns the status and the first line of what the peer said.
func (e *StatusError) Error() string {
	text, _, _ := strings.Cut(string(e.Body), "\n")
	return fmt.Sprintf("peer answered %d: %s", e.Code, printable(text))
}

// RefusedError says that a peer heard whom it was meant to be and hung up: it is
// another node, or belongs to another cluster. It comes wrapped with ErrNotSent
// when a call met it.
type RefusedError struct {
	Addr string // that was dialled
	Text string // what the peer said
}

// Error returns what the peer said.
func (e *RefusedError) Error() string { return "the node at " + e.Addr + " refused: " + e.Text }

// ReadBody returns the whole body of a request in a handler, without a copy. It
// is not to be changed.
func ReadBody(r *http.Request) ([]byte, error) { return gate.Body(r) }

// Reply answers a call with body. It says the length first, so that the caller reads
// a large answer into one piece of memory.
func Reply(w http.ResponseWriter, body []byte) {
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.Header()["Content-Type"] = []string{"application/octet-stream"}
	_, _ = w.Write(body) // the caller sees a cut answer as cut
}

// Call posts body to path on the node at addr and returns the body of its 200.
// Without a deadline in ctx it waits for the answer as long as the peer lives.
//
// Errors: ErrNotSent, *StatusError, or any other: the call's fate is not known.
func (p *Port) Call(ctx context.Context, addr, path string, body []byte) ([]byte, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("calling %s on %s: %w: body of %d bytes, at most %d", path, addr, ErrNotSent, len(body), MaxBody)
	}
	resp, err := p.send(ctx, addr, path, body)
	if err != nil {
		return nil, fmt.Errorf("calling %s on %s: %w", path, addr, err)
	}
	defer resp.Body.Close()
	answer, err := gate.ReadAll(resp.Body, resp.ContentLength)
	if err != nil {
		return nil, fmt.Errorf("calling %s on %s: reading its answer: %w", path, addr, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("calling %s on %s: %w", path, addr, &StatusError{Code: resp.StatusCode, Body: answer})
	}
	return answer, nil
}

// send tries until a connection took the request. A kept connection may be dead
// by now: when it provably took nothing, another one is tried. Every try kills
// one kept connection or ends the loop, so it ends.
func (p *Port) send(ctx context.Context, addr, path string, body []byte) (*http.Response, error) {
	for {
		var got *conn
		var mark uint64
		var reused bool
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
			got, reused = info.Conn.(*conn), info.Reused
			mark = got.written()
		}}
		resp, err := p.client.RoundTrip(p.request(httptrace.WithClientTrace(ctx, trace), addr, path, body))
		if err == nil {
			return resp, nil
		}
		if got != nil && !got.seal(mark) {
			return nil, err // something was written: its fate is not known
		}
		if got == nil || !reused || ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
		}
	}
}

// request makes one that net/http cannot send again by itself: a POST without
// GetBody and without an Idempotency-Key header.
func (p *Port) request(ctx context.Context, addr, path string, body []byte) *http.Request {
	r := &http.Request{
		Method:        http.MethodPost,
		URL:           &url.URL{Scheme: "http", Host: addr, Path: path},
		Host:          addr,
		Header:        make(http.Header, 4),
		ContentLength: int64(len(body)),
		Body:          http.NoBody,
	}
	if len(body) > 0 {
		r.Body = onceBody{bytes.NewReader(body)}
	}
	r.Header[gate.HeaderCluster] = []string{p.gate.ClusterID()}
	r.Header[gate.HeaderNode] = []string{p.cfg.NodeID}
	r.Header["User-Agent"] = nil // none
	return r.WithContext(ctx)
}

// onceBody cannot be rewound.
type onceBody struct{ io.Reader }

func (onceBody) Close() error { return nil }

// newClient is the calling half: HTTP/1.1 in cleartext as far as net/http knows;
// TLS and the preface are below it.
func newClient(p *Port) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:           protocols,
		MaxIdleConnsPerHost: maxIdlePerPeer,
		IdleConnTimeout:     clientIdle,
		DisableCompression:  true,
		ReadBufferSize:      64 << 10,
		WriteBufferSize:     64 << 10,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			// net/http dials on after its caller left, so the bound is here.
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			c, err := p.dial(ctx, kindRPC, addr, (*p.members.Load())[addr])
			if err != nil {
				return nil, err // not a nil *conn in a non-nil interface
			}
			return c, nil
		},
	}
}
