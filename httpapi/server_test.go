package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"onced"
)

// wires is a listener whose connections are pipes, so that a server runs in virtual time.
type wires struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *wires) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *wires) Close() error   { close(l.closed); return nil }
func (l *wires) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns the client's end of a new connection.
func (l *wires) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// serve runs test in virtual time against a server as NewServer makes it.
func serve(t *testing.T, cfg Config, test func(t *testing.T, l *wires)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { serveIn(t, cfg, test) })
}

// serveIn is serve inside of a bubble.
func serveIn(t *testing.T, cfg Config, test func(t *testing.T, l *wires)) {
	l := &wires{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := NewServer(ServerConfig{Handler: New(cfg)})
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	test(t, l)
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != http.ErrServerClosed {
		t.Error(err)
	}
	// net/http lingers for a moment on a connection that it closes early.
	time.Sleep(time.Second)
}

// send writes text in the background: a pipe takes a byte only when it is read.
func send(conn net.Conn, text string) {
	go func() { _, _ = io.WriteString(conn, text) }()
}

// receive reads one answer.
func receive(t *testing.T, r *bufio.Reader) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// post returns a request as it goes over the wire.
func post(path, body string, headers ...string) string {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: node\r\n", path)
	for _, line := range headers {
		head += line + "\r\n"
	}
	return head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

const reserveFine = `{"fingerprint":""}`

// sleepOr lets a call of the Keeper take d, unless its context ends first.
func sleepOr(d time.Duration, ended *error) func(ctx context.Context) {
	return func(ctx context.Context) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		*ended = ctx.Err()
	}
}

// net/http goes on reading while a call is under way, to notice a hang-up. Its time-outs must
// not end the call: the longest wait is longer than some of them.
func TestLongestWait(t *testing.T) {
	for _, request := range []string{
		post("/v1/keys/k/reserve", `{"fingerprint":"","wait":"60s"}`),
		"GET /v1/keys/k?wait=60s HTTP/1.1\r\nHost: node\r\n\r\n",
	} {
		var ended error
		keeper := &scripted{result: onced.ReserveResult{Record: running}, record: running, block: sleepOr(69*time.Second, &ended)}
		serve(t, config(keeper), func(t *testing.T, l *wires) {
			conn := l.dial()
			begun := time.Now()
			send(conn, request)
			response, body := receive(t, bufio.NewReader(conn))
			if ended != nil || response.StatusCode >= 300 || time.Since(begun) != 69*time.Second {
				t.Errorf("%.30s: %d %s after %s, context: %v", request, response.StatusCode, body, time.Since(begun), ended)
			}
		})
	}
}

func TestDeadlines(t *testing.T) {
	for request, want := range map[string]time.Duration{
		post("/v1/keys/k/reserve", reserveFine):                           10 * time.Second,
		post("/v1/keys/k/reserve", `{"fingerprint":"","wait":"5s"}`):      15 * time.Second,
		post("/v1/keys/k/complete", `{"token":1,"outcome":"unknown"}`):    10 * time.Second,
		post("/v1/keys/k/release", `{"token":1}`):                         10 * time.Second,
		post("/v1/keys/k/renew", `{"token":1}`):                           10 * time.Second,
		"GET /v1/keys/k?wait=5s HTTP/1.1\r\nHost: node\r\n\r\n":           15 * time.Second,
		"GET /v1/keys HTTP/1.1\r\nHost: node\r\n\r\n":                     10 * time.Second,
		"DELETE /v1/keys/k HTTP/1.1\r\nHost: node\r\n\r\n":                10 * time.Second,
		post("/v1/keys/k/resolve", `{"outcome":"released","reason":"r"}`): 10 * time.Second,
	} {
		var ended error
		keeper := &scripted{block: sleepOr(time.Hour, &ended), err: onced.Problemf(onced.CodeUnavailable, "no answer")}
		serve(t, config(keeper), func(t *testing.T, l *wires) {
			conn := l.dial()
			begun := time.Now()
			send(conn, request)
			response, _ := receive(t, bufio.NewReader(conn))
			if ended != context.DeadlineExceeded || response.StatusCode != 503 || time.Since(begun) != want {
				t.Errorf("%.30s: %d after %s, want %s; context: %v", request, response.StatusCode, time.Since(begun), want, ended)
			}
		})
	}
}

// A client that hangs up ends its reserve, since nobody would run the operation, but not a
// complete, which may be the only trace of what was done.
func TestHangUp(t *testing.T) {
	for request, goesOn := range map[string]bool{
		post("/v1/keys/k/reserve", reserveFine):                           false,
		"GET /v1/keys/k HTTP/1.1\r\nHost: node\r\n\r\n":                   false,
		post("/v1/keys/k/complete", `{"token":1,"outcome":"unknown"}`):    true,
		post("/v1/keys/k/release", `{"token":1}`):                         true,
		post("/v1/keys/k/renew", `{"token":1}`):                           true,
		post("/v1/keys/k/resolve", `{"outcome":"released","reason":"r"}`): true,
		"DELETE /v1/keys/k HTTP/1.1\r\nHost: node\r\n\r\n":                true,
	} {
		var ended error
		keeper := &scripted{block: sleepOr(time.Second, &ended)}
		serve(t, config(keeper), func(t *testing.T, l *wires) {
			conn := l.dial()
			send(conn, request)
			synctest.Wait()
			if keeper.calls != 1 {
				t.Fatalf("%.30s did not arrive", request)
			}
			_ = conn.Close()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if (ended == nil) != goesOn {
				t.Errorf("%.30s: context: %v", request, ended)
			}
		})
	}
}

// Whoever sends slowly is cut off, and nothing is done.
func TestSlowClients(t *testing.T) {
	cases := []struct {
		name  string
		sent  string
		want  string // the answer begins with it; "" = none
		limit time.Duration
	}{
		{"nothing", "", "", readHeaderTimeout},
		{"half a head", "POST /v1/keys/k/reserve HTTP/1.1\r\nHost:", "", readHeaderTimeout},
		{"half a body", "POST /v1/keys/k/reserve HTTP/1.1\r\nHost: n\r\nContent-Length: 18\r\n\r\n{\"fing", "HTTP/1.1 400", readTimeout},
		{"half a chunk", "POST /v1/keys/k/reserve HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n12\r\n{\"fing", "HTTP/1.1 400", readTimeout},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			keeper := &scripted{result: onced.ReserveResult{Record: running}}
			serve(t, config(keeper), func(t *testing.T, l *wires) {
				conn := l.dial()
				begun := time.Now()
				send(conn, c.sent)
				answer, _ := io.ReadAll(conn)
				if took := time.Since(begun); took < c.limit || took > c.limit+time.Second {
					t.Errorf("cut off after %s, want %s", took, c.limit)
				}
				if !strings.HasPrefix(string(answer), c.want) || c.want == "" && len(answer) > 0 {
					t.Errorf("got %q, want %q", answer, c.want)
				}
				if keeper.calls != 0 {
					t.Error("the Keeper was asked")
				}
			})
		})
	}
}

// A body that nobody reads does not free its sender from the time-out.
func TestSlowUnreadBody(t *testing.T) {
	keeper := &scripted{record: running}
	serve(t, config(keeper), func(t *testing.T, l *wires) {
		conn := l.dial()
		begun := time.Now()
		send(conn, "GET /v1/keys/k HTTP/1.1\r\nHost: n\r\nContent-Length: 100\r\n\r\nslow")
		answer, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 200") || time.Since(begun) > readTimeout+time.Second {
			t.Errorf("%.30q, cut off after %s", answer, time.Since(begun))
		}
	})
}

// Every request of a connection has its time, and the pause between two as well.
func TestSlowSecondRequest(t *testing.T) {
	serve(t, config(&scripted{record: running}), func(t *testing.T, l *wires) {
		conn := l.dial()
		r := bufio.NewReader(conn)
		send(conn, post("/v1/keys/k/renew", `{"token":1}`))
		receive(t, r)
		begun := time.Now()
		send(conn, "POST /v1/keys/k/reserve HTTP/1.1\r\nHost: n\r\nContent-Length: 18\r\n\r\n{")
		response, _ := receive(t, r)
		if response.StatusCode != 400 || time.Since(begun) > readTimeout+time.Second {
			t.Errorf("%d after %s", response.StatusCode, time.Since(begun))
		}
	})
	serve(t, config(&scripted{record: running}), func(t *testing.T, l *wires) {
		conn := l.dial()
		r := bufio.NewReader(conn)
		send(conn, post("/v1/keys/k/renew", `{"token":1}`))
		receive(t, r)
		begun := time.Now()
		if _, err := r.ReadByte(); err != io.EOF || time.Since(begun) != idleTimeout {
			t.Errorf("an idle connection: %v after %s", err, time.Since(begun))
		}
	})
}

// A client that breaks off while it sends has asked for nothing.
func TestBrokenOffBody(t *testing.T) {
	for _, head := range []string{"Content-Length: 18", "Transfer-Encoding: chunked"} {
		keeper := &scripted{result: onced.ReserveResult{Record: running}}
		serve(t, config(keeper), func(t *testing.T, l *wires) {
			conn := l.dial()
			send(conn, "POST /v1/keys/k/reserve HTTP/1.1\r\nHost: n\r\n"+head+"\r\n\r\n"+reserveFine[:5])
			synctest.Wait()
			_ = conn.Close()
			synctest.Wait()
			if keeper.calls != 0 {
				t.Errorf("%s: the Keeper was asked", head)
			}
		})
	}
}

// What goes over the wire byte by byte, and what net/http makes of it.
func TestRawRequests(t *testing.T) {
	chunked := func(body string) string {
		return fmt.Sprintf("POST /v1/keys/k/reserve HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	cases := []struct {
		name    string
		request string
		status  int
		wants   string
		key     onced.Key // that the Keeper was asked for
	}{
		{"plain", post("/v1/keys/k/reserve", reserveFine), 201, `"reserved"`, "k"},
		{"absolute form", post("http://other.example/v1/keys/a%2Fb/reserve", reserveFine), 201, `"reserved"`, "a/b"},
		{"chunked", chunked(reserveFine), 201, `"reserved"`, "k"},
		{"chunked and too long", chunked(`{"fingerprint":"` + strings.Repeat(" ", DefaultMaxRequestBytes) + `"}`), 413, `"request_too_large"`, ""},
		{"long, only said", "POST /v1/keys/k/reserve HTTP/1.1\r\nHost: n\r\nContent-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n", 413, `"request_too_large"`, ""},
		{"long complete, only said", "POST /v1/keys/k/complete HTTP/1.1\r\nHost: n\r\nContent-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n", 413, `"response_too_large"`, ""},
		{"gzip", post("/v1/keys/k/reserve", "\x1f\x8b\x08", "Content-Encoding: gzip"), 400, "without compression", ""},
		{"gzip that says nothing", post("/v1/keys/k/reserve", "\x1f\x8b\x08"), 400, "not JSON", ""},
		{"two credentials", post("/v1/keys/k/reserve", reserveFine, "Authorization: Bearer a", "AUTHORIZATION: Bearer b"), 401, `"unauthenticated"`, ""},
		{"two tenants", post("/v1/keys/k/reserve", reserveFine, "onced-tenant: a", "Onced-Tenant: b"), 400, "2 Onced-Tenant lines", ""},
		{"two slashes", post("//v1/keys/k/reserve", reserveFine), 404, "there is nothing at", ""},
		{"dots are a key", post("/v1/keys/../reserve", reserveFine), 201, `"reserved"`, ".."},
		{"dots are no way up", post("/v1/keys/k/../k/reserve", reserveFine), 404, "%2F", ""},
		{"an escaped path", post("/v1/k%65ys/k/reserve", reserveFine), 404, "there is nothing at", ""},
		{"no escape", post("/v1/keys/a%zz/reserve", reserveFine), 400, "", ""},
		{"half an escape", post("/v1/keys/a%2/reserve", reserveFine), 400, "", ""},
		{"quote and slash", post(`/v1/keys/"a%2Freserve`, reserveFine), 400, `"idempotency_key_invalid"`, ""},
		{"bytes that are not ASCII", post("/v1/keys/\xc3\xa9/reserve", reserveFine), 400, "idempotency_key_invalid", ""},
		{"a key in the query", post("/v1/keys/k?/reserve", reserveFine), 405, `"invalid_request"`, ""},
		{"a fragment", post("/v1/keys/k#x/reserve", reserveFine), 400, `"idempotency_key_invalid"`, ""},
		{"no host", "POST /v1/keys/k/reserve HTTP/1.1\r\nContent-Length: 18\r\n\r\n" + reserveFine, 400, "", ""},
		{"two lengths", post("/v1/keys/k/reserve", reserveFine, "Content-Length: 3"), 400, "", ""},
		{"a header too long", post("/v1/keys/k/reserve", reserveFine, "X: "+strings.Repeat("x", 2*maxHeaderBytes)), 431, "", ""},
		{"connect", "CONNECT n:80 HTTP/1.1\r\nHost: n:80\r\n\r\n", 404, `"invalid_request"`, ""},
		{"a method of its own", "RESERVE /v1/keys/k/reserve HTTP/1.1\r\nHost: n\r\n\r\n", 405, `"invalid_request"`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			keeper := &scripted{result: onced.ReserveResult{Record: running}}
			serve(t, config(keeper), func(t *testing.T, l *wires) {
				conn := l.dial()
				send(conn, c.request)
				response, body := receive(t, bufio.NewReader(conn))
				if response.StatusCode != c.status || !strings.Contains(body, c.wants) {
					t.Errorf("got %d %s, want %d %s", response.StatusCode, body, c.status, c.wants)
				}
				if response.StatusCode == 413 && !response.Close {
					t.Error("the connection stays open for the rest of a body that is too long")
				}
				asked, _ := keeper.asked.(onced.ReserveRequest)
				if asked.Key != c.key || (keeper.calls == 0) != (c.key == "") {
					t.Errorf("the Keeper was asked for %q, want %q", asked.Key, c.key)
				}
				_ = conn.Close()
			})
		})
	}
}

// Requests on one connection are answered one by one, each for itself, refused or not.
func TestKeepAlive(t *testing.T) {
	keeper := &scripted{result: onced.ReserveResult{Record: running}}
	serve(t, config(keeper), func(t *testing.T, l *wires) {
		conn := l.dial()
		r := bufio.NewReader(conn)
		send(conn, post("/v1/keys/k/reserve", reserveFine)+post("/v1/keys/k/reserve", `{`)+post("/v1/keys/a/b", `x`)+post("/v1/keys/k/reserve", reserveFine))
		for _, want := range []int{201, 400, 404, 201} {
			if response, body := receive(t, r); response.StatusCode != want {
				t.Errorf("got %d %s, want %d", response.StatusCode, body, want)
			}
		}
		_ = conn.Close()
	})
}
