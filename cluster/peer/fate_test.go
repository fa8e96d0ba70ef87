package peer

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestNobodyThereIsNotSent(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, _ := open(t, "n2", nil)
	b.Close()
	if _, err := a.Call(within(t), b.Addr(), "/x", []byte("x")); !errors.Is(err, ErrNotSent) {
		t.Errorf("error %v, want ErrNotSent", err)
	}
	if _, err := a.Call(within(t), "no.such.host.invalid:1", "/x", []byte("x")); !errors.Is(err, ErrNotSent) {
		t.Errorf("a name that does not resolve: %v, want ErrNotSent", err)
	}
}

func TestEndedContextIsNotSent(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, _ := open(t, "n2", nil)
	var ran atomic.Int32
	b.HandleAny("/x", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran.Add(1) }))
	if _, err := a.Call(within(t), b.Addr(), "/x", []byte("x")); err != nil { // one kept connection
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 200 {
		if _, err := a.Call(ctx, b.Addr(), "/x", []byte("x")); !errors.Is(err, ErrNotSent) {
			t.Fatalf("error %v, want ErrNotSent", err)
		}
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("the handler ran %d times, want once", n)
	}
}

// A call that ends at any point of its way is never called "not sent" when the
// handler saw it.
func TestNotSentIsNeverALie(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, _ := open(t, "n2", nil)
	var ran atomic.Int64
	b.HandleAny("/x", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran.Add(1) }))
	var sent int64
	for i := range 2000 {
		ctx, cancel := context.WithCancel(context.Background())
		stop := make(chan struct{})
		go func() {
			for range i % 200 {
				select {
				case <-stop:
				default:
				}
			}
			cancel()
		}()
		_, err := a.Call(ctx, b.Addr(), "/x", []byte("x"))
		close(stop)
		cancel()
		if !errors.Is(err, ErrNotSent) {
			sent++
		}
	}
	b.Close()
	if n := ran.Load(); n > sent {
		t.Errorf("the handler ran %d times, only %d calls may have been sent", n, sent)
	}
}

func TestAnswerLostIsFateUnknown(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, log := open(t, "n2", nil)
	var ran atomic.Int32
	b.HandleAny("/ok", echo)
	b.HandleAny("/cut", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		ran.Add(1)
		panic(http.ErrAbortHandler)
	}))
	b.HandleAny("/panic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		ran.Add(1)
		panic("a broken invariant")
	}))
	for _, path := range []string{"/cut", "/panic"} {
		ran.Store(0)
		if _, err := a.Call(within(t), b.Addr(), "/ok", nil); err != nil { // so that the next goes over a reused connection
			t.Fatal(err)
		}
		_, err := a.Call(within(t), b.Addr(), path, []byte("x"))
		var status *StatusError
		if err == nil || errors.Is(err, ErrNotSent) || errors.As(err, &status) {
			t.Errorf("%s: error %v, want one that tells neither yes nor no", path, err)
		}
		if n := ran.Load(); n != 1 {
			t.Errorf("%s: the handler ran %d times, want once", path, n)
		}
	}
	log.has(t, "a broken invariant")
}

// Kept connections that died are found out before anything is written on them or
// after; the request travels once in either case.
func TestDeadKeptConnections(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, _ := open(t, "n2", nil)
	var ran atomic.Int32
	b.HandleAny("/x", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran.Add(1) }))
	for i := range 200 {
		ran.Store(0)
		_, err := a.Call(within(t), b.Addr(), "/x", []byte("x"))
		switch n := ran.Load(); {
		case err == nil && n != 1:
			t.Fatalf("try %d: answered, but the handler ran %d times", i, n)
		case errors.Is(err, ErrNotSent) && n != 0:
			t.Fatalf("try %d: not sent, but the handler ran", i)
		case n > 1:
			t.Fatalf("try %d: the handler ran %d times", i, n)
		}
		b.cut(func(*conn) bool { return true })
	}
}

// A kept connection that takes nothing any more is replaced by another, and the call
// is carried out once.
func TestKeptConnectionThatTakesNothing(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, _ := open(t, "n2", nil)
	var ran atomic.Int32
	b.HandleAny("/x", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran.Add(1) }))
	for want := int32(1); want <= 3; want++ {
		if _, err := a.Call(within(t), b.Addr(), "/x", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if n := ran.Load(); n != want {
			t.Fatalf("the handler ran %d times, want %d", n, want)
		}
		a.mu.Lock()
		for c := range a.conns {
			c.mu.Lock()
			c.sealed = true
			c.mu.Unlock()
		}
		a.mu.Unlock()
	}
}

func TestSealedConnTakesNothing(t *testing.T) {
	a, _ := open(t, "n1", nil)
	near, far := net.Pipe()
	defer far.Close()
	c := &conn{Conn: near, port: a}
	mark := c.written()
	if !c.seal(mark) {
		t.Fatal("nothing was written, but seal says so")
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, errSealed) {
		t.Errorf("write after seal: %v", err)
	}
	d := &conn{Conn: near, port: a}
	mark = d.written()
	_, _ = d.Write([]byte("x"))
	if d.seal(mark) {
		t.Error("a write was begun, but seal says nothing left")
	}
}

func TestCloseEndsCallsUnderWay(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, _ := open(t, "n2", nil)
	started := make(chan struct{})
	b.HandleAny("/slow", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
	}))
	result := make(chan error)
	go func() {
		_, err := a.Call(context.Background(), b.Addr(), "/slow", nil)
		result <- err
	}()
	<-started
	b.Close()
	if err := <-result; err == nil || errors.Is(err, ErrNotSent) {
		t.Errorf("error %v, want one that tells neither yes nor no", err)
	}
	a.Close()
	if _, err := a.Call(context.Background(), b.Addr(), "/slow", nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("call after Close: %v, want ErrNotSent", err)
	}
}

func TestRequestCannotBeSentTwice(t *testing.T) {
	a, _ := open(t, "n1", nil)
	r := a.request(context.Background(), "n2:1", "/x", []byte("x"))
	if r.GetBody != nil || r.Method != http.MethodPost {
		t.Error("net/http may send this request again by itself")
	}
	for name := range r.Header {
		if strings.Contains(name, "Idempotency") {
			t.Errorf("header %s makes net/http send it again", name)
		}
	}
}
