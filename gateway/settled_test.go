package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"onced"
)

// What an operator found out of an unknown operation is what its repeats get. (F8)
func TestAnOperatorsAnswerIsReplayed(t *testing.T) {
	up := newUpstream(t, func(n int, _ *http.Request, c net.Conn) bool {
		if n > 2 {
			io.WriteString(c, created)
		}
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	resolve := func(key string, answer *onced.Response) {
		t.Helper()
		b.send(charge(key, "x")).expect(t, 504, onced.CodeOutcomeUnknown)
		request := onced.ResolveRequest{ID: onced.ID{Tenant: "acme", Key: onced.Key(key)}, Response: answer, Reason: "looked into the ledger"}
		if _, err := b.keeper.Resolve(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	resolve("done", &onced.Response{Status: 201, Body: []byte("from the ledger"), Headers: []onced.Header{
		{Name: "location", Value: "/charges/9"}, {Name: "Set-Cookie", Value: "a=1"}, {Name: "Connection", Value: "X-Hop"}, {Name: "X-Hop", Value: "1"},
		{Name: "Content-Length", Value: "3"}, {Name: "Transfer-Encoding", Value: "chunked"}, {Name: "Idempotency-Replayed", Value: "false"},
	}})
	resolve("free", nil)
	r := b.send(charge("done", "x")).expect(t, 201, "").replayed(t, "true")
	if r.body != "from the ledger" || r.header.Get("Location") != "/charges/9" || r.header.Get("Set-Cookie") != "" || r.header.Get("X-Hop") != "" {
		t.Fatalf("the replay is\n%v", r)
	}
	b.expectRuns(2)
	b.send(charge("free", "x")).expect(t, 201, "").replayed(t, "false")
	b.send(charge("free", "x")).expect(t, 201, "").replayed(t, "true")
	b.expectRuns(3)
}

// Each account is replayed its own answer, and who names none is told nothing of the key. (F70, F71, F73)
func TestAnswersStayWithTheirAccount(t *testing.T) {
	up := newUpstream(t, func(n int, r *http.Request, c net.Conn) bool {
		body := fmt.Sprintf("run %d of %s", n, r.Header.Get("X-Account"))
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	request := func(lines ...string) string {
		return "POST /charge HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\n" + strings.Join(append(lines, "Content-Length: 0"), "\r\n") + "\r\n\r\n"
	}
	for _, marker := range []string{"false", "true"} {
		for i, account := range []string{"two", "one"} {
			want := fmt.Sprintf("run %d of %s", i+1, account)
			if r := b.send(request("X-Account: "+account)).expect(t, 200, "").replayed(t, marker); r.body != want {
				t.Fatalf("%s is told %q, expected %q", account, r.body, want)
			}
		}
	}
	used := b.send(request()).expect(t, 401, onced.CodeUnauthenticated).replayed(t, "")
	unused := b.send(strings.Replace(request(), "Key: k", "Key: unused", 1)).expect(t, 401, onced.CodeUnauthenticated)
	if used.body != unused.body {
		t.Fatalf("without an account a used key is told apart from an unused one:\n%v\n%v", used, unused)
	}
	b.expectRuns(2)
}

// A route that stores nothing records that it happened, and not a byte of the answer. (F74)
func TestWhatIsNotToBeStoredIsNotHandedOver(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 200 OK\r\nX-Api-Key: secret\r\nContent-Length: 6\r\n\r\nsecret"))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", Store: []string{}})
	if r := b.send(charge("k", "x")).expect(t, 200, "").replayed(t, "false"); r.body != "secret" {
		t.Fatalf("the first answer is\n%v", r)
	}
	rec := b.record("k")
	if rec.State != onced.StateCompleted || rec.Response == nil || !rec.Response.BodyOmitted || len(rec.Response.Body) > 0 || len(rec.Response.Headers) > 0 {
		t.Fatalf("the record is %+v with %+v", rec, rec.Response)
	}
	b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept)
	b.expectRuns(1)
}
