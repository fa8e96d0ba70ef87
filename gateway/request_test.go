package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"onced"
)

func TestKeys(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"}, Route{Match: "POST /strict", KeyPattern: "[0-9a-f]{4}|x"})
	request := func(path string, lines ...string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\n" + strings.Join(append(lines, "Content-Length: 0"), "\r\n") + "\r\n\r\n"
	}
	for _, lines := range [][]string{
		{"Idempotency-Key: a", "Idempotency-Key: a"}, {"Idempotency-Key: a", "idempotency-key: b"}, {"Idempotency-Key: a, b"},
		{`Idempotency-Key: "abc`}, {`Idempotency-Key: "a\b"`}, {`Idempotency-Key: "a";p=1`}, {"Idempotency-Key:"},
		{"Idempotency-Key: " + strings.Repeat("x", 192)}, {"Idempotency-Key: a b"},
	} {
		b.send(request("/charge", lines...)).expect(t, 400, onced.CodeKeyInvalid)
	}
	b.send(request("/charge")).expect(t, 400, onced.CodeKeyRequired)
	b.send(request("/charge", "Idempotency_Key: a")).expect(t, 400, onced.CodeKeyRequired)
	for _, key := range []string{"abcde", "xx", "ABCD", "abcd\tx"} {
		b.send(request("/strict", "Idempotency-Key: "+key)).expect(t, 400, onced.CodeKeyInvalid)
	}
	b.expectRuns(0)
	b.send(request("/charge", `idempotency-KEY: "abc"`)).expect(t, 201, "").replayed(t, "false")
	b.send(request("/charge", "Idempotency-Key: abc")).expect(t, 201, "").replayed(t, "true")
	b.send(request("/charge", "Idempotency-Key: Abc")).expect(t, 201, "").replayed(t, "false")
	b.send(request("/charge", "Idempotency-Key: "+strings.Repeat("x", 191))).expect(t, 201, "")
	b.send(request("/strict", "Idempotency-Key: beef")).expect(t, 201, "")
	b.send(request("/charge", `Idempotency-Key: "a\"b"`)).expect(t, 201, "").replayed(t, "false")
	b.send(request("/charge", `Idempotency-Key: a"b`)).expect(t, 201, "").replayed(t, "true")
	b.expectRuns(5)
	for i, forged := range []string{"X_Account: evil", "x_account: evil\r\nX-account_: x"} {
		b.send(request("/charge", fmt.Sprintf("Idempotency-Key: forged-%d", i), forged)).expect(t, 201, "")
		if got := up.request(up.runs()); strings.Contains(got, "evil") || !strings.Contains(got, "X-Account: acme\r\n") {
			t.Errorf("the upstream may take it for another account's: %q", got)
		}
	}
}

func TestAccounts(t *testing.T) {
	up := newUpstream(t, answers(created))
	request := func(lines ...string) string {
		return "POST /charge HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\n" + strings.Join(append(lines, "Content-Length: 0"), "\r\n") + "\r\n\r\n"
	}
	routes := []Route{{Match: "POST /charge"}}
	b := newBenchOf(t, up, Config{Tenant: "header:X-Account", Routes: routes}, Deps{})
	for _, lines := range [][]string{nil, {"X-Account:"}, {"X-Account: a", "X-Account: a"}, {"X-Account: a b"}, {"X-Account: a,b"}, {"X-Account: " + strings.Repeat("a", 129)}} {
		b.send(request(lines...)).expect(t, 401, onced.CodeUnauthenticated)
	}
	b.expectRuns(0)
	b.send(request("X-Account: one")).expect(t, 201, "").replayed(t, "false")
	b.send(request("X-Account: two")).expect(t, 201, "").replayed(t, "false")
	b.expectRuns(2)

	b = newBenchOf(t, up, Config{Tenant: "authorization", Routes: routes}, Deps{})
	b.send(request()).expect(t, 401, onced.CodeUnauthenticated)
	b.send(request("Authorization: Bearer a", "Authorization: Bearer a")).expect(t, 401, onced.CodeUnauthenticated)
	b.send(request("Authorization: Bearer a")).expect(t, 201, "").replayed(t, "false")
	b.send(request("Authorization: Bearer a")).expect(t, 201, "").replayed(t, "true")
	b.send(request("Authorization: bearer  a")).expect(t, 201, "").replayed(t, "true")
	b.send(request("Authorization: Bearer b")).expect(t, 201, "").replayed(t, "false")
	b.expectRuns(4)
	if !strings.Contains(up.request(4), "\r\nAuthorization: Bearer b\r\n") {
		t.Fatalf("the credential was not passed on:\n%s", up.request(4))
	}

	b = newBenchOf(t, up, Config{Tenant: "single", Routes: routes}, Deps{})
	b.send(request()).expect(t, 201, "").replayed(t, "false")
	b.send(request("X-Account: x")).expect(t, 201, "").replayed(t, "true")
}

func TestScopeOfARoute(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /pay/{id}", Scope: "route"}, Route{Match: "/refund/*"})
	b.send(post("/pay/1", "k", "x")).expect(t, 201, "").replayed(t, "false")
	b.send(post("/pay/2", "k", "x")).expect(t, 201, "").replayed(t, "false")
	b.send(post("/pay/1", "k", "x")).expect(t, 201, "").replayed(t, "true")
	b.send(post("/PAY/1/", "k", "x")).expect(t, 409, onced.CodeConflict) // same scope, another path
	b.send(post("/refund/1", "k", "x")).expect(t, 201, "").replayed(t, "false")
	b.send(post("/refund/2", "k", "x")).expect(t, 409, onced.CodeConflict)
	rec, err := b.keeper.Keeper.Get(t.Context(), onced.GetRequest{ID: onced.ID{Tenant: "acme", Scope: "POST /pay/1", Key: "k"}})
	if err != nil || rec.State != onced.StateCompleted {
		t.Fatalf("%+v, %v", rec, err)
	}
}

func TestTooLargeRequestsReserveNothing(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", MaxRequest: "1KiB"})
	large := strings.Repeat("x", 1025)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write([]byte(large))
	z.Close()
	b.send(charge("k", large)).expect(t, 413, onced.CodeRequestTooLarge)
	b.send("POST /charge HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n"+
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(large), large)).expect(t, 413, onced.CodeRequestTooLarge)
	b.send(charge("k", bomb.String(), "Content-Encoding: gzip")).expect(t, 413, onced.CodeRequestTooLarge)
	// One that says its length is not even asked for its body.
	asking := b.dial("POST /charge HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nExpect: 100-continue\r\nContent-Length: 1025\r\n\r\n")
	if line, _ := bufio.NewReader(asking).ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 413 ") {
		t.Fatalf("got %q", line)
	}
	if rec := b.record("k"); rec.State != onced.StateAbsent {
		t.Fatalf("the record is %+v", rec)
	}
	b.expectRuns(0)
	b.send(charge("k", large[:1024])).expect(t, 201, "")
}

func TestAClientThatBreaksOffReservesNothing(t *testing.T) {
	up := newUpstream(t, answers(created))
	events := make(chan Event, 10)
	b := newBench(t, up, Deps{Observe: func(e Event) { events <- e }}, Route{Match: "POST /charge"})
	for _, request := range []string{
		"POST /charge HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nContent-Length: 9\r\n\r\nshort",
		"POST /charge HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nshort",
	} {
		b.dial(request).Close()
		if e := <-events; e.Outcome != Refused {
			t.Fatalf("the event is %+v", e)
		}
	}
	b.expectRuns(0)
	if rec := b.record("k"); rec.State != onced.StateAbsent {
		t.Fatalf("the record is %+v", rec)
	}
}

// Two compressions of one body are one body; the bytes are passed on as sent.
func TestEncodedRequests(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	pack := func(level int, text string) string {
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, level)
		z.Write([]byte(text))
		z.Close()
		return out.String()
	}
	b.send(charge("k", pack(1, `{"a":1}`), "Content-Encoding: gzip", "Content-Type: application/json")).expect(t, 201, "").replayed(t, "false")
	if !strings.HasSuffix(up.request(1), pack(1, `{"a":1}`)) {
		t.Fatal("the body was changed on its way")
	}
	b.send(charge("k", pack(0, `{ "a":1}`), "Content-Encoding: gzip", "Content-Type: application/json")).expect(t, 201, "").replayed(t, "true")
	b.send(charge("k", pack(1, `{"a":2}`), "Content-Encoding: gzip", "Content-Type: application/json")).expect(t, 409, onced.CodeConflict)
	b.send(charge("k", "no gzip", "Content-Encoding: gzip", "Content-Type: application/json")).expect(t, 409, onced.CodeConflict)
}

func TestAChunkedRequestIsForwardedWithItsLength(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	b.send("POST /charge HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n").expect(t, 201, "")
	got := up.request(1)
	if !strings.Contains(got, "\r\nContent-Length: 3\r\n") || strings.Contains(got, "X-T") || strings.Contains(got, "chunked") || !strings.HasSuffix(got, "\r\n\r\nabc") {
		t.Fatalf("forwarded was\n%s", got)
	}
	b.send(charge("k", "abc")).expect(t, 201, "").replayed(t, "true")
}

// F60, F63: the query counts; a route may leave the body out.
func TestFingerprintOptions(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"},
		Route{Match: "POST /none", Fingerprint: Fingerprint{Body: "none"}},
		Route{Match: "POST /some", Fingerprint: Fingerprint{Headers: []string{"x-mode"}, IgnoreFields: []string{"/sent_at"}}})
	b.send(post("/charge?a=1&b=2", "q", "x")).expect(t, 201, "").replayed(t, "false")
	b.send(post("/charge?b=2&a=1", "q", "x")).expect(t, 201, "").replayed(t, "true")
	b.send(post("/charge", "q", "x")).expect(t, 409, onced.CodeConflict)
	b.send(post("/none", "n", "x")).expect(t, 201, "").replayed(t, "false")
	b.send(post("/none", "n", "y")).expect(t, 201, "").replayed(t, "true")
	json := "Content-Type: application/json"
	b.send(post("/some", "s", `{"a":1,"sent_at":1}`, json, "X-Mode: a")).expect(t, 201, "").replayed(t, "false")
	b.send(post("/some", "s", `{"sent_at":2,"a":1}`, json, "X-Mode: a")).expect(t, 201, "").replayed(t, "true")
	b.send(post("/some", "s", `{"sent_at":2,"a":1}`, json, "X-Mode: b")).expect(t, 409, onced.CodeConflict)
	if fp := b.record("s").Fingerprint; !strings.HasPrefix(fp, "f1:") || len(fp) != 46 {
		t.Fatalf("the fingerprint is %q", fp)
	}
}
