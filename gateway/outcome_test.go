package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"onced"
)

// What an answer's status does to the key (contract §5.5).
func TestWhatAStatusDoes(t *testing.T) {
	lists := Route{Store: []string{"2xx", "422"}, Release: []string{"404"}}
	for _, tc := range []struct {
		route  Route
		status int
		second int // status of the duplicate
		code   onced.Code
		runs   int
	}{
		{Route{}, 200, 200, "", 1},
		{Route{}, 303, 303, "", 1},
		{Route{}, 400, 400, "", 1},
		{Route{}, 422, 422, "", 1},
		{Route{}, 401, 401, "", 2},
		{Route{}, 408, 408, "", 2},
		{Route{}, 421, 421, "", 2},
		{Route{}, 425, 425, "", 2},
		{Route{}, 429, 429, "", 2},
		{Route{}, 503, 503, "", 2},
		{Route{}, 500, 409, onced.CodeOutcomeUnknown, 1},
		{Route{}, 502, 409, onced.CodeOutcomeUnknown, 1},
		{Route{}, 504, 409, onced.CodeOutcomeUnknown, 1},
		{lists, 201, 201, "", 1},
		{lists, 302, 409, onced.CodeResponseNotKept, 1},
		{lists, 422, 422, "", 1},
		{lists, 404, 404, "", 2},
		{lists, 400, 400, "", 2},
		{lists, 503, 409, onced.CodeOutcomeUnknown, 1},
		{Route{Store: []string{"2xx", "3xx", "4xx", "500"}}, 500, 500, "", 1},
		{Route{Release: []string{"5xx"}, Store: []string{"2xx"}}, 500, 500, "", 2},
		{Route{Store: []string{}, Release: []string{}}, 200, 409, onced.CodeResponseNotKept, 1},
	} {
		t.Run(fmt.Sprint(tc.status, tc.route.Store, tc.route.Release), func(t *testing.T) {
			up := newUpstream(t, answers(fmt.Sprintf("HTTP/1.1 %d Whatever\r\nContent-Length: 2\r\n\r\nno", tc.status)))
			tc.route.Match = "POST /charge"
			b := newBench(t, up, Deps{}, tc.route)
			first := b.send(charge("k", "x")).expect(t, tc.status, "").replayed(t, "false")
			if first.body != "no" {
				t.Fatalf("the first answer is\n%v", first)
			}
			second := b.send(charge("k", "x")).expect(t, tc.second, tc.code)
			b.expectRuns(tc.runs)
			if tc.code == onced.CodeResponseNotKept && !strings.Contains(second.body, fmt.Sprintf(`"original_status":%d`, tc.status)) {
				t.Fatalf("no original status in\n%v", second)
			}
		})
	}
}

// What ends without a whole answer may have happened: 504, and never a second run under hold.
func TestNoWholeAnswerIsUnknown(t *testing.T) {
	hang := func(_ int, _ *http.Request, c net.Conn) bool { io.Copy(io.Discard, c); return false }
	for name, script := range map[string]func(int, *http.Request, net.Conn) bool{
		"hangs": hang,
		"hangs in its body": func(n int, r *http.Request, c net.Conn) bool {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
			return hang(n, r, c)
		},
		"closes":                answers(""),
		"no HTTP":               answers("220 smtp.example ESMTP\r\n"),
		"cut in headers":        answers("HTTP/1.1 200 OK\r\nContent-Le"),
		"length not reached":    answers("HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nshort"),
		"length before a space": answers("HTTP/1.1 201 Created\r\nContent-Length : 9\r\n\r\nshort"),
		"chunks before a space": answers("HTTP/1.1 201 Created\r\ntransfer-encoding : chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"),
		"chunk cut":             answers("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
		"last chunk missing":    answers("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"),
		"chunk of no number":    answers("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n"),
		"not sent but cut":      answers("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 9\r\n\r\nshort"),
		"switching protocols":   answers("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
		"a status beyond HTTP":  answers("HTTP/1.1 700 Odd\r\nContent-Length: 0\r\n\r\n"),
		"headers without end":   answers("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 300<<10) + "\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, script)
			b := newBench(t, up, Deps{}, Route{Match: "POST /charge", Timeout: "400ms"})
			r := b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown).replayed(t, "false")
			if r.cut != nil {
				t.Fatal(r.cut)
			}
			if strings.HasPrefix(name, "hangs") != strings.Contains(r.body, "in time") {
				t.Fatalf("the wrong reason is told in\n%v", r)
			}
			if rec := b.record("k"); rec.State != onced.StateUnknown || rec.Response != nil {
				t.Fatalf("the record is %+v", rec)
			}
			b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
			b.expectRuns(1)
		})
	}
}

func TestRetryTakesOverWithTheNextAttempt(t *testing.T) {
	up := newUpstream(t, func(n int, _ *http.Request, c net.Conn) bool {
		if n == 1 {
			io.WriteString(c, "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops")
			return false
		}
		io.WriteString(c, created)
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", OnUnknown: "retry"})
	b.send(charge("k", "x")).expect(t, 500, "").replayed(t, "false")
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
	b.expectRuns(2)
	if got := up.request(2); !strings.Contains(got, "\r\nOnced-Attempt: 2\r\nOnced-Token: 2\r\n") {
		t.Fatalf("the second attempt was\n%s", got)
	}
}

func TestARefusedConnectionFreesTheKey(t *testing.T) {
	up := newUpstream(t, answers(created))
	var refuse atomic.Bool
	refuse.Store(true)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if refuse.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	b := newBench(t, up, Deps{Dial: dial, RequestTimeout: 50 * time.Millisecond}, Route{Match: "POST /charge"})
	b.send(charge("k", "x")).expect(t, 503, onced.CodeUnavailable)
	if rec := b.record("k"); rec.State != onced.StateAbsent {
		t.Fatalf("the record is %+v", rec)
	}
	// A release that cannot be recorded now goes on in the background.
	b.keeper.hook(&b.keeper.release, unavailable)
	b.send(charge("k", "x")).expect(t, 503, onced.CodeUnavailable)
	b.send(charge("k", "x")).expect(t, 409, onced.CodeRequestInProgress)
	freed := make(chan struct{}, 10)
	b.keeper.hook(&b.keeper.release, func() error { freed <- struct{}{}; return nil })
	<-freed
	refuse.Store(false)
	for b.record("k").State != onced.StateAbsent { // the release comes right after its hook
	}
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
	b.expectRuns(1)
}

func TestADialThatTakesTooLongIsNotSent(t *testing.T) {
	up := newUpstream(t, answers(created))
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	b := newBench(t, up, Deps{Dial: dial}, Route{Match: "POST /charge", Timeout: "50ms"})
	b.send(charge("k", "x")).expect(t, 503, onced.CodeUnavailable)
	if rec := b.record("k"); rec.State != onced.StateAbsent {
		t.Fatalf("the record is %+v", rec)
	}
}

// Go's transport repeats a request that carries an Idempotency-Key when a kept-alive
// connection dies under it. Ours must not: two copies on the wire are two charges.
func TestNeverTwiceOnTheWire(t *testing.T) {
	for _, body := range []string{"x", ""} {
		for _, reuse := range []bool{true, false} {
			t.Run(fmt.Sprintf("body %q reuse %v", body, reuse), func(t *testing.T) {
				from := make(chan string, 2)
				up := newUpstream(t, func(n int, r *http.Request, c net.Conn) bool {
					from <- c.RemoteAddr().String()
					if r.Header.Get("Idempotency-Key") == "dies" {
						return false // reads the request, runs it, and dies
					}
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					return true
				})
				b := newBench(t, up, Deps{}, Route{Match: "POST /charge", ReuseConnections: reuse})
				b.send(charge("warm", "warms the connection up")).expect(t, 200, "")
				b.send(charge("dies", body)).expect(t, 504, onced.CodeOutcomeUnknown)
				b.expectRuns(2)
				first, second := <-from, <-from
				if alone := first != second; alone != (!reuse || body == "") {
					t.Fatalf("with reuse %v and body %q, on a connection of its own: %v", reuse, body, alone)
				}
			})
		}
	}
}

// The same trap on a route that is not protected.
func TestNeverTwiceOnTheWireUnprotected(t *testing.T) {
	up := newUpstream(t, func(n int, r *http.Request, c net.Conn) bool {
		if r.Header.Get("Idempotency-Key") == "dies" {
			return false
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return true
	})
	b := newBench(t, up, Deps{})
	for _, body := range []string{"x", ""} {
		before := up.runs()
		b.send(charge("warm", "x")).expect(t, 200, "")
		b.send(charge("dies", body)).expect(t, 502, "")
		b.expectRuns(before + 2)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	b.send(charge("k", "x")).expect(t, 307, "")
	b.expectRuns(1)
}

func TestRetentionByStatus(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n"))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", RetentionByStatus: map[string]Duration{"4xx": "10s"}})
	for range 5 {
		b.send(charge("k", "x")).expect(t, 422, "")
	}
	b.expectRuns(1)
	b.keeper.ahead.Store(11_000)
	b.send(charge("k", "x")).expect(t, 422, "").replayed(t, "false")
	b.expectRuns(2)
}

func TestTombstone(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", Retention: "1s", Tombstone: "1h"})
	b.send(charge("k", "x")).expect(t, 201, "")
	b.keeper.ahead.Store(2_000)
	b.send(charge("k", "x")).expect(t, 409, onced.CodeKeyExpired)
	b.expectRuns(1)
}

// A Keeper that does not take the answer's body still learns that it happened.
func TestAnAnswerTheKeeperDoesNotTake(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	var calls atomic.Int32
	b.keeper.hook(&b.keeper.complete, func() error {
		if calls.Add(1) == 1 {
			return onced.Problemf(onced.CodeResponseTooLarge, "too large for this node")
		}
		return nil
	})
	first := b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
	if first.body != `{"charge":7}` {
		t.Fatalf("the first answer is\n%v", first)
	}
	b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept).replayed(t, "true")
	b.expectRuns(1)
}

// A Complete that was recorded, but is told otherwise, is not taken for refused: the
// reply may be lost, and a later try of it may come when the holder is no more.
func TestALostReplyOfComplete(t *testing.T) {
	for _, second := range []onced.Code{onced.CodeUnavailable, onced.CodeStaleToken} {
		up := newUpstream(t, answers(created))
		k := &lostReply{hooked: newHooked(), told: second}
		b := newBench(t, up, Deps{Keeper: k}, Route{Match: "POST /charge"})
		first := b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
		again := b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
		if first.header.Get("Idempotency-Expires") != again.header.Get("Idempotency-Expires") {
			t.Fatalf("two ends of retention:\n%v\n%v", first, again)
		}
		b.expectRuns(1)
	}
}

// lostReply records a Complete and tells its first caller something else.
type lostReply struct {
	*hooked
	told  onced.Code
	calls atomic.Int32
}

func (k *lostReply) Complete(ctx context.Context, r onced.CompleteRequest) (onced.Record, error) {
	rec, err := k.hooked.Complete(ctx, r)
	if k.calls.Add(1) == 1 {
		return onced.Record{}, onced.Problemf(k.told, "scripted")
	}
	return rec, err
}
