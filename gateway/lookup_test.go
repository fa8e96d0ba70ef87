package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"onced"
)

// ledger is an upstream with a look-up. Its scripts can be changed while it runs.
type ledger struct {
	*upstream
	pay, look atomic.Pointer[func(r *http.Request, c net.Conn)]
}

func newLedger(t *testing.T) *ledger {
	l := &ledger{}
	l.upstream = newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		script := l.pay.Load()
		if r.Method == http.MethodGet {
			script = l.look.Load()
		}
		(*script)(r, c)
		return false
	})
	l.pays("")
	l.looks("HTTP/1.1 500 Unexpected\r\nContent-Length: 0\r\n\r\n")
	return l
}

func says(text string) *func(*http.Request, net.Conn) {
	f := func(_ *http.Request, c net.Conn) { io.WriteString(c, text) }
	return &f
}

// pays has every charge answered with text; "" cuts the connection after the charge.
func (l *ledger) pays(text string)  { l.pay.Store(says(text)) }
func (l *ledger) looks(text string) { l.look.Store(says(text)) }

// charges is how many charges arrived, asked how many look-ups.
func (l *ledger) charges() int { return l.count("POST ") }
func (l *ledger) asked() int   { return l.count("GET ") }

func (l *ledger) count(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, request := range l.seen {
		if strings.HasPrefix(request, method) {
			n++
		}
	}
	return n
}

func (l *ledger) expect(charges, asked int) {
	l.t.Helper()
	if c, a := l.charges(), l.asked(); c != charges || a != asked {
		l.t.Fatalf("%d charges and %d look-ups, expected %d and %d", c, a, charges, asked)
	}
}

var probing = Route{Match: "POST /charge", OnUnknown: "probe", Probe: "GET /charges?key={key}"}

const (
	notThere = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"
	there    = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nOnced-Original-Status: 201\r\nLocation: /charges/7\r\nSet-Cookie: a=1\r\nContent-Length: 12\r\n\r\n{\"charge\":7}"
	failed   = "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops"
)

// What the look-up finds is stored as the answer, with the status that the operation had, and is a replay.
func TestProbeFindsThatItHappened(t *testing.T) {
	l := newLedger(t)
	l.looks(there)
	events := make(chan Event, 10)
	route := probing
	route.RetentionByStatus = map[string]Duration{"201": "10s"}
	b := newBench(t, l.upstream, Deps{Observe: func(e Event) { events <- e }}, route)
	more := []string{"Authorization: Bearer abc", "Accept: application/json", "Accept-Encoding: gzip", "Content-Type: text/plain", "If-None-Match: *", "Range: bytes=0-1",
		"Prefer: return=minimal", "Connection: X-Private", "X-Private: 1", "Onced-Token: 99"}
	b.send(charge("k 1", "x")).expect(t, 400, onced.CodeKeyInvalid)
	b.send(charge(`"k 1"`, "x", more...)).expect(t, 504, onced.CodeOutcomeUnknown)
	first := b.send(charge(`"k 1"`, "x", more...)).expect(t, 201, "").replayed(t, "true")
	if first.body != `{"charge":7}` || first.header.Get("Location") != "/charges/7" || first.header.Get("Onced-Original-Status") != "" || first.header.Get("Set-Cookie") != "" {
		t.Fatalf("got\n%v", first)
	}
	want := "GET /charges?key=k%201 HTTP/1.1\r\nHost: pay.example\r\nAccept: application/json\r\nAuthorization: Bearer abc\r\nForwarded: for=127.0.0.1;host=pay.example;proto=http\r\nIdempotency-Key: \"k 1\"\r\nOnced-Attempt: 1\r\nOnced-Token: 1\r\n" +
		"X-Account: acme\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: pay.example\r\nX-Forwarded-Proto: http\r\n\r\n"
	if diff := cmp.Diff(want, l.request(2)); diff != "" {
		t.Fatal(diff)
	}
	second := b.send(charge(`"k 1"`, "x", more...)).expect(t, 201, "").replayed(t, "true")
	if second.body != first.body || second.header.Get("Idempotency-Expires") != first.header.Get("Idempotency-Expires") || first.header.Get("Idempotency-Expires") == "" {
		t.Fatalf("the two repeats are told\n%v\n%v", first, second)
	}
	if rec := b.record("k 1"); rec.Retention != 10*time.Second {
		t.Fatalf("the record is %+v", rec)
	}
	l.expect(1, 1)
	for _, want := range []Event{{Outcome: Refused}, {Outcome: Unknown}, {Outcome: Replayed, Sighting: Found}, {Outcome: Replayed}} {
		if e := <-events; e.Outcome != want.Outcome || e.Sighting != want.Sighting {
			t.Fatalf("the event is %+v, expected %+v", e, want)
		}
	}
}

// An attempt that answered, or whose timeout has passed, is over: if nothing is there, the duplicate takes over.
func TestProbeFindsThatItNeverHappened(t *testing.T) {
	for name, first := range map[string]struct {
		says   string
		status int
	}{"answered": {failed, 500}, "timed out": {"", 504}} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			l.pays(first.says)
			if first.says == "" {
				hang := func(_ *http.Request, c net.Conn) { io.Copy(io.Discard, c) }
				l.pay.Store(&hang)
			}
			l.looks(notThere)
			route := probing
			route.Timeout = "300ms"
			b := newBench(t, l.upstream, Deps{}, route)
			b.send(charge("k", "x")).expect(t, first.status, "")
			l.pays(created)
			b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
			l.expect(2, 1)
			if got := l.request(3); !strings.Contains(got, "\r\nOnced-Attempt: 2\r\n") || strings.Contains(got, "Onced-Token: 1\r\n") {
				t.Fatalf("the second attempt was\n%s", got)
			}
			b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
			l.expect(2, 1)
		})
	}
}

// A connection that broke tells nothing of the operation: until its timeout has passed, that nothing is
// there means nothing. The cluster's time says when that is, and not the one after the look-up was asked.
func TestProbeTooEarly(t *testing.T) {
	l := newLedger(t)
	l.looks(notThere)
	events := make(chan Event, 10)
	b := newBench(t, l.upstream, Deps{Observe: func(e Event) { events <- e }}, probing)
	b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
	<-events
	r := b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
	if after, _ := strconv.Atoi(r.header.Get("Retry-After")); after < 15 || after > 31 {
		t.Fatalf("Retry-After is %d, expected when the attempt is over", after)
	}
	if e := <-events; e.Sighting != TooEarly || e.Outcome != Unknown {
		t.Fatalf("the event is %+v", e)
	}
	late := func(_ *http.Request, c net.Conn) {
		b.keeper.ahead.Store(31_500)
		io.WriteString(c, notThere)
	}
	l.look.Store(&late)
	b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
	l.expect(1, 2)
	l.pays(created)
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
	l.expect(2, 3)
}

// A record whose gateway died is looked up as soon as its lease is over; that it is not there counts once the
// timeout has passed since the last sign of life.
func TestProbeOfALapsedRecord(t *testing.T) {
	for _, found := range []bool{true, false} {
		t.Run(fmt.Sprint(found), func(t *testing.T) {
			l := newLedger(t)
			l.looks(notThere)
			route := probing
			route.Timeout = "60s"
			b := newBench(t, l.upstream, Deps{RequestTimeout: time.Second}, route)
			b.keeper.hook(&b.keeper.complete, unavailable)
			b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
			b.send(charge("k", "x")).expect(t, 409, onced.CodeRequestInProgress)
			l.expect(1, 0)
			b.keeper.ahead.Store(31_000)
			b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
			l.expect(1, 1)
			b.keeper.ahead.Store(62_000)
			if !found {
				b.keeper.hook(&b.keeper.complete, nil)
				l.pays(created)
				b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
				l.expect(2, 2)
				return
			}
			l.looks(there)
			b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown) // it cannot be stored
			b.keeper.hook(&b.keeper.complete, nil)
			b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
			l.expect(1, 3)
		})
	}
}

// Whatever is neither a whole 200 nor a whole 404 tells nothing, and the record stays unknown.
func TestProbeThatTellsNothing(t *testing.T) {
	with := func(line string) string { return strings.Replace(there, "Onced-Original-Status: 201", line, 1) }
	l := newLedger(t)
	l.pays(failed)
	route := probing
	route.Timeout, route.MaxResponse = "200ms", "1KiB"
	b := newBench(t, l.upstream, Deps{}, route)
	b.send(charge("k", "x")).expect(t, 500, "")
	asked := 0
	for name, text := range map[string]string{
		"500": failed, "204": "HTTP/1.1 204 No Content\r\n\r\n", "410": "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", "401": "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n",
		"redirect": "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "206": strings.Replace(there, "200 OK", "206 Partial", 1),
		"nothing": "", "no HTTP": "hello", "cut": there[:len(there)-1], "404 cut": notThere[:len(notThere)-1], "cut in the head": there[:30],
		"too large":         "HTTP/1.1 200 OK\r\nContent-Length: 1025\r\n\r\n" + strings.Repeat("x", 1025),
		"404 too large":     "HTTP/1.1 404 No\r\nContent-Length: 1025\r\n\r\n" + strings.Repeat("x", 1025),
		"status of no HTTP": with("Onced-Original-Status: 600"), "interim status": with("Onced-Original-Status: 199"), "no status": with("Onced-Original-Status: created"),
		"empty status": with("Onced-Original-Status:"), "two statuses": with("Onced-Original-Status: 201\r\nOnced-Original-Status: 201"), "signed status": with("Onced-Original-Status: +20"),
	} {
		l.looks(text)
		b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
		if asked++; l.asked() != asked || b.record("k").State != onced.StateUnknown {
			t.Fatalf("%s: %d look-ups, and the record is %+v", name, l.asked(), b.record("k"))
		}
	}
	slow := func(_ *http.Request, c net.Conn) { io.Copy(io.Discard, c) }
	l.look.Store(&slow)
	began := time.Now()
	b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
	if took := time.Since(began); took > 5*time.Second {
		t.Fatalf("a look-up that hangs took %v", took)
	}
	l.looks(there)
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
	l.expect(1, asked+2)
}

// Who used the key for another request is told of the conflict, and nobody is asked.
func TestNoProbeForAConflict(t *testing.T) {
	l := newLedger(t)
	l.looks(there)
	b := newBench(t, l.upstream, Deps{}, probing, Route{Match: "POST /held"})
	b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
	b.send(charge("k", "y")).expect(t, 409, onced.CodeConflict)
	b.send(post("/held", "h", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
	b.send(post("/held", "h", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
	l.expect(2, 0)
}

// A key that would make another path of the look-up is not asked about.
func TestNoProbeOfAnOddPath(t *testing.T) {
	l := newLedger(t)
	l.looks(there)
	b := newBench(t, l.upstream, Deps{}, Route{Match: "POST /charge", OnUnknown: "probe", Probe: "GET /by/{key}"})
	b.send(charge("a/../../b", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
	b.send(charge("a/../../b", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
	l.expect(1, 0)
}

// A route that wants no answer stored keeps none of the look-up's either.
func TestProbeOfARouteThatStoresNothing(t *testing.T) {
	l := newLedger(t)
	l.looks(there)
	route := probing
	route.Store = []string{}
	b := newBench(t, l.upstream, Deps{}, route)
	b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
	r := b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept)
	if rec := b.record("k"); !strings.Contains(r.body, `"original_status":201`) || len(rec.Response.Body) > 0 || len(rec.Response.Headers) > 0 {
		t.Fatalf("got\n%v\nstored is %+v", r, rec.Response)
	}
}

// While one gateway asks, another does not.
func TestOneProbeAtATime(t *testing.T) {
	l := newLedger(t)
	l.pays(failed)
	k := newHooked()
	one := newBench(t, l.upstream, Deps{Keeper: k}, probing)
	two := newBench(t, l.upstream, Deps{Keeper: k}, probing)
	one.send(charge("k", "x")).expect(t, 500, "")
	asks, goOn := make(chan struct{}), make(chan struct{})
	slow := func(_ *http.Request, c net.Conn) {
		close(asks)
		<-goOn
		io.WriteString(c, notThere)
	}
	l.look.Store(&slow)
	c := one.dial(charge("k", "x"))
	<-asks
	r := two.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
	if r.header.Get("Retry-After") != "1" {
		t.Fatalf("got\n%v", r)
	}
	l.expect(1, 1)
	l.pays(created)
	close(goOn)
	one.read(c).expect(t, 201, "").replayed(t, "false")
	two.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
	l.expect(2, 1)
}

// A gateway that asked for too long finds that another took over meanwhile, and gives what that one got.
func TestOneTakesOver(t *testing.T) {
	l := newLedger(t)
	l.pays(failed)
	k := newHooked()
	one := newBench(t, l.upstream, Deps{Keeper: k}, probing)
	two := newBench(t, l.upstream, Deps{Keeper: k}, probing)
	one.send(charge("k", "x")).expect(t, 500, "")
	asks, goOn := make(chan struct{}), make(chan struct{})
	slow := func(_ *http.Request, c net.Conn) {
		l.looks(notThere)
		close(asks)
		<-goOn
		io.WriteString(c, notThere)
	}
	l.look.Store(&slow)
	c := one.dial(charge("k", "x"))
	<-asks
	k.ahead.Store(13_000) // the turn is over
	l.pays(created)
	two.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
	close(goOn)
	one.read(c).expect(t, 201, "").replayed(t, "true")
	l.expect(2, 2)
}

// What was stored first is what everybody gets: the late original's answer, or what the look-up found.
func TestProbeAndALateAnswer(t *testing.T) {
	id := onced.ID{Tenant: "acme", Key: "k"}
	t.Run("original first", func(t *testing.T) {
		l := newLedger(t)
		b := newBench(t, l.upstream, Deps{}, probing)
		b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
		late := func(_ *http.Request, c net.Conn) {
			answer := &onced.Response{Status: 200, Body: []byte("original")}
			if _, err := b.keeper.Keeper.Complete(context.Background(), onced.CompleteRequest{ID: id, Token: 1, Response: answer}); err != nil {
				t.Error(err)
			}
			io.WriteString(c, there)
		}
		l.look.Store(&late)
		if r := b.send(charge("k", "x")).expect(t, 200, "").replayed(t, "true"); r.body != "original" {
			t.Fatalf("got\n%v", r)
		}
		l.expect(1, 1)
	})
	t.Run("found first", func(t *testing.T) {
		l := newLedger(t)
		l.looks(there)
		started, finish := make(chan struct{}), make(chan struct{})
		slow := func(_ *http.Request, c net.Conn) {
			close(started)
			<-finish
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\noriginal")
		}
		l.pay.Store(&slow)
		b := newBench(t, l.upstream, Deps{}, probing)
		b.keeper.hook(&b.keeper.renew, unavailable)
		c := b.dial(charge("k", "x"))
		<-started
		b.keeper.ahead.Store(31_000)
		b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
		close(finish)
		if r := b.read(c).expect(t, 201, "").replayed(t, "true"); r.body != `{"charge":7}` {
			t.Fatalf("got\n%v", r)
		}
		l.expect(1, 1)
	})
	t.Run("freed meanwhile", func(t *testing.T) { // one word says that it happened: nothing is run
		l := newLedger(t)
		b := newBench(t, l.upstream, Deps{}, probing)
		b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
		late := func(_ *http.Request, c net.Conn) {
			if err := b.keeper.Keeper.Release(context.Background(), onced.ReleaseRequest{ID: id, Token: 1}); err != nil {
				t.Error(err)
			}
			io.WriteString(c, there)
		}
		l.look.Store(&late)
		b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
		l.expect(1, 1)
	})
	t.Run("taken over and running", func(t *testing.T) {
		l := newLedger(t)
		b := newBench(t, l.upstream, Deps{}, probing)
		b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
		late := func(_ *http.Request, c net.Conn) {
			fingerprint := b.record("k").Fingerprint
			if _, err := b.keeper.Keeper.Reserve(context.Background(), onced.ReserveRequest{ID: id, Fingerprint: fingerprint, Takeover: 1}); err != nil {
				t.Error(err)
			}
			io.WriteString(c, there)
		}
		l.look.Store(&late)
		b.send(charge("k", "x")).expect(t, 409, onced.CodeRequestInProgress)
		l.expect(1, 1)
	})
}

// A look-up that finds nothing, of a record that has become another one meanwhile: what it has become counts.
func TestProbeOfARecordThatHasChanged(t *testing.T) {
	id := onced.ID{Tenant: "acme", Key: "k"}
	for name, tc := range map[string]struct {
		meanwhile func(k *hooked) error
		status    int
		code      onced.Code
		charges   int
	}{
		"taken over and running": {func(k *hooked) error {
			_, err := k.Keeper.Reserve(context.Background(), onced.ReserveRequest{ID: id, Fingerprint: k.recordOf("k").Fingerprint, Takeover: 1})
			return err
		}, 409, onced.CodeRequestInProgress, 1},
		"settled by an operator": {func(k *hooked) error {
			_, err := k.Keeper.Resolve(context.Background(), onced.ResolveRequest{ID: id, Response: &onced.Response{Status: 202}, Reason: "asked the bank"})
			return err
		}, 202, "", 1},
		"freed": {func(k *hooked) error {
			return k.Keeper.Release(context.Background(), onced.ReleaseRequest{ID: id, Token: 1})
		}, 201, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			l.pays(failed)
			b := newBench(t, l.upstream, Deps{}, probing)
			b.send(charge("k", "x")).expect(t, 500, "")
			l.pays(created)
			late := func(_ *http.Request, c net.Conn) {
				if err := tc.meanwhile(b.keeper); err != nil {
					t.Error(err)
				}
				io.WriteString(c, notThere)
			}
			l.look.Store(&late)
			b.send(charge("k", "x")).expect(t, tc.status, tc.code)
			l.expect(tc.charges, 1)
		})
	}
}

// The Keeper may not take the whole answer that was found; that it happened is stored all the same.
func TestProbeThatFindsTooMuch(t *testing.T) {
	l := newLedger(t)
	l.looks(there)
	b := newBench(t, l.upstream, Deps{}, probing)
	b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
	var calls atomic.Int32
	b.keeper.hook(&b.keeper.complete, func() error {
		if calls.Add(1) == 1 {
			return onced.Problemf(onced.CodeResponseTooLarge, "too large for this node")
		}
		return nil
	})
	b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept)
	if rec := b.record("k"); rec.State != onced.StateCompleted || !rec.Response.BodyOmitted || rec.Response.Status != 201 {
		t.Fatalf("the record is %+v", rec)
	}
	l.expect(1, 1)
}
