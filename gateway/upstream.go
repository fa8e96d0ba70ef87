package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// schemeH2C is the scheme of an upstream that is spoken to in HTTP/2 without TLS, with prior knowledge.
const schemeH2C = "h2c"

const (
	maxHead       = 256 << 10        // of an answer, in bytes
	tlsTimeout    = 10 * time.Second // of a handshake
	continueAfter = time.Second      // how long a body waits for the upstream's 100
	streamBuffer  = 1 << 20          // bytes of an answer in HTTP/2 that wait for a slow client
	pingAfter     = 30 * time.Second // without a frame on a kept-alive connection
	pingWithin    = 15 * time.Second
)

// notSentError says that it is certain that the upstream did not get the request: no connection
// was had, or the upstream itself says, in HTTP/2, that it did not look at it.
type notSentError struct{ err error }

func (e *notSentError) Error() string { return "reaching the upstream: " + e.err.Error() }
func (e *notSentError) Unwrap() error { return e.err }

// sender is a way to the upstream that tells, beside the answer, the names of its header lines as
// they were sent, one per line; nil where the protocol keeps no such thing. As a
// RoundTripper it does without.
type sender interface {
	http.RoundTripper
	exchange(*http.Request) (*http.Response, []string, error)
}

// transports are the ways to the upstream. None of them uses a proxy or decodes a body. They speak
// HTTP/1.1, HTTP/2 where TLS negotiates it, and nothing but HTTP/2 for h2c URLs.
type transports struct {
	single alone  // a connection of its own for each request
	kept   pooled // kept-alive connections
	trust  *atomic.Pointer[tls.Config]
}

func newTransports(dial dialer) transports {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	w := wires{dial: dial, trust: new(atomic.Pointer[tls.Config])}
	t := transports{single: alone{w.routes(true)}, kept: pooled{w.routes(false)}, trust: w.trust}
	t.believe(nil)
	return t
}

// believe makes the connections that come trust roots; nil = those of the system.
func (t transports) believe(roots *x509.CertPool) {
	t.trust.Store(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(64)})
	t.close() // what is idle was trusted by the old ones
}

func (t transports) close() {
	for _, r := range []routes{t.single.routes, t.kept.routes} {
		for _, one := range []*http.Transport{r.negotiated, r.first, r.prior} {
			one.CloseIdleConnections()
		}
	}
}

// once returns a sender that cannot send the request a second time.
//
// Go's transport repeats a request with an Idempotency-Key by itself when a kept-alive connection dies
// under it, and one that an HTTP/2 server refuses, unless there is a body that it cannot rewind.
// So a request without a body always has a connection of its own, on which nothing is ever repeated.
func (t transports) once(reuse, rewindable bool) sender {
	if reuse && !rewindable {
		return t.kept
	}
	return t.single
}

// routes are the transports for the schemes.
type routes struct {
	negotiated *http.Transport // HTTP/1.1, and HTTP/2 where TLS negotiates it
	first      *http.Transport // HTTP/1.1 alone, in which connections can be upgraded
	prior      *http.Transport // HTTP/2 without TLS
}

// of returns the transport for r, and r with a scheme that it knows.
func (s routes) of(r *http.Request) (*http.Transport, *http.Request) {
	switch {
	case r.URL.Scheme == schemeH2C:
	case r.Header["Upgrade"] != nil:
		return s.first, r
	default:
		return s.negotiated, r
	}
	plain, url := *r, *r.URL
	url.Scheme, plain.URL = "http", &url
	return s.prior, &plain
}

// alone sends each request on a connection that it makes for it, and closes once the answer is there whole. A
// connection by itself never repeats a request, whatever its protocol.
//
// The upstream is not told so by "Connection: close": one that has not read all of the request when its answer is
// written (Go, node) would close first, and the reset that follows destroys what of the answer is still on its way. An
// operation that succeeded would be of unknown outcome.
type alone struct{ routes }

// RoundTrip is part of http.RoundTripper.
func (a alone) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, _, err := a.exchange(r)
	return resp, err
}

func (a alone) exchange(r *http.Request) (*http.Response, []string, error) {
	transport, r := a.of(r)
	var made ear
	conn, err := transport.NewClientConn(context.WithValue(r.Context(), earKey{}, &made), r.URL.Scheme, hostPort(r.URL))
	if err != nil {
		return nil, nil, &notSentError{err}
	}
	if made.heard != nil {
		made.heard.listen()
	}
	resp, err := conn.RoundTrip(r)
	if err != nil {
		conn.Close()
		return nil, nil, refused(err)
	}
	if err := trimNames(resp.Header); err != nil {
		conn.Close()
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // that body is the connection
		resp.Body = lastBody{resp.Body, conn}
	}
	return resp, made.heard.restore(resp), nil
}

// lastBody is the body of the only answer on a connection.
type lastBody struct {
	io.ReadCloser
	conn *http.ClientConn
}

// Read closes the connection at the end of the body, so that an upstream that serves one connection at a time
// does not wait for what the gateway still has to do.
func (b lastBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.conn.Close()
	}
	return n, err
}

// Close closes the connection too.
func (b lastBody) Close() error { return errors.Join(b.ReadCloser.Close(), b.conn.Close()) }

// pooled sends on kept-alive connections.
type pooled struct{ routes }

// RoundTrip is part of http.RoundTripper.
func (p pooled) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, _, err := p.exchange(r)
	return resp, err
}

func (p pooled) exchange(r *http.Request) (*http.Response, []string, error) {
	transport, r := p.of(r)
	var (
		heard *hearing
		had   atomic.Bool
	)
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		had.Store(true)
		if heard, _ = info.Conn.(*hearing); heard != nil {
			heard.listen()
		}
	}})
	resp, err := transport.RoundTrip(r.WithContext(ctx))
	switch {
	case err == nil:
		if err := trimNames(resp.Header); err != nil {
			resp.Body.Close()
			return nil, nil, err
		}
		return resp, heard.restore(resp), nil
	case !had.Load():
		return nil, nil, &notSentError{err}
	}
	return nil, nil, refused(err)
}

// streamError has the fields of net/http's HTTP/2 stream error, which lets itself be copied into
// any such struct.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("stream %d: code %d", e.StreamID, e.Code) }

const (
	refusedStream = 7 // REFUSED_STREAM (RFC 9113 §7)
	// goneAway is what net/http says of a stream beyond the last one that a GOAWAY says was looked at. If it
	// should ever say otherwise, such a stream is of unknown outcome, which is the safe side.
	goneAway = "http2: Transport received Server's graceful shutdown GOAWAY"
)

// refused makes a notSentError of an error by which an HTTP/2 upstream says that it did not look at the
// request and never will (RFC 9113 §8.7).
func refused(err error) error {
	var stream streamError
	if errors.As(err, &stream) && stream.Code == refusedStream || err.Error() == goneAway {
		return &notSentError{err}
	}
	return err
}

// dialer makes a connection.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// wires make connections.
type wires struct {
	dial  dialer
	trust *atomic.Pointer[tls.Config]
}

func (w wires) routes(single bool) routes {
	first, both, prior := new(http.Protocols), new(http.Protocols), new(http.Protocols)
	first.SetHTTP1(true)
	both.SetHTTP1(true)
	both.SetHTTP2(true)
	prior.SetUnencryptedHTTP2(true)
	return routes{
		negotiated: w.transport(single, both, w.dialHeard, "h2", "http/1.1"), first: w.transport(single, first, w.dialHeard, "http/1.1"),
		prior: w.transport(single, prior, w.dial),
	}
}

// transport makes one. offered are the protocols that TLS negotiates.
func (w wires) transport(single bool, protocols *http.Protocols, dial dialer, offered ...string) *http.Transport {
	http2 := &http.HTTP2Config{MaxReceiveBufferPerStream: streamBuffer}
	if !single { // many requests would hang on a connection whose other end is gone without a word
		http2.SendPingTimeout, http2.PingTimeout = pingAfter, pingWithin
	}
	return &http.Transport{
		DialContext: dial, DialTLSContext: w.dialTLS(offered), Protocols: protocols, HTTP2: http2, DisableCompression: true,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second, ExpectContinueTimeout: continueAfter,
		MaxResponseHeaderBytes: maxHead, ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,
	}
}

// dialHeard connects without TLS, for HTTP/1.1.
func (w wires) dialHeard(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := w.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return hear(ctx, c), nil
}

// dialTLS connects with TLS. A connection for HTTP/1.1 hears the clear text; net/http knows one for HTTP/2 by its type.
func (w wires) dialTLS(offered []string) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := w.dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		config := w.trust.Load().Clone()
		config.NextProtos = offered
		if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			config.ServerName = addr
		}
		secure := tls.Client(c, config)
		shaking, cancel := context.WithTimeout(ctx, tlsTimeout)
		defer cancel()
		if err := secure.HandshakeContext(shaking); err != nil {
			c.Close()
			return nil, err
		}
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return secure, nil
		}
		return hear(ctx, secure), nil
	}
}

// hostPort returns the address of a URL of scheme http or https.
func hostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// parseUpstream judges the upstream's URL.
func parseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != schemeH2C || u.Host == "" || u.Hostname() == "" {
		return nil, fmt.Errorf("%q is no upstream: expected http://host:port, https://host:port or h2c://host:port", text)
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("%q has more than scheme, host and port; paths are passed on as they come", text)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("%q: the port is %s, expected 1 to 65535", text, port)
		}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// readRoots reads the certificates that an https upstream is trusted by; none for "".
func readRoots(file string, upstream *url.URL) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	if upstream.Scheme != "https" {
		return nil, fmt.Errorf("it is said, but the upstream is %s://: expected https://", upstream.Scheme)
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate: expected PEM", file)
	}
	return roots, nil
}
