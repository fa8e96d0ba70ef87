package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced"
)

// bank is an upstream that counts its charges, dies on its first request at some point, and can be asked what it
// did.
type bank struct {
	*ledger
	charged atomic.Int32
}

// Where a bank dies.
const (
	beforeCharging = "before it charges"
	afterCharging  = "after it charged, before it answers"
	whileAnswering = "while it answers"
	afterAnswering = "after its answer"
	never          = ""
)

func newBank(t *testing.T, dies string) *bank {
	k := &bank{ledger: newLedger(t)}
	var first atomic.Bool
	pay := func(_ *http.Request, c net.Conn) {
		at := never
		if first.CompareAndSwap(false, true) {
			at = dies
		}
		if at == beforeCharging {
			return
		}
		k.charged.Add(1)
		switch at {
		case afterCharging:
		case whileAnswering:
			io.WriteString(c, created[:len(created)-5])
		default:
			io.WriteString(c, created)
		}
	}
	look := func(_ *http.Request, c net.Conn) {
		if k.charged.Load() > 0 {
			io.WriteString(c, there)
			return
		}
		io.WriteString(c, notThere)
	}
	k.pay.Store(&pay)
	k.look.Store(&look)
	return k
}

// tellsTheTruth fails the test unless the record fits what was charged.
func (k *bank) tellsTheTruth(rec onced.Record) {
	k.t.Helper()
	switch charged := k.charged.Load(); {
	case rec.State == onced.StateCompleted && charged > 0 && rec.Response.Status == 201:
	case rec.State == onced.StateAbsent && charged == 0:
	case rec.State == onced.StateUnknown || rec.State == onced.StateInProgress:
	default:
		k.t.Fatalf("%d times charged, and the record is %+v", charged, rec)
	}
}

func policy(name string) Route {
	r := Route{Match: "POST /charge", OnUnknown: name}
	if name == "probe" {
		r.Probe = probing.Probe
	}
	return r
}

// An upstream that dies leaves at most one charge under hold, exactly one under probe, and one or more under
// retry; and the record is true.
func TestUpstreamKilled(t *testing.T) {
	for _, tc := range []struct {
		dies         string
		first        int
		hold         onced.Code // of a duplicate; "" = the answer
		charged      map[string]int32
		answeredAtOf map[string]bool // policies under which the duplicate has an answer at once
	}{
		{beforeCharging, 504, onced.CodeOutcomeUnknown, map[string]int32{"hold": 0, "probe": 1, "retry": 1}, map[string]bool{"retry": true}},
		{afterCharging, 504, onced.CodeOutcomeUnknown, map[string]int32{"hold": 1, "probe": 1, "retry": 2}, map[string]bool{"retry": true, "probe": true}},
		{whileAnswering, 504, onced.CodeOutcomeUnknown, map[string]int32{"hold": 1, "probe": 1, "retry": 2}, map[string]bool{"retry": true, "probe": true}},
		{afterAnswering, 201, "", map[string]int32{"hold": 1, "probe": 1, "retry": 1}, map[string]bool{"retry": true, "probe": true, "hold": true}},
	} {
		for _, name := range []string{"hold", "probe", "retry"} {
			t.Run(tc.dies+" "+name, func(t *testing.T) {
				k := newBank(t, tc.dies)
				b := newBench(t, k.upstream, Deps{}, policy(name))
				b.send(charge("k", "x")).expect(t, tc.first, "")
				k.tellsTheTruth(b.record("k"))
				if !tc.answeredAtOf[name] {
					b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
				}
				b.keeper.ahead.Store(40_000)
				last := b.send(charge("k", "x"))
				if name == "hold" && tc.hold != "" {
					last.expect(t, 409, tc.hold)
				} else {
					last.expect(t, 201, "")
				}
				if got := k.charged.Load(); got != tc.charged[name] {
					t.Fatalf("%d times charged, expected %d", got, tc.charged[name])
				}
				k.tellsTheTruth(b.record("k"))
			})
		}
	}
}

// mortal is a gateway's Keeper until the gateway is killed: then it never answers it again. What was asked for may
// have had its effect.
type mortal struct {
	*hooked
	kill                                                    func()
	dead                                                    chan struct{}
	beforeReserve, afterReserve, beforeComplete, afterWrite bool // where it is killed
}

func (k *mortal) gone() error {
	select {
	case <-k.dead:
		return unavailable()
	default:
		return nil
	}
}

// at kills the gateway if this is the point.
func (k *mortal) at(here bool) error {
	if here {
		k.kill()
	}
	return k.gone()
}

func (k *mortal) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	if err := k.at(k.beforeReserve); err != nil {
		return onced.ReserveResult{}, err
	}
	granted, err := k.hooked.Reserve(ctx, r)
	if gone := k.at(k.afterReserve); gone != nil {
		return onced.ReserveResult{}, gone
	}
	return granted, err
}

func (k *mortal) Complete(ctx context.Context, r onced.CompleteRequest) (onced.Record, error) {
	if err := k.at(k.beforeComplete); err != nil {
		return onced.Record{}, err
	}
	rec, err := k.hooked.Complete(ctx, r)
	if gone := k.at(k.afterWrite); gone != nil {
		return onced.Record{}, gone
	}
	return rec, err
}

func (k *mortal) Release(ctx context.Context, r onced.ReleaseRequest) error {
	if err := k.gone(); err != nil {
		return err
	}
	return k.hooked.Release(ctx, r)
}

func (k *mortal) Renew(ctx context.Context, r onced.RenewRequest) (onced.Record, error) {
	if err := k.gone(); err != nil {
		return onced.Record{}, err
	}
	return k.hooked.Renew(ctx, r)
}

// dying is a gateway that can be killed: its connections break, on both sides, and its Keeper hears no more of it.
func newDying(t *testing.T, k *bank, table *hooked, m *mortal, route Route) *bench {
	m.hooked, m.dead = table, make(chan struct{})
	var mu sync.Mutex
	var conns []net.Conn
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if m.gone() != nil {
			return nil, errors.New("the process is gone")
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
		return c, err
	}
	b := newBench(t, k.upstream, Deps{Keeper: m, Dial: dial, RequestTimeout: time.Second}, route)
	m.kill = sync.OnceFunc(func() {
		close(m.dead)
		b.server.Close() // first, as a dead process says nothing of what it sees break
		b.g.giveUp()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
	})
	return b
}

// A gateway that dies at any point leaves at most one charge under hold, exactly one under probe, and one or more
// under retry; and a survivor tells the truth.
func TestGatewayKilled(t *testing.T) {
	for _, tc := range []struct {
		at       string
		mortal   mortal
		bank     string // the point of the charge at which the gateway is killed
		reserved bool   // the lease has to end first
		answered bool   // the answer is stored
		charged  map[string]int32
	}{
		{"before it reserves", mortal{beforeReserve: true}, "", false, false, map[string]int32{"hold": 1, "probe": 1, "retry": 1}},
		{"before it sends", mortal{afterReserve: true}, "", true, false, map[string]int32{"hold": 0, "probe": 1, "retry": 1}},
		{"before the charge", mortal{}, beforeCharging, true, false, map[string]int32{"hold": 1, "probe": 1, "retry": 2}},
		{"after the charge", mortal{}, afterCharging, true, false, map[string]int32{"hold": 1, "probe": 1, "retry": 2}},
		{"before it stores", mortal{beforeComplete: true}, "", true, false, map[string]int32{"hold": 1, "probe": 1, "retry": 2}},
		{"before it answers", mortal{afterWrite: true}, "", false, true, map[string]int32{"hold": 1, "probe": 1, "retry": 1}},
	} {
		for _, name := range []string{"hold", "probe", "retry"} {
			t.Run(tc.at+" "+name, func(t *testing.T) {
				k, table := newBank(t, never), newHooked()
				m := tc.mortal
				b := newDying(t, k, table, &m, policy(name))
				paid := make(chan struct{}, 10)
				killing := func(_ *http.Request, c net.Conn) {
					if tc.bank == beforeCharging {
						m.kill()
					}
					k.charged.Add(1)
					if tc.bank == afterCharging {
						m.kill()
					}
					io.WriteString(c, created)
					paid <- struct{}{}
				}
				k.pay.Store(&killing)
				c := b.dial(charge("k", "x"))
				if raw, _ := io.ReadAll(c); len(raw) > 0 {
					t.Fatalf("a dead gateway says %q", raw)
				}
				<-m.dead
				if tc.bank != "" {
					<-paid // the upstream goes on without it
				}
				survivor := newBench(t, k.upstream, Deps{Keeper: table}, policy(name))
				k.tellsTheTruth(survivor.record("k"))
				if tc.reserved {
					survivor.send(charge("k", "x")).expect(t, 409, onced.CodeRequestInProgress)
					table.ahead.Store(62_000)
				}
				last := survivor.send(charge("k", "x"))
				switch {
				case name == "hold" && tc.reserved:
					last.expect(t, 409, onced.CodeOutcomeUnknown)
				case tc.answered:
					last.expect(t, 201, "").replayed(t, "true")
				default:
					last.expect(t, 201, "")
				}
				if got := k.charged.Load(); got != tc.charged[name] {
					t.Fatalf("%d times charged, expected %d", got, tc.charged[name])
				}
				k.tellsTheTruth(survivor.record("k"))
			})
		}
	}
}

// A client that is cut off at any point of its request or its answer, and comes again, is charged once. (F35)
func TestClientCutAtTenPoints(t *testing.T) {
	request := charge("k", `{"amount":500,"currency":"EUR"}`)
	cut := func(name string, sent, read int, charged int32) {
		t.Run(name, func(t *testing.T) {
			k := newBank(t, never)
			var runs sync.WaitGroup
			if charged > 0 {
				runs.Add(1)
			}
			b := newBench(t, k.upstream, Deps{Observe: func(e Event) {
				if e.Outcome == Executed {
					runs.Done()
				}
			}}, Route{Match: "POST /charge"})
			c := b.dial(request[:sent])
			if _, err := io.ReadFull(c, make([]byte, read)); err != nil {
				t.Fatal(err)
			}
			c.(*net.TCPConn).SetLinger(0) // a reset, as of a client that died
			c.Close()
			runs.Wait()
			if got := k.charged.Load(); got != charged {
				t.Fatalf("%d times charged after the cut, expected %d", got, charged)
			}
			k.tellsTheTruth(b.record("k"))
			if charged == 0 {
				runs.Add(1)
			}
			b.send(request).expect(t, 201, "").replayed(t, fmt.Sprint(charged > 0))
			if got := k.charged.Load(); got != 1 {
				t.Fatalf("%d times charged, expected 1", got)
			}
		})
	}
	whole := len(request)
	for i, sent := range []int{0, 20, 60, whole - 31, whole - 10, whole - 1} {
		cut(fmt.Sprintf("request %d", i), sent, 0, 0)
	}
	for i, read := range []int{1, 40, 120, 250} {
		cut(fmt.Sprintf("answer %d", i), whole, read, 1)
	}
}
