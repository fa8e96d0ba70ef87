package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"onced"
)

func TestForwardedOnceAndReplayedByteForByte(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	request := charge("k1", `{"amount":5}`, "Content-Type: application/json", "Onced-Token: 99", "onced_attempt: 7",
		"Connection: X-Private, Idempotency-Key, X-Account", "X-Private: 1", "X-Forwarded-For: 10.0.0.9", "TE: trailers", "Expect: 100-continue", "X-Request-Id: r-1")
	c := b.dial(request)
	first := b.read(c)
	first.expect(t, 201, "").replayed(t, "false")
	want := "POST /charge HTTP/1.1\r\nHost: pay.example\r\nContent-Length: 12\r\nContent-Type: application/json\r\n" +
		"Forwarded: for=127.0.0.1;host=pay.example;proto=http\r\nIdempotency-Key: k1\r\nOnced-Attempt: 1\r\nOnced-Token: 1\r\nX-Account: acme\r\nX-Forwarded-For: 10.0.0.9, 127.0.0.1\r\n" +
		"X-Forwarded-Host: pay.example\r\nX-Forwarded-Proto: http\r\nX-Request-Id: r-1\r\n\r\n{\"amount\":5}"
	if diff := cmp.Diff(want, up.request(1)); diff != "" {
		t.Fatal(diff)
	}
	second := b.send(charge("k1", "{ \"amount\": 5 }", "Content-Type: application/json")).expect(t, 201, "").replayed(t, "true")
	if second.body != first.body {
		t.Fatalf("replayed %q, first was %q", second.body, first.body)
	}
	drop := func(h http.Header) http.Header {
		h = h.Clone()
		h.Del("Idempotency-Replayed")
		h.Del("Date")
		h.Del("X-Request-Id") // that of each request
		return h
	}
	if diff := cmp.Diff(drop(first.header), drop(second.header)); diff != "" {
		t.Fatal(diff)
	}
	if got := second.header["Link"]; len(got) != 2 || got[0] != "<a>; rel=x" {
		t.Fatalf("the Link lines are %q", got)
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", second.header.Get("Idempotency-Expires")); err != nil {
		t.Fatal(err)
	}
	b.expectRuns(1)
}

func TestConflictWinsAndRunningIsTold(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(_ int, _ *http.Request, c net.Conn) bool {
		close(started)
		<-finish
		io.WriteString(c, created)
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	c := b.dial(charge("k", "one"))
	<-started
	running := b.send(charge("k", "one")).expect(t, 409, onced.CodeRequestInProgress)
	if running.header.Get("Retry-After") == "" || !strings.Contains(running.body, `"retry":"same_key"`) {
		t.Fatalf("no advice in\n%v", running)
	}
	b.send(charge("k", "two")).expect(t, 409, onced.CodeConflict)
	close(finish)
	b.read(c).expect(t, 201, "").replayed(t, "false")
	b.send(charge("k", "two")).expect(t, 409, onced.CodeConflict)
	b.send(charge("k", "one")).expect(t, 201, "").replayed(t, "true")
	b.expectRuns(1)
}

func TestWaitHoldsTheDuplicate(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(_ int, _ *http.Request, c net.Conn) bool {
		close(started)
		<-finish
		io.WriteString(c, created)
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", Wait: "10s"})
	c := b.dial(charge("k", ""))
	<-started
	waiting := b.dial(charge("k", ""))
	close(finish)
	b.read(waiting).expect(t, 201, "").replayed(t, "true")
	b.read(c).expect(t, 201, "").replayed(t, "false")
	b.expectRuns(1)
}

func TestNoDecisionIsFailClosed(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	b.keeper.SetDown("no majority")
	r := b.send(charge("k", "x")).expect(t, 503, onced.CodeUnavailable)
	if r.header.Get("Retry-After") == "" {
		t.Fatalf("no Retry-After in\n%v", r)
	}
	b.keeper.SetDown("")
	b.keeper.hook(&b.keeper.reserve, func() error { return fmt.Errorf("something odd") })
	b.send(charge("k", "x")).expect(t, 503, onced.CodeUnavailable)
	b.expectRuns(0)
}

func TestHoldAfterALapse(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{RequestTimeout: 50 * time.Millisecond}, Route{Match: "POST /charge"})
	b.keeper.hook(&b.keeper.complete, unavailable)
	first := b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown).replayed(t, "false")
	if !strings.Contains(first.body, `"retry":"same_key"`) {
		t.Fatalf("no advice in\n%v", first)
	}
	b.send(charge("k", "x")).expect(t, 409, onced.CodeRequestInProgress)
	b.keeper.ahead.Store(31_000)
	b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
	// Storing goes on in the background, also late.
	b.keeper.hook(&b.keeper.complete, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.g.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if rec := b.record("k"); rec.State != onced.StateCompleted || rec.Response.Status != 201 {
		t.Fatalf("the record is %+v", rec)
	}
	b.send(charge("k", "x")).expect(t, 503, onced.CodeUnavailable) // draining
	b.expectRuns(1)
}

// A hang-up at any moment after the request was sent changes nothing (F34, F35).
func TestClientHangsUp(t *testing.T) {
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
	c := b.dial(charge("k", "x"))
	<-started
	c.Close()
	<-(<-b.watch).Done() // the server has seen it
	close(finish)
	if e := <-events; e.Outcome != Executed || e.Route != "POST /charge" {
		t.Fatalf("the event is %+v", e)
	}
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
	b.expectRuns(1)
}

// Also while the reservation is asked for.
func TestClientHangsUpBeforeTheReservation(t *testing.T) {
	up := newUpstream(t, answers(created))
	events := make(chan Event, 10)
	b := newBench(t, up, Deps{Observe: func(e Event) { events <- e }}, Route{Match: "POST /charge"})
	b.watch = make(chan context.Context, 10)
	asked, goOn := make(chan struct{}), make(chan struct{})
	b.keeper.hook(&b.keeper.reserve, func() error { close(asked); <-goOn; return nil })
	c := b.dial(charge("k", "x"))
	<-asked
	c.Close()
	<-(<-b.watch).Done()
	close(goOn)
	if e := <-events; e.Outcome != Executed {
		t.Fatalf("the event is %+v", e)
	}
	b.expectRuns(1)
}

// A drain that is over ends what goes on in the background.
func TestADrainThatGivesUp(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{RequestTimeout: 20 * time.Millisecond}, Route{Match: "POST /charge"})
	b.keeper.hook(&b.keeper.complete, unavailable)
	b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
	over, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := b.g.Drain(over); err == nil || !strings.Contains(err.Error(), "still under way") {
		t.Fatalf("got %v", err)
	}
	soon, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := b.g.Drain(soon); err != nil {
		t.Fatal(err)
	}
	if rec := b.record("k"); rec.State != onced.StateInProgress {
		t.Fatalf("the record is %+v", rec)
	}
}

func TestLeaseIsRenewedWhileTheUpstreamRuns(t *testing.T) {
	renewed := make(chan struct{}, 100)
	up := newUpstream(t, func(_ int, _ *http.Request, c net.Conn) bool {
		for range 4 {
			<-renewed
		}
		io.WriteString(c, created)
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", Lease: "300ms"})
	b.keeper.hook(&b.keeper.renew, func() error { renewed <- struct{}{}; return nil })
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
	b.expectRuns(1)
}

// A slow first attempt that was taken over gets the answer that the second one stored.
func TestOvertakenGetsTheStoredAnswer(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(n int, r *http.Request, c net.Conn) bool {
		if n == 1 {
			close(started)
			<-finish
		}
		body := "attempt " + r.Header.Get("Onced-Attempt") + " token " + r.Header.Get("Onced-Token")
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", OnUnknown: "retry"})
	b.keeper.hook(&b.keeper.renew, unavailable)
	c := b.dial(charge("k", "x"))
	<-started
	b.keeper.ahead.Store(31_000)
	second := b.send(charge("k", "x")).expect(t, 200, "").replayed(t, "false")
	if second.body != "attempt 2 token 2" {
		t.Fatalf("the second attempt said %q", second.body)
	}
	close(finish)
	if first := b.read(c).expect(t, 200, "").replayed(t, "true"); first.body != second.body {
		t.Fatalf("the first was told %q, stored is %q", first.body, second.body)
	}
	b.expectRuns(2)
}

// A record that was forgotten and used for another request is not this one's answer.
func TestAnotherRequestsAnswerIsNotSent(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(n int, _ *http.Request, c net.Conn) bool {
		if n == 1 {
			close(started)
			<-finish
		}
		io.WriteString(c, created)
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	c := b.dial(charge("k", "one"))
	<-started
	if err := b.keeper.Forget(t.Context(), onced.ForgetRequest{ID: onced.ID{Tenant: "acme", Key: "k"}, Force: true}); err != nil {
		t.Fatal(err)
	}
	b.send(charge("k", "two")).expect(t, 201, "").replayed(t, "false")
	close(finish)
	b.read(c).expect(t, 504, onced.CodeOutcomeUnknown)
	b.expectRuns(2)
}

// A reservation whose answer came after its lease is confirmed before anything is sent.
func TestNothingIsSentOnALateReservation(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{RequestTimeout: time.Second}, Route{Match: "POST /charge", Lease: "100ms"})
	b.keeper.hook(&b.keeper.reserve, func() error { time.Sleep(120 * time.Millisecond); return nil })
	b.keeper.hook(&b.keeper.renew, func() error { return onced.Problemf(onced.CodeStaleToken, "taken over") })
	b.send(charge("k", "x")).expect(t, 503, onced.CodeUnavailable)
	b.expectRuns(0)
	if rec := b.record("k"); rec.State != onced.StateAbsent {
		t.Fatalf("a reservation is left: %+v", rec)
	}
	b.keeper.hook(&b.keeper.renew, nil)
	b.send(charge("k", "x")).expect(t, 201, "")
}
