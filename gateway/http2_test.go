package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"onced"
)

// done answers whole.
func (s *stream) done(body string) bool {
	s.head(false, ":status: 201", "x-b: 1", "location: /charges/7", "x-a: 1", "x-b: 2")
	s.WriteData(s.id, true, []byte(body))
	return true
}

// The upstream may speak HTTP/2, with TLS or without. A protected request has a connection of its own there too.
func TestAnUpstreamThatSpeaksHTTP2(t *testing.T) {
	certs := newPair(t, 1)
	for scheme, secure := range map[string]*tls.Config{"h2c": nil, "https": certs.config} {
		t.Run(scheme, func(t *testing.T) {
			up := newFramed(t, secure, func(_ int, s *stream) bool { return s.done("ok") })
			c := Config{Upstream: scheme + "://" + up.ln.Addr().String(), Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge"}}}
			if secure != nil {
				c.UpstreamCA = certs.cert
			}
			b := newBenchOf(t, nil, c, Deps{})
			for _, key := range []string{"k1", "k2"} {
				for _, marker := range []string{"false", "true"} {
					sameWire(t, b.wire(charge(key, "x", "Connection: X-Hop", "X-Hop: 1")),
						"HTTP/1.1 201 Created\r\nLocation: /charges/7\r\nX-A: 1\r\nX-B: 1\r\nX-B: 2\r\n"+
							"Content-Length: 2\r\nIdempotency-Expires: later\r\nIdempotency-Replayed: "+marker+"\r\nDate: now\r\nConnection: close\r\n\r\nok")
				}
			}
			b.send("GET /other HTTP/1.1\r\nHost: h\r\n\r\n").expect(t, 201, "")
			if requests, conns := up.runs(); requests != 3 || conns != 3 {
				t.Fatalf("%d requests over %d connections", requests, conns)
			}
			got := strings.Split(unnamed(up.request(1)), "\n")
			slices.Sort(got)
			want := []string{"", ":authority: pay.example", ":method: POST", ":path: /charge", ":scheme: " + strings.Replace(scheme, "h2c", "http", 1), "content-length: 1",
				"forwarded: for=127.0.0.1;host=pay.example;proto=http", "idempotency-key: k1", "onced-attempt: 1", "onced-token: 1", "x", "x-account: acme",
				"x-forwarded-for: 127.0.0.1", "x-forwarded-host: pay.example", "x-forwarded-proto: http"}
			sameWire(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
		})
	}
}

// Interim answers of an HTTP/2 upstream are passed on as they come, and not stored.
func TestInformationalAnswersOverHTTP2(t *testing.T) {
	up := newFramed(t, nil, func(_ int, s *stream) bool {
		s.head(false, ":status: 103", "link: </a.css>; rel=preload")
		return s.done("ok")
	})
	b := newBenchOf(t, nil, Config{Upstream: "h2c://" + up.ln.Addr().String(), Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge"}}}, Deps{})
	const final = "HTTP/1.1 201 Created\r\nLocation: /charges/7\r\nX-A: 1\r\nX-B: 1\r\nX-B: 2\r\nContent-Length: 2\r\nIdempotency-Expires: later\r\nIdempotency-Replayed: "
	const end = "\r\nDate: now\r\nConnection: close\r\n\r\nok"
	sameWire(t, b.wire(charge("k", "x")), "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"+final+"false"+end)
	sameWire(t, b.wire(charge("k", "x")), final+"true"+end)
}

// A large answer of an HTTP/2 upstream waits for a slow client at the upstream, not in memory here.
func TestALargeAnswerOverHTTP2PassesWithFlatMemory(t *testing.T) {
	server := &http.Server{Protocols: protocols()}
	var h heap
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { h.pour(w) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(ln)
	defer server.Close()
	b := newBenchOf(t, nil, Config{Upstream: "h2c://" + ln.Addr().String(), Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge"}}}, Deps{})
	h.begin()
	resp, err := http.ReadResponse(bufio.NewReader(b.dial(charge("k", "x"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != flood || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	h.check(t)
	b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept)
}

// However an HTTP/2 upstream breaks off, the request does not travel again, and only what it says for certain frees the key.
func TestNeverTwiceOverHTTP2(t *testing.T) {
	type ends struct {
		script  func(*stream) bool
		notSent bool // for certain
	}
	for name, end := range map[string]ends{
		"refused stream":    {func(s *stream) bool { s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream); return true }, true},
		"goaway before it":  {func(s *stream) bool { s.WriteGoAway(0, http2.ErrCodeNo, nil); return true }, true},
		"goaway in error":   {func(s *stream) bool { s.WriteGoAway(0, http2.ErrCodeInternal, nil); return false }, false},
		"goaway after it":   {func(s *stream) bool { s.WriteGoAway(s.id, http2.ErrCodeNo, nil); return false }, false},
		"closed":            {func(s *stream) bool { return false }, false},
		"internal error":    {func(s *stream) bool { s.WriteRSTStream(s.id, http2.ErrCodeInternal); return true }, false},
		"protocol error":    {func(s *stream) bool { s.WriteRSTStream(s.id, http2.ErrCodeProtocol); return true }, false},
		"cancelled":         {func(s *stream) bool { s.WriteRSTStream(s.id, http2.ErrCodeCancel); return true }, false},
		"http/1.1 required": {func(s *stream) bool { s.WriteRSTStream(s.id, http2.ErrCodeHTTP11Required); return true }, false},
		"refused in the end": {func(s *stream) bool {
			s.head(false, ":status: 200")
			s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream)
			return true
		}, false},
		"length not reached": {func(s *stream) bool {
			s.head(false, ":status: 200", "content-length: 9")
			s.WriteData(s.id, true, []byte("short"))
			return true
		}, false},
		"cut in its body": {func(s *stream) bool {
			s.head(false, ":status: 200")
			s.WriteData(s.id, false, []byte("short"))
			return false
		}, false},
		"no status": {func(s *stream) bool { s.head(true, "x-a: 1"); return true }, false},
	} {
		for _, body := range []string{"", "x"} {
			for _, reuse := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, body %q, reuse %v", name, body, reuse), func(t *testing.T) {
					t.Parallel()
					up := newFramed(t, nil, func(_ int, s *stream) bool {
						if slices.Contains(s.fields, "idempotency-key: dies") {
							return end.script(s)
						}
						return s.done("ok")
					})
					b := newBenchOf(t, nil, Config{Upstream: "h2c://" + up.ln.Addr().String(), Tenant: "header:X-Account",
						Routes: []Route{{Match: "POST /charge", ReuseConnections: reuse}}}, Deps{})
					b.send(charge("warm", "warms the connection up")).expect(t, 201, "")
					status, code, state := 504, onced.CodeOutcomeUnknown, onced.StateUnknown
					if end.notSent && (!reuse || body == "") {
						status, code, state = 503, onced.CodeUnavailable, onced.StateAbsent
					}
					b.send(charge("dies", body)).expect(t, status, code)
					if rec := b.record("dies"); rec.State != state {
						t.Fatalf("the record is %+v", rec)
					}
					want := 2
					if reuse && body != "" {
						want = 1
					}
					if requests, conns := up.runs(); requests != 2 || conns != want {
						t.Fatalf("%d requests over %d connections", requests, conns)
					}
				})
			}
		}
	}
}

// The same on a route that is not protected: what has an effect is not sent again by a transport.
func TestNeverTwiceOverHTTP2Unprotected(t *testing.T) {
	up := newFramed(t, nil, func(n int, s *stream) bool {
		if slices.Contains(s.fields, "idempotency-key: dies") {
			s.WriteRSTStream(s.id, http2.ErrCodeProtocol)
			return true
		}
		return s.done("ok")
	})
	b := newBenchOf(t, nil, Config{Upstream: "h2c://" + up.ln.Addr().String(), Tenant: "single"}, Deps{})
	for i, body := range []string{"x", ""} {
		b.send(charge("warm", "x")).expect(t, 201, "")
		b.send(charge("dies", body)).expect(t, 502, "")
		if requests, _ := up.runs(); requests != 2*i+2 {
			t.Fatalf("%d requests", requests)
		}
	}
}

// Over TLS an upstream that has no HTTP/2 is spoken to in HTTP/1.1, with its lines in order, and one that is not trusted not at all.
func TestTLSToTheUpstream(t *testing.T) {
	certs := newPair(t, 1)
	plain := newUpstream(t, answers("HTTP/1.1 200 OK\r\nZ: 1\r\nA: 1\r\nContent-Length: 2\r\n\r\nok"))
	config := certs.config.Clone()
	config.NextProtos = nil
	plain.wrap(func(c net.Conn) net.Conn { return tls.Server(c, config) })
	c := Config{Upstream: "https://" + plain.ln.Addr().String(), Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge"}}}
	b := newBenchOf(t, plain, c, Deps{})
	b.send(charge("k", "x")).expect(t, 503, onced.CodeUnavailable)
	if rec := b.record("k"); rec.State != onced.StateAbsent {
		t.Fatalf("the record is %+v", rec)
	}
	b.expectRuns(0)
	c.UpstreamCA = certs.cert
	if err := b.g.Reload(c); err != nil {
		t.Fatal(err)
	}
	sameWire(t, b.wire(charge("k", "x")), "HTTP/1.1 200 OK\r\nZ: 1\r\nA: 1\r\nContent-Length: 2\r\nIdempotency-Expires: later\r\nIdempotency-Replayed: false\r\nDate: now\r\nConnection: close\r\n\r\nok")
	b.expectRuns(1)
}

// Clients may speak HTTP/2, with TLS or without, and HTTP/1.1 over TLS. What they get is the same.
func TestClientsOfHTTP2AndTLS(t *testing.T) {
	certs := newPair(t, 1)
	up := newUpstream(t, answers(created))
	for name, c := range map[string]Config{"clear": {}, "TLS": {TLSCert: certs.cert, TLSKey: certs.key}} {
		t.Run(name, func(t *testing.T) {
			before := up.runs()
			c.Tenant, c.Routes = "header:X-Account", []Route{{Match: "POST /charge"}}
			b := newBenchOf(t, up, c, Deps{})
			var secure *tls.Config
			if name == "TLS" {
				secure = &tls.Config{RootCAs: certs.roots, ServerName: "pay.example", NextProtos: []string{"h2"}}
			}
			for _, marker := range []string{"false", "true"} {
				s, _ := b.ask(secure, chargeFields("k", "te: trailers"), "x")
				got, err := s.answer()
				if err != nil {
					t.Fatal(err)
				}
				got = regexp.MustCompile(`(?m)^(date|idempotency-expires): .*`).ReplaceAllString(got, "$1: then")
				sameWire(t, got, ":status: 201\ncontent-type: application/json\netag: \"v1\"\nidempotency-expires: then\nidempotency-replayed: "+marker+
					"\nlink: <a>; rel=x\nlink: <b>; rel=y\nlocation: /charges/7\ncontent-length: 12\ndate: then\n\n{\"charge\":7}")
			}
			if name == "TLS" {
				r := b.read(tlsDial(t, b.addr, secure, charge("k", "x"))).expect(t, 201, "").replayed(t, "true")
				if len(r.header["Link"]) != 2 {
					t.Fatalf("got\n%v", r)
				}
				refused := b.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				if all, _ := io.ReadAll(refused); !strings.HasPrefix(string(all), "HTTP/1.0 400 ") {
					t.Fatalf("in clear it says %q", all)
				}
			}
			b.expectRuns(before + 1)
			if !strings.Contains(up.request(before+1), "proto=http"+map[string]string{"TLS": "s"}[name]+"\r\n") {
				t.Fatalf("the scheme is not told:\n%s", up.request(before+1))
			}
		})
	}
}

func tlsDial(t *testing.T, addr string, config *tls.Config, text string) net.Conn {
	t.Helper()
	config = config.Clone()
	config.NextProtos = nil
	c, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, text)
	return c
}

// Certificates are read anew with the routes, for the connections that come; a broken one leaves the old in force.
func TestCertificatesAreReloaded(t *testing.T) {
	one, two := newPair(t, 1), newPair(t, 2)
	up := newUpstream(t, answers(created))
	c := Config{Upstream: "http://" + up.ln.Addr().String(), Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge"}}, TLSCert: one.cert, TLSKey: one.key}
	b := newBenchOf(t, up, c, Deps{})
	held := tlsDial(t, b.addr, &tls.Config{RootCAs: one.roots}, "")
	serial := func(p pair) error {
		conn, err := tls.Dial("tcp", b.addr, &tls.Config{RootCAs: p.roots})
		if err == nil {
			conn.Close()
		}
		return err
	}
	for _, broken := range []Config{{TLSCert: one.cert, TLSKey: two.key}, {TLSCert: one.cert}, {TLSKey: one.key}, {TLSCert: "/nowhere", TLSKey: one.key}} {
		broken.Upstream, broken.Tenant = c.Upstream, c.Tenant
		if err := b.g.Reload(broken); err == nil || !strings.Contains(err.Error(), "gateway: tls_cert: ") {
			t.Fatalf("%+v: %v", broken, err)
		}
		if err := serial(one); err != nil {
			t.Fatal(err)
		}
	}
	c.TLSCert, c.TLSKey = two.cert, two.key
	if err := b.g.Reload(c); err != nil {
		t.Fatal(err)
	}
	if err := serial(two); err != nil {
		t.Fatal(err)
	}
	if err := serial(one); err == nil {
		t.Fatal("the old certificate is still shown")
	}
	io.WriteString(held, charge("k", "x"))
	b.read(held).expect(t, 201, "")
}

// A client that resets its stream, or closes its connection, does not end the operation. (F34, F35)
func TestAStreamThatIsResetChangesNothing(t *testing.T) {
	for _, how := range []string{"reset", "closed"} {
		t.Run(how, func(t *testing.T) {
			started, finish := make(chan struct{}), make(chan struct{})
			up := newUpstream(t, func(_ int, _ *http.Request, c net.Conn) bool {
				close(started)
				<-finish
				io.WriteString(c, created)
				return false
			})
			events := make(chan Event, 10)
			b := newBench(t, up, Deps{Observe: func(e Event) { events <- e }}, Route{Match: "POST /charge"})
			b.watch = make(chan context.Context, 10)
			s, c := b.ask(nil, chargeFields("k"), "x")
			<-started
			if how == "reset" {
				s.WriteRSTStream(s.id, http2.ErrCodeCancel)
			} else {
				c.Close()
			}
			<-(<-b.watch).Done() // the server has seen it
			close(finish)
			if e := <-events; e.Outcome != Executed {
				t.Fatalf("the event is %+v", e)
			}
			b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
			b.expectRuns(1)
		})
	}
}

// An answer that is cut is reset for a client of HTTP/2, never ended as if it were whole.
func TestACutAnswerIsResetOverHTTP2(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"+strings.Repeat("x", 50_000)))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", MaxResponse: "1KiB"})
	s, _ := b.ask(nil, chargeFields("k"), "x")
	if got, err := s.answer(); err == nil || errors.Is(err, io.EOF) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
}
