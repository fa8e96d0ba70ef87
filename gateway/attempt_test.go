package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced"
	"onced/internal/limits"
)

// heardLog is a log that tests can read, and wait for, while it is written.
type heardLog struct {
	mu    sync.Mutex
	text  string
	wrote *sync.Cond // of mu
}

func newHeardLog() *heardLog {
	l := &heardLog{}
	l.wrote = sync.NewCond(&l.mu)
	return l
}

func (l *heardLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	l.wrote.Broadcast()
	return len(p), nil
}

func (l *heardLog) count(line string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text, line)
}

// await returns once the line is written.
func (l *heardLog) await(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !strings.Contains(l.text, line) {
		l.wrote.Wait()
	}
}

// A holder that was overtaken hears it at its next renewal, asks no more, changes nothing, and gives its
// client what the other one stored. (F6, F7)
func TestAHolderThatLostItsLease(t *testing.T) {
	gate := newGated(t)
	k := newHooked()
	slow := newBench(t, newUpstream(t, gate.script), Deps{Keeper: k}, Route{Match: "POST /charge", Lease: "300ms", OnUnknown: "retry"})
	said := newHeardLog()
	slow.g.log = slog.New(slog.NewTextHandler(said, nil))
	lost := make(chan struct{})
	k.hook(&k.renew, unavailable)
	c := slow.dial(charge("k", "x"))
	<-gate.began
	k.ahead.Store(1_000)
	other := newBench(t, newUpstream(t, answers(created)), Deps{Keeper: k}, Route{Match: "POST /charge", OnUnknown: "retry"})
	other.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
	var asked atomic.Int32
	k.hook(&k.renew, func() error {
		if asked.Add(1) == 1 {
			close(lost)
		}
		return nil
	})
	<-lost
	said.await("the reservation is lost while its operation runs")
	before := asked.Load()
	gate.next <- "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold"
	if r := slow.read(c).expect(t, 201, "").replayed(t, "true"); r.body != `{"charge":7}` {
		t.Fatalf("got\n%v", r)
	}
	if asked.Load() != before || before != 1 {
		t.Fatalf("it asked %d times for a reservation that it had lost", asked.Load())
	}
	if rec := k.recordOf("k"); rec.Attempt != 2 || rec.Response.Status != 201 {
		t.Fatalf("the record is %+v", rec)
	}
}

func (h *hooked) recordOf(key onced.Key) onced.Record {
	rec, _ := h.Keeper.Get(context.Background(), onced.GetRequest{ID: onced.ID{Tenant: "acme", Key: key}})
	return rec
}

// A holder that was overtaken frees nothing: who reached nobody is told of the attempt that runs. (F6)
func TestAnOvertakenHolderFreesNothing(t *testing.T) {
	for _, state := range []onced.State{onced.StateInProgress, onced.StateUnknown} {
		t.Run(state.String(), func(t *testing.T) {
			id := onced.ID{Tenant: "acme", Key: "k"}
			k := newHooked()
			dial := func(context.Context, string, string) (net.Conn, error) {
				rec := k.recordOf("k")
				k.ahead.Store(31_000)
				// Whoever takes over has the record's own policy, which is hold.
				if _, err := k.Keeper.Reserve(context.Background(), onced.ReserveRequest{ID: id, Fingerprint: rec.Fingerprint, Takeover: rec.Token}); err != nil {
					return nil, err
				}
				if state == onced.StateUnknown {
					if _, err := k.Keeper.Complete(context.Background(), onced.CompleteRequest{ID: id, Token: rec.Token + 1, Unknown: true}); err != nil {
						return nil, err
					}
				}
				return nil, fmt.Errorf("connection refused")
			}
			b := newBench(t, newUpstream(t, answers(created)), Deps{Keeper: k, Dial: dial}, Route{Match: "POST /charge"})
			code := onced.CodeRequestInProgress
			if state == onced.StateUnknown {
				code = onced.CodeOutcomeUnknown
			}
			b.send(charge("k", "x")).expect(t, 409, code)
			if rec := b.record("k"); rec.Attempt != 2 || rec.State != state {
				t.Fatalf("the record is %+v", rec)
			}
			b.expectRuns(0)
		})
	}
}

// A renewal that fails is loud, loudest when the lease is over; and asked for again until it revives it. (F11)
func TestARenewalThatFailsIsLoud(t *testing.T) {
	gate := newGated(t)
	b := newBench(t, newUpstream(t, gate.script), Deps{}, Route{Match: "POST /charge", Lease: "200ms"})
	said := newHeardLog()
	b.g.log = slog.New(slog.NewTextHandler(said, nil))
	b.keeper.hook(&b.keeper.renew, unavailable)
	c := b.dial(charge("k", "x"))
	<-gate.began
	said.await("the lease could not be renewed; asking again")
	said.await("the lease is over and cannot be renewed")
	if rec := b.record("k"); rec.State != onced.StateUnknown {
		t.Fatalf("the record is %+v", rec)
	}
	b.keeper.hook(&b.keeper.renew, nil)
	for b.record("k").State != onced.StateInProgress { // a late renewal revives it
	}
	gate.next <- created
	b.read(c).expect(t, 201, "").replayed(t, "false")
	if n := said.count("the lease is over and cannot be renewed"); n != 1 {
		t.Fatalf("it is said %d times", n)
	}
}

// Whoever got its reservation late renews it until a renewal comes in time, or gives it back.
func TestAReservationIsConfirmedInTime(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{RequestTimeout: 2 * time.Second}, Route{Match: "POST /charge", Lease: "100ms"})
	b.keeper.hook(&b.keeper.reserve, func() error { time.Sleep(120 * time.Millisecond); return nil })
	var calls atomic.Int32
	b.keeper.hook(&b.keeper.renew, func() error {
		if calls.Add(1) < 3 {
			time.Sleep(120 * time.Millisecond)
		}
		return nil
	})
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
	if calls.Load() < 3 {
		t.Fatalf("it was sent after %d renewals", calls.Load())
	}
}

// What is completed only while the gateway drains is completed.
func TestLateCompletionWhileDraining(t *testing.T) {
	b := newBench(t, newUpstream(t, answers(created)), Deps{RequestTimeout: 30 * time.Millisecond}, Route{Match: "POST /charge"})
	refused := make(chan struct{}, 100)
	b.keeper.hook(&b.keeper.complete, func() error { refused <- struct{}{}; return unavailable() })
	b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
	end := make(chan error, 1)
	go func() { end <- b.g.Drain(context.Background()) }()
	for b.g.closing.Err() == nil {
		<-refused
	}
	<-refused // and once more after it began
	b.keeper.hook(&b.keeper.complete, nil)
	if err := <-end; err != nil {
		t.Fatal(err)
	}
	if rec := b.record("k"); rec.State != onced.StateCompleted || rec.Response.Status != 201 {
		t.Fatalf("the record is %+v", rec)
	}
	b.expectRuns(1)
}

// A tenant over its rate and its quota can reserve no more, and end all that it began: completed, freed
// and unknown, with what the gateway keeps aside of them.
func TestLimitsNeverTouchACompletion(t *testing.T) {
	began, goOn := make(chan struct{}, 10), make(chan struct{})
	ends := map[string]string{"done": created, "freed": "HTTP/1.1 429 No\r\nContent-Length: 2\r\n\r\nno", "unknown": failed}
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		began <- struct{}{}
		<-goOn
		io.WriteString(c, ends[r.Header.Get("Idempotency-Key")])
		return false
	})
	k := newHooked()
	bounded := limits.Keeper(k, limits.Config{Rate: 0.0001, Burst: 4, MaxKeys: 3})
	route := probing
	route.Lease = "300ms"
	b := newBench(t, up, Deps{Keeper: bounded, Aside: k}, route)
	renewed := make(chan struct{}, 9)
	k.hook(&k.renew, func() error {
		select {
		case renewed <- struct{}{}:
		default:
		}
		return nil
	})
	location := map[string]string{}
	for key := range ends {
		location[key] = b.send(charge(key, "x", async)).accepted(t)
		<-began
	}
	b.send(charge("one-more", "x")).expect(t, 429, onced.CodeQuotaExceeded)
	b.send(charge("too-fast", "x")).expect(t, 429, onced.CodeRateLimited)
	for range 9 {
		<-renewed
	}
	close(goOn)
	b.fetch(location["done"]+"?wait=20s", "acme").expect(t, 201, "")
	b.fetch(location["freed"]+"?wait=20s", "acme").expect(t, 429, "").replayed(t, "true")
	b.fetch(location["unknown"]+"?wait=20s", "acme").expect(t, 409, onced.CodeOutcomeUnknown)
	if o := (&operation{g: b.g, id: onced.ID{Tenant: "acme", Key: "unknown"}}); !o.markedOver(t.Context(), k.recordOf("unknown").Token) {
		t.Fatal("it is not noted that the attempt is over")
	}
	b.expectRuns(3)
}
