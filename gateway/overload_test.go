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

	"onced"
)

// barred answers each request once its key's gate is opened.
type barred struct {
	up      *upstream
	started chan string            // keys, as they arrive
	gates   map[string]chan string // answers by key; a key without one is answered at once
}

func newBarred(t *testing.T, keys ...string) *barred {
	g := &barred{started: make(chan string, 100), gates: map[string]chan string{}}
	for _, k := range keys {
		g.gates[k] = make(chan string)
	}
	over := make(chan struct{})
	g.up = newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		key, answer := r.Header.Get("Idempotency-Key"), created
		g.started <- key
		if gate := g.gates[key]; gate != nil {
			select {
			case answer = <-gate:
			case <-over:
			}
		}
		io.WriteString(c, answer)
		return true // a kept-alive connection that is closed is a 502 on an unprotected route
	})
	t.Cleanup(func() { close(over) }) // before the upstream waits for its connections
	return g
}

func TestMaxConcurrent(t *testing.T) {
	u, m := newBarred(t, "slow"), &tally{}
	b := newBench(t, u.up, Deps{Meter: m}, Route{Match: "POST /charge", MaxConcurrent: "1"}, Route{Match: "POST /refund"})
	b.send(charge("done", "x")).expect(t, 201, "")
	<-u.started
	slow := b.dial(charge("slow", "x"))
	<-u.started
	refused := b.send(charge("new", "x")).expect(t, 503, onced.CodeUnavailable)
	if refused.header.Get("Retry-After") != "1" || !strings.Contains(refused.body, "max_concurrent 1") {
		t.Fatalf("no advice in\n%v", refused)
	}
	if rec := b.record("new"); rec.State != onced.StateAbsent {
		t.Fatalf("a refused request has a record: %+v", rec)
	}
	// What needs no upstream is answered all the same; so is another route.
	b.send(charge("done", "x")).expect(t, 201, "").replayed(t, "true")
	b.send(charge("done", "other")).expect(t, 409, onced.CodeConflict)
	b.send(charge("slow", "x")).expect(t, 503, onced.CodeUnavailable)
	b.send(post("/refund", "r", "x")).expect(t, 201, "")
	if m.of("under way POST /charge") != 1 || m.of("max_concurrent POST /charge") != 2 {
		t.Fatalf("the meter says %v", m)
	}
	u.gates["slow"] <- created
	b.read(slow).expect(t, 201, "")
	b.send(charge("new", "x")).expect(t, 201, "").replayed(t, "false")
	if m.of("under way POST /charge") != 0 || m.of("under way POST /refund") != 0 {
		t.Fatalf("the meter says %v", m)
	}
}

// A replay from a full route is held to retention by this gateway's own clock too.
func TestAFullRouteReplaysNothingExpired(t *testing.T) {
	u := newBarred(t, "slow")
	b := newBench(t, u.up, Deps{}, Route{Match: "POST /charge", MaxConcurrent: "1", Retention: "1s"})
	b.send(charge("done", "x")).expect(t, 201, "")
	slow := b.dial(charge("slow", "x"))
	<-u.started
	<-u.started
	b.keeper.ahead.Store(2_000) // by the table's clock it is over
	b.send(charge("done", "x")).expect(t, 503, onced.CodeUnavailable)
	b.keeper.ahead.Store(0)
	u.gates["slow"] <- created
	b.read(slow).expect(t, 201, "")
}

// The same where only the gateway's clock says so.
func TestAFullRouteHeedsItsOwnClock(t *testing.T) {
	u := newBarred(t, "slow")
	k := newHooked()
	k.ahead.Store(-60_000)
	b := newBench(t, u.up, Deps{Keeper: k}, Route{Match: "POST /charge", MaxConcurrent: "1", Retention: "10s"})
	b.send(charge("done", "x")).expect(t, 201, "")
	slow := b.dial(charge("slow", "x"))
	<-u.started
	<-u.started
	b.send(charge("done", "x")).expect(t, 503, onced.CodeUnavailable)
	u.gates["slow"] <- created
	b.read(slow).expect(t, 201, "")
}

func TestMaxConcurrentOfWhatPasses(t *testing.T) {
	u, m := newBarred(t, "slow"), &tally{}
	b := newBench(t, u.up, Deps{Meter: m}, Route{Match: "POST /off", Key: "off", MaxConcurrent: "1"}, Route{Match: "POST /maybe", Key: "optional", MaxConcurrent: "1"})
	slow := b.dial(post("/off", "slow", "x"))
	<-u.started
	b.send(post("/off", "k", "x")).expect(t, 503, onced.CodeUnavailable)
	b.send(post("/maybe", "", "x")).expect(t, 201, "")
	b.send(post("/nowhere", "", "x")).expect(t, 201, "")
	u.gates["slow"] <- created
	b.read(slow).expect(t, 201, "")
	b.send(post("/off", "k", "x")).expect(t, 201, "")
	if m.of("max_concurrent POST /off") != 1 {
		t.Fatalf("the meter says %v", m)
	}
}

// Duplicates that wait must not take the places of operations that could run.
func TestWaitingDuplicatesTakeNoPlace(t *testing.T) {
	u, m := newBarred(t, "slow"), &tally{}
	b := newBench(t, u.up, Deps{Meter: m}, Route{Match: "POST /charge", MaxConcurrent: "2", Wait: "20s"})
	waits := make(chan struct{}, 100)
	b.keeper.hook(&b.keeper.get, func() error { waits <- struct{}{}; return nil })
	slow := b.dial(charge("slow", "x"))
	<-u.started
	var duplicates []net.Conn
	for range 5 {
		duplicates = append(duplicates, b.dial(charge("slow", "x")))
		<-waits
	}
	b.send(charge("new", "x")).expect(t, 201, "").replayed(t, "false")
	u.gates["slow"] <- created
	b.read(slow).expect(t, 201, "").replayed(t, "false")
	for _, c := range duplicates {
		b.read(c).expect(t, 201, "").replayed(t, "true")
	}
	b.expectRuns(2)
	if m.of("under way POST /charge") != 0 {
		t.Fatalf("the meter says %v", m)
	}
}

// A duplicate that waits without a place takes over what lapses under retry, and not what is renewed.
func TestAWaitingDuplicateTakesOver(t *testing.T) {
	u := newBarred(t)
	b := newBench(t, u.up, Deps{}, Route{Match: "POST /charge", MaxConcurrent: "1", Wait: "60s", OnUnknown: "retry", Lease: "100ms"})
	id := onced.ID{Tenant: "acme", Key: "k"} // another gateway has it, and will be heard of no more
	print := fingerprintOf(t, b)
	granted, err := b.keeper.Keeper.Reserve(t.Context(), onced.ReserveRequest{ID: id, Fingerprint: print, Lease: 100 * time.Millisecond, OnLapse: onced.Retry})
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	b.keeper.hook(&b.keeper.get, func() error {
		if looks++; looks <= 3 {
			_, err := b.keeper.Keeper.Renew(context.Background(), onced.RenewRequest{ID: id, Token: granted.Record.Token})
			return err
		}
		return nil
	})
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
	if looks < 4 || !strings.Contains(u.up.request(1), "Onced-Attempt: 2\r\n") {
		t.Fatalf("after %d looks the upstream got\n%s", looks, u.up.request(1))
	}
	b.expectRuns(1)
}

// fingerprintOf is that of charge(key, "x") at this gateway.
func fingerprintOf(t *testing.T, b *bench) string {
	t.Helper()
	rt := b.g.table.Load().routes[0]
	r, err := http.NewRequest("POST", "http://h/charge", nil)
	if err != nil {
		t.Fatal(err)
	}
	return rt.digest.Sum(digestible(r, []byte("x"), "", []byte("x")))
}

func TestAReloadKeepsWhatIsUnderWay(t *testing.T) {
	u, m := newBarred(t, "slow"), &tally{}
	c := Config{Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge", MaxConcurrent: "1"}}}
	b := newBenchOf(t, u.up, c, Deps{Meter: m})
	c.Upstream = "http://" + u.up.ln.Addr().String()
	slow := b.dial(charge("slow", "x"))
	<-u.started
	reload := func(limit Count) {
		t.Helper()
		c.Routes[0].MaxConcurrent = limit
		if err := b.g.Reload(c); err != nil {
			t.Fatal(err)
		}
	}
	reload("1")
	b.send(charge("new", "x")).expect(t, 503, onced.CodeUnavailable)
	reload("2")
	b.send(charge("new", "x")).expect(t, 201, "")
	c.Routes[0].Match = "POST /elsewhere" // the route goes while its operation runs
	reload("1")
	u.gates["slow"] <- created
	b.read(slow).expect(t, 201, "").replayed(t, "false")
	if rec := b.record("slow"); rec.State != onced.StateCompleted || rec.Response.Status != 201 {
		t.Fatalf("the record is %+v", rec)
	}
	c.Routes[0].Match = "POST /charge"
	reload("1")
	b.send(charge("slow", "x")).expect(t, 201, "").replayed(t, "true")
	if m.of("under way POST /charge") != 0 {
		t.Fatalf("the meter says %v", m)
	}
}

func TestMaxBodyMemory(t *testing.T) {
	u, m := newBarred(t, "slow"), &tally{}
	c := Config{Tenant: "header:X-Account", MaxBodyMemory: "1000", Routes: []Route{{Match: "POST /charge", MaxRequest: "800", MaxResponse: "1MiB"}}}
	b := newBenchOf(t, u.up, c, Deps{Meter: m})
	body := strings.Repeat("x", 600)
	slow := b.dial(charge("slow", body))
	<-u.started
	for _, request := range []string{
		charge("new", body),
		"POST /charge HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: new\r\nTransfer-Encoding: chunked\r\n\r\n258\r\n" + body + "\r\n0\r\n\r\n",
	} {
		refused := b.send(request).expect(t, 503, onced.CodeUnavailable)
		if refused.header.Get("Retry-After") != "1" || !strings.Contains(refused.body, "max_body_memory 1000") {
			t.Fatalf("no advice in\n%v", refused)
		}
	}
	if rec := b.record("new"); rec.State != onced.StateAbsent {
		t.Fatalf("a refused request has a record: %+v", rec)
	}
	b.send(charge("small", "x")).expect(t, 201, "")
	// An answer that does not fit is kept all the same: it has happened.
	u.gates["slow"] <- "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("y", 5000)
	b.read(slow).expect(t, 200, "")
	b.send(charge("slow", body)).expect(t, 200, "").replayed(t, "true")
	b.send(charge("new", body)).expect(t, 201, "")
	if m.of("bodies") != 0 || m.most < 5600 || m.of("max_body_memory POST /charge") != 2 {
		t.Fatalf("the meter says %v, at most %d", m, m.most)
	}
}

// A body that is small on the wire and large when decoded counts as what it is.
func TestDecodedBodiesAreHeldToo(t *testing.T) {
	u, m := newBarred(t), &tally{}
	c := Config{Tenant: "header:X-Account", MaxBodyMemory: "1000", Routes: []Route{{Match: "POST /charge", MaxRequest: "1000"}}}
	b := newBenchOf(t, u.up, c, Deps{Meter: m})
	for size, status := range map[int]int{900: 201, 995: 503} {
		body := gzipped(t, strings.Repeat("x", size))
		b.send(charge(fmt.Sprint("k", size), body, "Content-Encoding: gzip")).expect(t, status, "")
	}
	if m.of("bodies") != 0 {
		t.Fatalf("the meter says %v", m)
	}
}

func TestSlowBodies(t *testing.T) {
	u, m := newBarred(t), &tally{}
	c := Config{Tenant: "header:X-Account", BodyTimeout: "100ms", Routes: []Route{{Match: "POST /charge"}}}
	b := newBenchOf(t, u.up, c, Deps{Meter: m})
	whole := charge("k", "0123456789")
	r := b.send(whole[:len(whole)-1]).expect(t, 400, onced.CodeInvalidRequest)
	if !strings.Contains(r.body, "too slowly") || m.of("slow_body POST /charge") != 1 || m.of("bodies") != 0 {
		t.Fatalf("%v; the meter says %v", r, m)
	}
	if rec := b.record("k"); rec.State != onced.StateAbsent {
		t.Fatalf("the record is %+v", rec)
	}
	b.expectRuns(0)
	b.send(whole).expect(t, 201, "")
}

func TestPace(t *testing.T) {
	begun := time.Unix(1000, 0)
	p := pace{allowed: 10 * time.Second, rate: 16 << 10}
	for arrived, want := range map[int64]time.Duration{0: 10 * time.Second, 8 << 10: 10*time.Second + 500*time.Millisecond, 1 << 20: 74 * time.Second, 1 << 30: 65546 * time.Second} {
		if got := p.deadline(begun, arrived).Sub(begun); got != want {
			t.Errorf("after %d bytes: %s, expected %s", arrived, got, want)
		}
	}
}

// What is allocated for a body follows what has arrived, not what was announced.
func TestBodiesTakeWhatTheySend(t *testing.T) {
	for _, announced := range []int64{-1, 0, 1, 100, 1 << 30} {
		body := withRoom(nil, announced)
		if cap(body) < 1 || cap(body) > intakePiece || announced >= 0 && int64(cap(body)) > announced+1 {
			t.Errorf("%d announced, nothing sent: room for %d", announced, cap(body))
		}
		if announced < 1 {
			continue
		}
		sent := int(min(announced, 1<<20))
		for len(body) < sent {
			body = withRoom(body, announced)
			body = body[:min(cap(body), sent)]
		}
		if cap(body) > 2*len(body)+intakePiece {
			t.Errorf("%d announced, %d sent: room for %d", announced, len(body), cap(body))
		}
	}
}

// A thousand clients that send a little and then nothing hold up nobody else.
func TestAThousandSlowClients(t *testing.T) {
	u, m := newBarred(t), &tally{}
	b := newBench(t, u.up, Deps{Meter: m}, Route{Match: "POST /charge", MaxConcurrent: "16"})
	whole := charge("slow", strings.Repeat("x", 100_000))
	const slow = 1000
	for i := range slow {
		b.dial(whole[:[]int{20, 120, len(whole) - 50_000, len(whole) - 1}[i%4]]) // in the head, before the body, within it, at its end
	}
	m.wait("bodies", slow/2*40_000) // they have arrived
	for i := range 200 {
		b.send(charge(fmt.Sprint("k", i/2), "x", "Connection: close")).expect(t, 201, "")
		if i%2 == 0 {
			<-u.started
		}
	}
	b.expectRuns(100)
	if m.of("max_concurrent POST /charge") != 0 {
		t.Fatalf("the meter says %v", m)
	}
}
