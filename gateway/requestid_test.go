package gateway

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"onced"
)

func TestRequestIDs(t *testing.T) {
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		if r.Header.Get("Idempotency-Key") == "own" {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Request-Id: theirs\r\nContent-Length: 0\r\n\r\n")
			return true
		}
		io.WriteString(c, created)
		return true // a kept-alive connection that is closed is a 502 on an unprotected route
	})
	log := &lines{}
	b := newBench(t, up, Deps{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, Route{Match: "POST /charge"})
	for _, path := range []string{"/charge", "/unprotected"} {
		said := b.send(post(path, "k", "x", "X-Request-Id: mine-1")).expect(t, 201, "")
		if got := said.header["X-Request-Id"]; len(got) != 0 || !strings.Contains(up.sent(up.runs()), "X-Request-Id: mine-1\r\n") {
			t.Fatalf("%s: the answer has the id %q, the upstream got\n%s", path, got, up.sent(up.runs()))
		}
		b.send(post(path, "k2", "x")).expect(t, 201, "")
		if !madeName.MatchString(up.sent(up.runs())) {
			t.Fatalf("%s: the upstream got no id:\n%s", path, up.sent(up.runs()))
		}
		// What is no sane id goes on as it is, and is not taken for one here.
		b.send(post(path, "k3", "x", "X-Request-Id: a b", "X-Request-Id: c")).expect(t, 201, "")
		if !strings.Contains(up.sent(up.runs()), "X-Request-Id: a b\r\nX-Request-Id: c\r\n") {
			t.Fatalf("%s: the upstream got\n%s", path, up.sent(up.runs()))
		}
		// The upstream's own stays.
		if got := b.send(post(path, "own", "x", "X-Request-Id: mine")).header["X-Request-Id"]; len(got) != 1 || got[0] != "theirs" {
			t.Fatalf("%s: the id is %q", path, got)
		}
	}
	b.send(charge("k", "x", "X-Request-Id: mine-2")).expect(t, 201, "").replayed(t, "true")
	refused := b.send(charge("k", "y", "X-Request-Id: mine-3")).expect(t, 409, onced.CodeConflict)
	if got := refused.header["X-Request-Id"]; len(got) != 1 || got[0] != "mine-3" {
		t.Fatalf("the refusal's id is %q", got)
	}
	up.ln.Close()
	b.send(charge("k9", "x", "X-Request-Id: mine-9")).expect(t, 503, onced.CodeUnavailable)
	for _, want := range []string{`"gateway: request" request_id=mine-3 route="POST /charge" outcome=conflict`, `nothing was sent" request_id=mine-9`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no line with %s in\n%s", want, log)
		}
	}
}

// What the gateway itself says in the place of an answer has the id too: it is what a client quotes who asks what became of
// its operation. A replay is the first answer again and has none.
func TestOwnAnswersHaveTheRequestID(t *testing.T) {
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		if r.Header.Get("Idempotency-Key") != "cut" {
			io.WriteString(c, created)
		}
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"}, Route{Match: "POST /few", Store: []string{"204"}})
	has := func(a reply, want ...string) {
		t.Helper()
		if got := a.header["X-Request-Id"]; !slices.Equal(got, want) {
			t.Errorf("the answer %d has the ids %q: expected %q", a.status, got, want)
		}
	}
	has(b.send(charge("cut", "x", "X-Request-Id: mine-1")).expect(t, 504, onced.CodeOutcomeUnknown), "mine-1")
	has(b.send(charge("cut", "x", "X-Request-Id: mine-2")).expect(t, 409, onced.CodeOutcomeUnknown), "mine-2")
	has(b.send(post("/few", "k", "x", "X-Request-Id: mine-3")).expect(t, 201, ""))
	has(b.send(post("/few", "k", "x", "X-Request-Id: mine-4")).expect(t, 409, onced.CodeResponseNotKept), "mine-4")
	has(b.send(charge("k2", "x", "X-Request-Id: mine-5")).expect(t, 201, ""))
	has(b.send(charge("k2", "x", "X-Request-Id: mine-6")).expect(t, 201, "").replayed(t, "true"))
}
