package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"onced"
)

func TestUnprotectedPassesThrough(t *testing.T) {
	up := newUpstream(t, answers(strings.Replace(created, "\r\n", "\r\nConnection: close\r\n", 1)))
	b := newBench(t, up, Deps{}, Route{Match: "POST /off", Key: "off"}, Route{Match: "POST /maybe", Key: "optional"}, Route{Match: "PUT /thing"}, Route{Match: "POST /charge"})
	b.keeper.SetDown("nothing of this needs the keeper")
	runs := 0
	for _, request := range []string{
		"GET /charge?x=%zz&y HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nOnced-Token: 4\r\n\r\n",
		"DELETE /thing HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\n\r\n",
		post("/off", "k", "x"), post("/maybe", "", "x"), post("/other", "k", "x"),
	} {
		for range 2 {
			r := b.send(request).expect(t, 201, "")
			runs++
			if r.header.Get("Idempotency-Replayed") != "" || r.body != `{"charge":7}` {
				t.Fatalf("got\n%v", r)
			}
		}
	}
	b.expectRuns(runs)
	if got := up.request(1); !strings.HasPrefix(got, "GET /charge?x=%zz&y HTTP/1.1\r\nHost: h\r\nForwarded: for=127.0.0.1;host=h;proto=http\r\nIdempotency-Key: k\r\nX-Forwarded-For: 127.0.0.1\r\n") || strings.Contains(got, "Onced-") {
		t.Fatalf("passed on was\n%s", got)
	}
	b.send(post("/maybe", "k", "x")).expect(t, 503, onced.CodeUnavailable)
	b.send(post("/maybe", `"k`, "x")).expect(t, 400, onced.CodeKeyInvalid)
	b.send("PUT /thing HTTP/1.1\r\nHost: h\r\nX-Account: a\r\nContent-Length: 0\r\n\r\n").expect(t, 400, onced.CodeKeyRequired)
}

// Reads, a browser's preflight among them, and methods that no route names are nobody's
// operations, with a key too. (F51, F67)
func TestMethodsThatAreNotProtected(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: https://shop.example\r\nAccess-Control-Allow-Headers: idempotency-key\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	b := newBench(t, up, Deps{}, Route{Match: "/charge"}, Route{Match: "PUT /thing"})
	b.keeper.SetDown("nothing of this needs the keeper")
	runs := 0
	for _, line := range []string{"GET /charge", "HEAD /charge", "OPTIONS /charge", "PUT /charge", "DELETE /charge", "get /charge", "DELETE /thing", "PATCH /thing", "OPTIONS /thing"} {
		for range 2 {
			r := b.send(line+" HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nOrigin: https://shop.example\r\n"+
				"Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: idempotency-key\r\n\r\n").expect(t, 200, "").replayed(t, "")
			if r.header.Get("Access-Control-Allow-Headers") != "idempotency-key" {
				t.Fatalf("%s: got\n%v", line, r)
			}
			runs++
		}
	}
	b.expectRuns(runs)
	for _, line := range []string{"POST /charge", "PATCH /charge", "post /charge", "PUT /thing"} {
		b.send(line+" HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n").expect(t, 503, onced.CodeUnavailable)
	}
	b.expectRuns(runs)
}

func TestUpgradesPassThrough(t *testing.T) {
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		if r.Header.Get("Upgrade") != "websocket" {
			io.WriteString(c, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")
			return false
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.CopyN(c, c, 4)
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	c := b.dial("GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("%+v, %v", resp, err)
	}
	io.WriteString(c, "ping")
	echo := make([]byte, 4)
	if _, err := io.ReadFull(in, echo); err != nil || string(echo) != "ping" {
		t.Fatalf("%q, %v", echo, err)
	}
}

func TestUnprotectedWithoutAnUpstream(t *testing.T) {
	up := newUpstream(t, answers(""))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	b.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect(t, 502, "")
	up.ln.Close()
	b.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect(t, 503, onced.CodeUnavailable)
	b.send("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n").expect(t, 400, onced.CodeInvalidRequest)
}

// However a path is spelled, an upstream never gets a protected operation unprotected.
func TestSpellingsOfAPathOnTheWire(t *testing.T) {
	up := newUpstream(t, answers(strings.Replace(created, "\r\n", "\r\nConnection: close\r\n", 1)))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for target, status := range map[string]int{
		"/charge/../charge": 400, "//charge": 400, "/charge;x": 400, "/x/..%2fcharge": 400, "/%2e/charge": 400, "/charge%3Fx": 400, "/charge#x": 400,
		"/a%5C..%5Ccharge": 400, `/\charge`: 400, "/charge%00": 400, "/charge%20": 400, "/%2563harge": 400, "//h/charge": 400,
		"/%63harge": 503, "/charge/": 503, "/CHARGE": 503, "/charge?x": 503, "http://other.example/charge": 503,
	} {
		b.keeper.SetDown("whatever is protected is refused")
		if r := b.send(post(target, "k", "x")); r.status != status {
			t.Errorf("%s: got\n%v\nexpected %d", target, r, status)
		}
	}
	b.expectRuns(0)
	b.send(post("/char/ge", "k", "x")).expect(t, 201, "")
	b.send(post("/x/../y;z", "k", "x")).expect(t, 201, "")
	if !strings.HasPrefix(up.request(2), "POST /x/../y;z HTTP/1.1\r\n") {
		t.Fatalf("passed on was\n%s", up.request(2))
	}
}

// An upgrade to a protocol that carries requests would be a way around the gateway: a protected operation
// could be sent on the connection behind it. It is not passed on.
func TestUpgradesThatCarryRequestsDoNotPass(t *testing.T) {
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		if r.Header.Get("Upgrade") != "" {
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
			return false
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for i, protocol := range []string{"h2c", "H2C", "HTTP/2.0", "TLS/1.0", "websocket, h2c", "h2", "http/1.1 , x"} {
		b.send("GET /other HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "+protocol+"\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n").expect(t, 200, "")
		if got := up.request(i + 1); strings.Contains(got, "Upgrade") || strings.Contains(got, "Settings") {
			t.Errorf("%s: the upstream got\n%s", protocol, got)
		}
	}
	b.send("GET /other HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n")
	if got := up.request(up.runs()); strings.Contains(strings.ToLower(got), "h2c") {
		t.Errorf("in a second line it passes:\n%s", got)
	}
	if r := b.send("GET /other HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); r.status != 101 {
		t.Errorf("a WebSocket gets\n%v", r)
	}
}

// An upstream with TLS that prefers HTTP/2 is asked for upgrades in HTTP/1.1, and for everything else in HTTP/2, with an answer's trailers.
func TestUpgradesAndTrailersToAnUpstreamWithTLS(t *testing.T) {
	certs := newPair(t, 1)
	protocols := make(chan string, 10)
	server := &http.Server{TLSConfig: certs.config, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols <- r.Proto
		if r.Header.Get("Upgrade") != "" {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
			return
		}
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "Grpc-Status")
		io.WriteString(w, "ok")
		http.NewResponseController(w).Flush() // no length, as with gRPC
		w.Header().Set("Grpc-Status", "0")
	})}
	server.TLSConfig.NextProtos = []string{"h2", "http/1.1"}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.ServeTLS(ln, "", "")
	defer server.Close()
	b := newBenchOf(t, nil, Config{Upstream: "https://" + ln.Addr().String(), UpstreamCA: certs.cert, Tenant: "single"}, Deps{})
	for range 2 {
		c := b.dial("GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if all, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 101 ") || !strings.HasSuffix(string(all), "\r\n\r\nhello") {
			t.Fatalf("%q, %v", all, err)
		}
		if got := <-protocols; got != "HTTP/1.1" {
			t.Fatalf("the upgrade came in %s", got)
		}
		got := b.wire("POST /rpc HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nContent-Length: 1\r\n\r\nx")
		if !strings.Contains(got, "ok\r\n0\r\nGrpc-Status: 0\r\n\r\n") {
			t.Fatalf("got %q", got)
		}
		if got := <-protocols; got != "HTTP/2.0" {
			t.Fatalf("the call came in %s", got)
		}
	}
}
