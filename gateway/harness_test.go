package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced"
	"onced/fsm/memkeeper"
)

// upstream is a scripted server on a raw socket. It notes every byte that it is sent.
type upstream struct {
	t    *testing.T
	ln   net.Listener
	mu   sync.Mutex
	seen []string                // the bytes of each request, whole
	over func(net.Conn) net.Conn // what requests are read through; nil = the connection itself
	// script answers request n (from 1) on its connection; the connection is closed
	// when it returns false.
	script func(n int, r *http.Request, c net.Conn) bool
}

func newUpstream(t *testing.T, script func(n int, r *http.Request, c net.Conn) bool) *upstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{t: t, ln: ln, script: script}
	var conns sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			go func() {
				defer conns.Done()
				stop := context.AfterFunc(ctx, func() { c.Close() })
				defer stop()
				u.serve(c)
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		cancel()
		conns.Wait()
	})
	return u
}

// answers is a script that says the same to every request and closes.
func answers(text string) func(int, *http.Request, net.Conn) bool {
	return func(_ int, _ *http.Request, c net.Conn) bool {
		io.WriteString(c, text)
		return false
	}
}

// wrap has the requests that come read through what over makes of a connection.
func (u *upstream) wrap(over func(net.Conn) net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = over
}

func (u *upstream) serve(c net.Conn) {
	u.mu.Lock()
	if u.over != nil {
		c = u.over(c)
	}
	u.mu.Unlock()
	defer c.Close()
	var raw bytes.Buffer
	in := bufio.NewReader(io.TeeReader(c, &raw))
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		u.mu.Lock()
		u.seen = append(u.seen, raw.String())
		n := len(u.seen)
		u.mu.Unlock()
		raw.Reset()
		if !u.script(n, r, c) {
			return
		}
	}
}

// runs is how many requests arrived.
func (u *upstream) runs() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.seen)
}

func (u *upstream) request(n int) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return unnamed(u.seen[n-1])
}

// sent is request, with an id that the gateway gave it.
func (u *upstream) sent(n int) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen[n-1]
}

var madeName = regexp.MustCompile(`(?i)X-Request-Id: [A-Z2-7]{26}\r?\n`)

// unnamed is a head without the id that the gateway gave its request. TestRequestIDs has those.
func unnamed(head string) string { return madeName.ReplaceAllString(head, "") }

// hooked is the real state machine in memory with a hook before each verb; a hook that
// returns an error decides the call.
type hooked struct {
	*memkeeper.Keeper
	ahead atomic.Int64 // milliseconds that its clock is ahead

	mu                                sync.Mutex
	reserve, complete, release, renew func() error
	get                               func() error
}

func newHooked() *hooked {
	h := &hooked{}
	h.Keeper = memkeeper.New(func() onced.Instant { return onced.InstantOf(time.Now()) + onced.Instant(h.ahead.Load()) })
	return h
}

func (h *hooked) hook(f *func() error, do func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*f = do
}

func (h *hooked) before(f *func() error) error {
	h.mu.Lock()
	do := *f
	h.mu.Unlock()
	if do == nil {
		return nil
	}
	return do()
}

func (h *hooked) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	if err := h.before(&h.reserve); err != nil {
		return onced.ReserveResult{}, err
	}
	return h.Keeper.Reserve(ctx, r)
}

func (h *hooked) Complete(ctx context.Context, r onced.CompleteRequest) (onced.Record, error) {
	if err := h.before(&h.complete); err != nil {
		return onced.Record{}, err
	}
	return h.Keeper.Complete(ctx, r)
}

func (h *hooked) Release(ctx context.Context, r onced.ReleaseRequest) error {
	if err := h.before(&h.release); err != nil {
		return err
	}
	return h.Keeper.Release(ctx, r)
}

func (h *hooked) Renew(ctx context.Context, r onced.RenewRequest) (onced.Record, error) {
	if err := h.before(&h.renew); err != nil {
		return onced.Record{}, err
	}
	return h.Keeper.Renew(ctx, r)
}

func (h *hooked) Get(ctx context.Context, r onced.GetRequest) (onced.Record, error) {
	if err := h.before(&h.get); err != nil {
		return onced.Record{}, err
	}
	return h.Keeper.Get(ctx, r)
}

func unavailable() error { return onced.Problemf(onced.CodeUnavailable, "no majority") }

// bench is a gateway on a loopback port before an upstream.
type bench struct {
	t      *testing.T
	g      *Gateway
	keeper *hooked
	up     *upstream
	addr   string
	server *http.Server
	watch  chan context.Context // gets the context of each request while it is not nil
}

// newBench starts a gateway whose routes are those given, tenant header:X-Account.
func newBench(t *testing.T, up *upstream, d Deps, routes ...Route) *bench {
	t.Helper()
	return newBenchOf(t, up, Config{Tenant: "header:X-Account", Routes: routes}, d)
}

func newBenchOf(t *testing.T, up *upstream, c Config, d Deps) *bench {
	t.Helper()
	b := &bench{t: t, up: up}
	if d.Keeper == nil {
		d.Keeper = newHooked()
	}
	b.keeper, _ = d.Keeper.(*hooked)
	if d.Logger == nil {
		d.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	d.Secret = []byte("a secret of thirty-two bytes, or so")
	if c.Upstream == "" {
		c.Upstream = "http://" + up.ln.Addr().String()
	}
	var err error
	if b.g, err = New(c, d); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.addr = ln.Addr().String()
	b.server = b.g.Server(c)
	b.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.watch != nil {
			b.watch <- r.Context()
		}
		b.g.ServeHTTP(w, r)
	})
	go b.server.Serve(b.g.Listener(ln))
	t.Cleanup(func() {
		b.server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		b.g.Drain(ctx)
	})
	return b
}

// reply is an answer as it came over the wire.
type reply struct {
	raw    string // status line and headers
	status int
	header http.Header
	body   string
	cut    error // the body did not arrive whole
}

func (r reply) String() string { return fmt.Sprintf("%s\n%s (cut: %v)", r.raw, r.body, r.cut) }

// dial connects to the gateway and writes text.
func (b *bench) dial(text string) net.Conn {
	b.t.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// send writes a request as it is and reads one answer.
func (b *bench) send(text string) reply {
	b.t.Helper()
	return b.read(b.dial(text))
}

func (b *bench) read(c net.Conn) reply {
	b.t.Helper()
	var raw bytes.Buffer
	in := bufio.NewReader(io.TeeReader(c, &raw))
	resp, err := http.ReadResponse(in, nil)
	for err == nil && resp.StatusCode < 200 && resp.StatusCode != 101 {
		resp, err = http.ReadResponse(in, nil)
	}
	if err != nil {
		b.t.Fatalf("reading the answer: %v (so far %q)", err, raw.String())
	}
	body, err := io.ReadAll(resp.Body)
	head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
	return reply{raw: head, status: resp.StatusCode, header: resp.Header, body: string(body), cut: err}
}

// charge is a POST /charge of tenant acme.
func charge(key, body string, more ...string) string {
	return post("/charge", key, body, more...)
}

func post(path, key, body string, more ...string) string {
	lines := []string{"POST " + path + " HTTP/1.1", "Host: pay.example", "X-Account: acme"}
	if key != "" {
		lines = append(lines, "Idempotency-Key: "+key)
	}
	lines = append(append(lines, more...), fmt.Sprintf("Content-Length: %d", len(body)))
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

func (r reply) hasCode(code onced.Code) bool {
	return strings.Contains(r.body, `"code":"`+string(code)+`"`)
}

// expect fails the test unless the answer has this status and, for a problem, this code.
func (r reply) expect(t *testing.T, status int, code onced.Code) reply {
	t.Helper()
	if r.status != status || code != "" && !r.hasCode(code) {
		t.Fatalf("got\n%v\nexpected %d %s", r, status, code)
	}
	return r
}

func (r reply) replayed(t *testing.T, want string) reply {
	t.Helper()
	if got := r.header.Get("Idempotency-Replayed"); got != want {
		t.Fatalf("Idempotency-Replayed is %q, expected %q, on\n%v", got, want, r)
	}
	return r
}

// expectRuns fails the test unless the upstream was asked n times.
func (b *bench) expectRuns(n int) {
	b.t.Helper()
	if got := b.up.runs(); got != n {
		b.t.Fatalf("the upstream ran %d times, expected %d", got, n)
	}
}

// record returns the record of acme's key.
func (b *bench) record(key string) onced.Record {
	b.t.Helper()
	rec, err := b.keeper.Keeper.Get(context.Background(), onced.GetRequest{ID: onced.ID{Tenant: "acme", Key: onced.Key(key)}})
	if err != nil && onced.CodeOf(err) != onced.CodeKeyNotFound {
		b.t.Fatal(err)
	}
	return rec
}

const created = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nLocation: /charges/7\r\nETag: \"v1\"\r\nLink: <a>; rel=x\r\nLink: <b>; rel=y\r\nContent-Length: 12\r\n\r\n{\"charge\":7}"
