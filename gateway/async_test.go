package gateway

import (
	"bufio"
	"context"
	"encoding/json"
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

func TestPreferences(t *testing.T) {
	for _, tc := range []struct {
		lines []string
		want  preference
		left  string // what the upstream still gets
	}{
		{nil, preference{}, ""},
		{[]string{"respond-async"}, preference{async: true}, ""},
		{[]string{"Respond-Async"}, preference{async: true}, ""},
		{[]string{"respond-async, wait=10"}, preference{async: true, wait: 10 * time.Second}, ""},
		{[]string{"wait=10", "return=minimal , respond-async"}, preference{async: true, wait: 10 * time.Second}, "return=minimal"},
		{[]string{"wait=10"}, preference{}, ""},
		{[]string{"respond-async; a=b, wait = \"5\""}, preference{async: true, wait: 5 * time.Second}, ""},
		{[]string{"respond-async, wait=5, wait=7"}, preference{async: true, wait: 5 * time.Second}, ""},
		{[]string{"respond-async, wait=99999"}, preference{async: true, wait: onced.MaxWait}, ""},
		{[]string{"respond-async, wait=-1"}, preference{async: true}, ""},
		{[]string{"respond-async, wait=soon"}, preference{async: true}, ""},
		{[]string{`note="a, respond-async"`}, preference{}, `note="a, respond-async"`},
		{[]string{`note="a\", b", respond-async`}, preference{async: true}, `note="a\", b"`},
		{[]string{`note="open, respond-async`}, preference{}, `note="open, respond-async`},
		{[]string{"respond-asynchronously"}, preference{}, "respond-asynchronously"},
	} {
		h := http.Header{"Prefer": tc.lines, "X": {"y"}}
		if got := preferenceOf(h); got != tc.want {
			t.Errorf("%q: %+v, expected %+v", tc.lines, got, tc.want)
		}
		out := withoutPreference(h)
		if got := strings.Join(out["Prefer"], "|"); got != tc.left || out.Get("X") != "y" || len(h["Prefer"]) != len(tc.lines) {
			t.Errorf("%q: %q is left, expected %q", tc.lines, got, tc.left)
		}
	}
}

// fetch asks a gateway for the operation at a location, as an account.
func (b *bench) fetch(location, account string) reply {
	b.t.Helper()
	who := ""
	if account != "" {
		who = "X-Account: " + account + "\r\n"
	}
	return b.send("GET " + location + " HTTP/1.1\r\nHost: h\r\n" + who + "\r\n")
}

// accepted fails the test unless the answer is a 202, and returns its Location.
func (r reply) accepted(t *testing.T) string {
	t.Helper()
	r.expect(t, 202, "")
	if r.header.Get("Retry-After") != "1" || r.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(r.header.Get("Preference-Applied"), "respond-async") {
		t.Fatalf("got\n%v", r)
	}
	return r.header.Get("Location")
}

// gated is a script that tells of each request and answers it, with what is next, when it is let go. The end
// of the test lets go of all.
type gated struct {
	began chan *http.Request
	next  chan string
	over  <-chan struct{}
}

func newGated(t *testing.T) *gated {
	return &gated{make(chan *http.Request, 20), make(chan string, 20), t.Context().Done()}
}

func (g *gated) script(_ int, r *http.Request, c net.Conn) bool {
	g.began <- r
	select {
	case answer := <-g.next:
		io.WriteString(c, answer)
	case <-g.over:
	}
	return false
}

const async = "Prefer: respond-async"

// An operation goes on after its 202, and every gateway on the table has its record and then its answer, for
// the same account only.
func TestRespondAsync(t *testing.T) {
	gate := newGated(t)
	up := newUpstream(t, gate.script)
	k := newHooked()
	events := make(chan Event, 20)
	b := newBench(t, up, Deps{Keeper: k, Observe: func(e Event) { events <- e }}, Route{Match: "POST /charge"})
	other := newBench(t, up, Deps{Keeper: k}, Route{Match: "POST /charge"})
	first := b.send(charge(`"k/1 %"`, "x", async+", return=minimal")).replayed(t, "false")
	location := first.accepted(t)
	if location != "/.onced/operations/k%2F1%20%25" || first.header.Get("Preference-Applied") != "respond-async" {
		t.Fatalf("got\n%v", first)
	}
	if r := <-gate.began; r.Header.Get("Prefer") != "return=minimal" {
		t.Fatalf("the upstream was asked with Prefer %q", r.Header["Prefer"])
	}
	if again := b.send(charge(`"k/1 %"`, "x", async)); again.accepted(t) != location {
		t.Fatalf("a duplicate is told\n%v", again)
	}
	b.send(charge(`"k/1 %"`, "x")).expect(t, 409, onced.CodeRequestInProgress)
	for _, at := range []*bench{b, other} {
		running := at.fetch(location, "acme").expect(t, 202, "")
		var rec struct{ Key, State, Tenant string }
		if err := json.Unmarshal([]byte(running.body), &rec); err != nil || rec.Key != "k/1 %" || rec.State != "in_progress" || rec.Tenant != "acme" || running.header.Get("Retry-After") == "" {
			t.Fatalf("%v in\n%v", err, running)
		}
		at.fetch(location, "").expect(t, 401, onced.CodeUnauthenticated)
		at.fetch(location, "other").expect(t, 404, onced.CodeKeyNotFound)
		at.fetch("/.onced/operations/unused", "acme").expect(t, 404, onced.CodeKeyNotFound)
	}
	waiting := other.dial("GET " + location + "?wait=20s HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\n\r\n")
	gate.next <- created
	r := other.read(waiting).expect(t, 201, "").replayed(t, "true")
	if r.body != `{"charge":7}` || r.header.Get("Location") != "/charges/7" || len(r.header["Link"]) != 2 || r.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the answer is\n%v", r)
	}
	if again := b.send(charge(`"k/1 %"`, "x", async)).expect(t, 201, "").replayed(t, "true"); again.body != r.body {
		t.Fatalf("the duplicate is told\n%v", again)
	}
	b.expectRuns(1)
	seen := map[Outcome]int{}
	for range 9 {
		e := <-events
		seen[e.Outcome]++
	}
	// 202 and its end; a duplicate with and one without the preference, and a look; 401 and two times 404; a replay
	if seen[Accepted] != 1 || seen[Executed] != 1 || seen[InProgress] != 3 || seen[Refused] != 3 || seen[Replayed] != 1 {
		t.Fatalf("the events are %v", seen)
	}
}

// With a scope of its own, the location names it.
func TestRespondAsyncInAScope(t *testing.T) {
	gate := newGated(t)
	b := newBench(t, newUpstream(t, gate.script), Deps{}, Route{Match: "POST /pay/{id}", Scope: "route"})
	location := b.send(post("/pay/4%202", "k", "x", async)).accepted(t)
	if location != "/.onced/operations/k?scope=POST+%2Fpay%2F4%252"+"02" {
		t.Fatalf("the location is %q", location)
	}
	b.fetch(location, "acme").expect(t, 202, "")
	b.fetch("/.onced/operations/k", "acme").expect(t, 404, onced.CodeKeyNotFound)
	gate.next <- created
	b.fetch(location+"&wait=20s", "acme").expect(t, 201, "").replayed(t, "true")
}

// An answer that freed the key is found too, the newest one, on any gateway; and the key is free.
func TestRespondAsyncThatFreesItsKey(t *testing.T) {
	gate := newGated(t)
	up := newUpstream(t, gate.script)
	k := newHooked()
	b := newBench(t, up, Deps{Keeper: k}, Route{Match: "POST /charge"})
	other := newBench(t, up, Deps{Keeper: k}, Route{Match: "POST /charge"})
	for n := range 12 {
		location := b.send(charge("k", "x", async)).accepted(t)
		<-gate.began
		other.fetch(location, "acme").expect(t, 202, "")
		body := fmt.Sprintf("no %d", n)
		gate.next <- fmt.Sprintf("HTTP/1.1 429 Slow Down\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		r := other.fetch(location+"?wait=20s", "acme").expect(t, 429, "").replayed(t, "true")
		if r.body != body || r.header.Get("Retry-After") != "7" {
			t.Fatalf("got\n%v", r)
		}
		other.fetch(location, "other").expect(t, 404, onced.CodeKeyNotFound)
	}
	if rec := b.record("k"); rec.State != onced.StateAbsent {
		t.Fatalf("the record is %+v", rec)
	}
	location := b.send(charge("k", "x", async)).accepted(t)
	<-gate.began
	gate.next <- created
	other.fetch(location+"?wait=20s", "acme").expect(t, 201, "")
	b.expectRuns(13)
	k.ahead.Store((25 * time.Hour).Milliseconds())
	other.fetch(location, "acme").expect(t, 404, onced.CodeKeyNotFound)
}

// What nothing was sent of is told the same way.
func TestRespondAsyncWithoutAnUpstream(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }
	b := newBench(t, newUpstream(t, answers(created)), Deps{Dial: dial}, Route{Match: "POST /charge"})
	location := b.send(charge("k", "x", async)).accepted(t)
	r := b.fetch(location+"?wait=20s", "acme").expect(t, 503, onced.CodeUnavailable).replayed(t, "true")
	if !strings.Contains(r.body, "nothing was started") || r.header.Get("Retry-After") != "1" {
		t.Fatalf("got\n%v", r)
	}
}

// The answer is kept before its key is free: whoever finds no record finds the answer.
func TestAFreedAnswerIsThereBeforeItsKeyIsFree(t *testing.T) {
	b := newBench(t, newUpstream(t, answers("HTTP/1.1 429 No\r\nContent-Length: 2\r\n\r\nno")), Deps{}, Route{Match: "POST /charge"})
	freeing, free := make(chan struct{}), make(chan struct{})
	b.keeper.hook(&b.keeper.release, func() error { close(freeing); <-free; return nil })
	location := b.send(charge("k", "x", async)).accepted(t)
	<-freeing
	if rec, err := (&operation{g: b.g, id: onced.ID{Tenant: "acme", Key: "k"}}).freedAnswer(t.Context()); err != nil || rec.Response.Status != 429 {
		t.Fatalf("%+v, %v", rec, err)
	}
	b.fetch(location, "acme").expect(t, 202, "")
	close(free)
	b.fetch(location+"?wait=20s", "acme").expect(t, 429, "")
}

// What is not known is told as that, under hold and under retry.
func TestRespondAsyncThatIsUnknown(t *testing.T) {
	for _, policy := range []string{"hold", "retry"} {
		t.Run(policy, func(t *testing.T) {
			gate := newGated(t)
			b := newBench(t, newUpstream(t, gate.script), Deps{}, Route{Match: "POST /charge", OnUnknown: policy})
			location := b.send(charge("k", "x", async)).accepted(t)
			<-gate.began
			gave := make(chan struct{})
			b.keeper.hook(&b.keeper.complete, func() error { close(gave); return nil })
			gate.next <- failed
			<-gave
			drained(t, b.g)
			r := b.fetch(location, "acme").expect(t, 409, onced.CodeOutcomeUnknown)
			if r.header.Get("Retry-After") != "5" || !strings.Contains(r.body, `"retry":"same_key"`) {
				t.Fatalf("got\n%v", r)
			}
		})
	}
}

// drained waits until everything is recorded.
func drained(t *testing.T, g *Gateway) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

// With wait, what ends in time is answered as ever.
func TestRespondAsyncWithAWait(t *testing.T) {
	gate := newGated(t)
	b := newBench(t, newUpstream(t, gate.script), Deps{}, Route{Match: "POST /charge", Wait: "60s"})
	gate.next <- created
	b.send(charge("quick", "x", async+", wait=20")).expect(t, 201, "").replayed(t, "false")
	slow := b.send(charge("slow", "x", async+", wait=1"))
	slow.accepted(t)
	if slow.header.Get("Preference-Applied") != "respond-async, wait=1" {
		t.Fatalf("got\n%v", slow)
	}
	b.send(charge("slow", "x", async)).accepted(t) // the route's wait is not for who wants none
	c := b.dial(charge("slow", "x", async+", wait=20"))
	gate.next <- created
	b.read(c).expect(t, 201, "").replayed(t, "true")
	b.expectRuns(2)
}

// An answer that breaks off while its client still waits breaks off there too.
func TestRespondAsyncWithAWaitAndACutAnswer(t *testing.T) {
	b := newBench(t, newUpstream(t, answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n"+strings.Repeat("x", 100000)+"\r\n")), Deps{}, Route{Match: "POST /charge", MaxResponse: "1KiB"})
	if r := b.send(charge("k", "x", async+", wait=20")); r.status != 200 || r.cut == nil {
		t.Fatalf("got\n%v", r)
	}
	b.send(charge("k", "x", async)).expect(t, 409, onced.CodeOutcomeUnknown)
	location := b.send(charge("l", "x", async)).accepted(t)
	b.fetch(location+"?wait=20s", "acme").expect(t, 409, onced.CodeOutcomeUnknown)
}

// With too many under way, a client waits as if it had not asked: the preference is only one.
func TestTooManyAsync(t *testing.T) {
	gate := newGated(t)
	b := newBench(t, newUpstream(t, gate.script), Deps{MaxAsync: 1}, Route{Match: "POST /charge"})
	b.send(charge("one", "x", async)).accepted(t)
	<-gate.began
	c := b.dial(charge("two", "x", async))
	if r := <-gate.began; r.Header.Get("Prefer") != "respond-async" {
		t.Fatal("what is not applied is the upstream's")
	}
	gate.next <- created
	gate.next <- created
	b.read(c).expect(t, 201, "").replayed(t, "false")
}

// A shutdown waits for what was accepted, and not for who waits for it.
func TestAShutdownWaitsForWhatWasAccepted(t *testing.T) {
	gate := newGated(t)
	b := newBench(t, newUpstream(t, gate.script), Deps{}, Route{Match: "POST /charge"})
	location := b.send(charge("k", "x", async)).accepted(t)
	<-gate.began
	b.watch = make(chan context.Context, 1)
	waiting := b.dial("GET " + location + "?wait=60s HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\n\r\n")
	<-b.watch
	stopped := make(chan error, 1)
	go func() { stopped <- b.server.Shutdown(context.Background()) }()
	b.read(waiting).expect(t, 202, "")
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- b.g.Drain(context.Background()) }()
	select {
	case err := <-end:
		t.Fatalf("drained with an operation under way: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	gate.next <- created
	if err := <-end; err != nil {
		t.Fatal(err)
	}
	if rec := b.record("k"); rec.State != onced.StateCompleted || rec.Response.Status != 201 {
		t.Fatalf("the record is %+v", rec)
	}
}

// An operation without a client left that panics ends itself only.
func TestAPanicInTheBackground(t *testing.T) {
	b := newBench(t, newUpstream(t, answers(created)), Deps{}, Route{Match: "POST /charge"})
	b.keeper.hook(&b.keeper.complete, nil)
	o := &operation{g: b.g, log: b.g.log}
	if got := o.caught("odd"); got != http.ErrAbortHandler {
		t.Fatalf("got %v", got)
	}
	if got := o.caught(nil); got != nil {
		t.Fatalf("got %v", got)
	}
}

// What is below /.onced/ is the gateway's, in any spelling and for any method.
func TestOwnPathsAreNeverForwarded(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /*"}, Route{Match: "DELETE /{a}/*", Key: "off"})
	for _, tc := range []struct {
		line   string
		status int
	}{
		{"GET /.onced", 404}, {"GET /.onced/", 404}, {"GET /.onced/other", 404}, {"GET /.onced/operations", 404}, {"GET /.onced/operations/", 404},
		{"GET /.onced/operations/a/b", 404}, {"GET /.ONCED/operations/k", 404}, {"GET /%2eonced/operations/k", 404}, {"GET /.onced/Operations/k", 404},
		{"POST /.onced/operations/k", 405}, {"DELETE /.onced/operations/k", 405}, {"OPTIONS /.onced/operations/k", 405}, {"POST /.onced/x", 404},
		{"GET //.onced/operations/k", 400}, {"GET /x/../.onced/operations/k", 400}, {"GET /.%6fnced;a/operations/k", 400}, {"DELETE /./.onced/x", 400}, {`GET /\.onced/x`, 400},
		{"GET /.onced/operations/k?stale=true", 400}, {"GET /.onced/operations/k?wait=61s", 400}, {"GET /.onced/operations/k?wait=1", 400},
		{"GET /.onced/operations/k?wait=-1s", 400}, {"GET /.onced/operations/k?wait=", 400}, {"GET /.onced/operations/k?scope=a&scope=b", 400}, {"GET /.onced/operations/k?scope=%ff", 400},
		{"GET /.onced/operations/k?scope=onced:gateway", 404}, {"GET /.onced/operations/%01", 400}, {"GET /.onced/operations/" + strings.Repeat("k", 256), 400},
		{"HEAD /.onced/operations/k", 404}, {"GET /.onced/operations/k", 404},
	} {
		r := b.send(tc.line + " HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nConnection: close\r\n\r\n")
		if r.status != tc.status || tc.line[:4] != "HEAD" && r.header.Get("Content-Type") != "application/problem+json" || tc.status == 405 && r.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: got\n%v\nexpected %d", tc.line, r, tc.status)
		}
	}
	b.expectRuns(0)
	b.send("GET /onced/.onced HTTP/1.1\r\nHost: h\r\n\r\n").expect(t, 201, "")
	b.send("GET /.oncedd HTTP/1.1\r\nHost: h\r\n\r\n").expect(t, 201, "")
	b.expectRuns(2)
	for _, match := range []string{"POST /.onced", "POST /.Onced/x", "POST /%2eonced/*"} {
		if err := (Config{Upstream: "http://h", Tenant: "single", Routes: []Route{{Match: match}}}).Validate(); err == nil || !strings.Contains(err.Error(), "match") {
			t.Errorf("%s: got %v", match, err)
		}
	}
}

// Without a decision there is no answer, and no guess.
func TestNoDecisionOnAnOperation(t *testing.T) {
	b := newBench(t, newUpstream(t, answers(created)), Deps{}, Route{Match: "POST /charge"})
	b.keeper.SetDown("no majority")
	b.fetch("/.onced/operations/k", "acme").expect(t, 503, onced.CodeUnavailable)
}

// A record past its retention is told as that while there is a tombstone.
func TestAnExpiredOperation(t *testing.T) {
	b := newBench(t, newUpstream(t, answers(created)), Deps{}, Route{Match: "POST /charge", Retention: "1s", Tombstone: "1h", KeepHeaders: []string{"Date"}})
	location := b.send(charge("k", "x", async)).accepted(t)
	b.fetch(location+"?wait=20s", "acme").expect(t, 201, "")
	b.keeper.ahead.Store(2_000)
	b.fetch(location, "acme").expect(t, 409, onced.CodeKeyExpired)
}

// An operation that was answered with 202 leaves its client's connection alone, which other requests use by then.
func TestWhatWasAcceptedLeavesTheConnectionAlone(t *testing.T) {
	events, answered := make(chan Event, 10), make(chan struct{})
	b := newBench(t, newUpstream(t, answers(created)), Deps{
		Observe: func(e Event) { events <- e },
		Dial: func(context.Context, string, string) (net.Conn, error) {
			<-answered
			return nil, errors.New("refused")
		},
	}, Route{Match: "POST /charge"})
	client := &deadlines{}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(charge("k", "x", async))))
	if err != nil {
		t.Fatal(err)
	}
	b.g.ServeHTTP(client, r)
	client.over.Store(true)
	close(answered)
	for _, want := range []Outcome{Accepted, Refused} {
		if e := <-events; e.Outcome != want {
			t.Fatalf("the outcome is %s, expected %s", e.Outcome, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := b.g.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if n := client.late.Load(); n > 0 {
		t.Fatalf("%d times something was done to a connection that is another request's", n)
	}
}

// deadlines is a ResponseWriter that counts what is done to it once its handler has returned.
type deadlines struct {
	header http.Header
	over   atomic.Bool
	late   atomic.Int64
}

func (d *deadlines) note() {
	if d.over.Load() {
		d.late.Add(1)
	}
}

func (d *deadlines) Header() http.Header {
	d.note()
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}

func (d *deadlines) Write(b []byte) (int, error)      { d.note(); return len(b), nil }
func (d *deadlines) WriteHeader(int)                  { d.note() }
func (d *deadlines) SetReadDeadline(time.Time) error  { d.note(); return nil }
func (d *deadlines) SetWriteDeadline(time.Time) error { d.note(); return nil }

// What is asked about an operation is answered in the words of its contract. Where they differ between routes, the
// location says which.
func TestOperationsSpeakTheirContract(t *testing.T) {
	for _, tc := range []struct {
		name, path, query string
		routes            []Route
	}{
		{"one contract for all", "/charge", "", []Route{{Match: "POST /charge", Contract: "realtime"}, {Match: "POST /pay", Contract: "realtime"}, {Match: "POST /off", Key: keyOff}}},
		{"named by the location", "/charge", "?contract=realtime", []Route{{Match: "POST /charge", Contract: "realtime"}, {Match: "POST /pay"}}},
		{"told by the scope", "/charge/7", "?scope=POST+%2Fcharge%2F7", []Route{{Match: "POST /charge/{id}", Scope: "route", Contract: "realtime"}, {Match: "POST /pay"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gate := newGated(t)
			b := newBench(t, newUpstream(t, gate.script), Deps{}, tc.routes...)
			location := b.send(post(tc.path, "k", "x", async)).accepted(t)
			if location != "/.onced/operations/k"+tc.query {
				t.Fatalf("the location is %s", location)
			}
			<-gate.began
			gate.next <- created
			more := "?"
			if tc.query != "" {
				more = "&"
			}
			if r := b.fetch(location+more+"wait=20s", "acme").expect(t, 201, "").replayed(t, "true"); r.body != `{"replayed":true,"charge":7}` {
				t.Fatalf("the answer is\n%v", r)
			}
			b.fetch(location+more+"contract=none", "acme").expect(t, 400, onced.CodeInvalidRequest)
		})
	}
	gate := newGated(t)
	b := newBench(t, newUpstream(t, gate.script), Deps{}, Route{Match: "POST /charge", Contract: "stripe"}, Route{Match: "POST /pay"})
	location := b.send(charge("k", "x", async)).accepted(t)
	<-gate.began
	gate.next <- created
	if r := b.fetch(location+"&wait=20s", "acme").expect(t, 201, ""); r.header.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("the answer is\n%v", r)
	}
	if r := b.fetch("/.onced/operations/none?contract=stripe", "acme").expect(t, 404, ""); !strings.Contains(r.body, `"error"`) {
		t.Fatalf("the refusal is\n%v", r)
	}
	b.send(post("/pay", "other", "x", async))
	<-gate.began
	gate.next <- created
	if r := b.fetch("/.onced/operations/other?wait=20s", "acme").expect(t, 201, "").replayed(t, "true"); r.body != `{"charge":7}` {
		t.Fatalf("the answer is\n%v", r)
	}
}
