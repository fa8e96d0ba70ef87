package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"onced"
)

// An upgrade on a protected route is not passed on: the operation has one answer, which can be stored.
func TestAnUpgradeOnAProtectedRouteIsNone(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for _, marker := range []string{"false", "true"} {
		b.send(charge("k", "x", "Connection: Upgrade, HTTP2-Settings", "Upgrade: websocket, h2c", "HTTP2-Settings: AAMAAABk", "Sec-WebSocket-Key: x")).expect(t, 201, "").replayed(t, marker)
	}
	if got := up.request(1); strings.Contains(got, "Upgrade") || strings.Contains(got, "Settings") || strings.Contains(got, "Connection:") {
		t.Fatalf("forwarded was\n%s", got)
	}
	b.expectRuns(1)
}

// After an upgrade bytes go both ways at any time, also those that came with the heads, until either side ends.
func TestAnUpgradedConnectionGoesBothWays(t *testing.T) {
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
		got := make([]byte, 5)
		for range 1000 {
			if _, err := io.ReadFull(c, got); err != nil {
				return false
			}
			io.WriteString(c, strings.ToUpper(string(got)))
		}
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	c := b.dial("GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("%+v, %v", resp, err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "first" {
		t.Fatalf("%q, %v", got, err)
	}
	for i := range 1000 {
		fmt.Fprintf(c, "a%04d", i)
		if _, err := io.ReadFull(in, got); err != nil || string(got) != fmt.Sprintf("A%04d", i) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) != 0 {
		t.Fatalf("after the end %q, %v", rest, err)
	}
	if got := up.request(1); !strings.Contains(got, "\r\nUpgrade: websocket\r\n") || !strings.Contains(got, "\r\nSec-Websocket-Key: x\r\n") {
		t.Fatalf("the upstream got\n%s", got)
	}
}

// Every event is at the client before the next one is sent, on a route that is not protected too. (F48)
func TestEventsAreFlushedUnprotected(t *testing.T) {
	for name, head := range map[string]string{"chunked": "Transfer-Encoding: chunked\r\n", "until the end": ""} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			up := newUpstream(t, func(_ int, _ *http.Request, c net.Conn) bool {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"+head+"\r\n")
				for range 3 {
					if head != "" {
						io.WriteString(c, "9\r\ndata: 1\n\n\r\n")
					} else {
						io.WriteString(c, "data: 1\n\n")
					}
					<-next
				}
				if head != "" {
					io.WriteString(c, "0\r\n\r\n")
				}
				return false
			})
			b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
			resp, err := http.ReadResponse(bufio.NewReader(b.dial("GET /events HTTP/1.1\r\nHost: h\r\n\r\n")), nil)
			if err != nil {
				t.Fatal(err)
			}
			event := make([]byte, 9)
			for range 3 {
				if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != "data: 1\n\n" {
					t.Fatalf("%q, %v", event, err)
				}
				next <- struct{}{}
			}
			if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
				t.Fatalf("%q, %v", rest, err)
			}
		})
	}
}

const (
	flood     = 64 << 20 // bytes that pass
	floodHeap = 24 << 20 // bytes of heap, at most, above what there was
)

// heap watches the heap while something passes.
type heap struct {
	mu         sync.Mutex
	base, peak uint64
}

func (h *heap) begin() {
	runtime.GC()
	now := heapNow()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.base, h.peak = now, 0
}

func (h *heap) look() {
	now := heapNow()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.peak = max(h.peak, now)
}

func heapNow() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// pour writes flood bytes to w, and looks at each MiB.
func (h *heap) pour(w io.Writer) error {
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range flood >> 20 {
		if _, err := w.Write(piece); err != nil {
			return err
		}
		h.look()
	}
	return nil
}

func (h *heap) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.peak == 0 {
		t.Fatal("nobody looked")
	}
	if h.peak > h.base+floodHeap {
		t.Errorf("the heap grew from %d to %d MiB while %d MiB passed", h.base>>20, h.peak>>20, flood>>20)
	}
}

// 64 MiB pass with flat memory: an answer that is too large to keep, an event stream, an answer and a body that are not
// protected, and an upgraded connection.
func TestLargeThingsPassWithFlatMemory(t *testing.T) {
	var h heap
	chunks := func(c net.Conn, kind string) error {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", kind, flood)
		if err := h.pour(c); err != nil {
			return err
		}
		_, err := io.WriteString(c, "\r\n0\r\n\r\n")
		return err
	}
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		switch r.URL.Path {
		case "/charge", "/large":
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", flood)
			h.pour(c)
		case "/events":
			chunks(c, "text/event-stream")
		case "/ws":
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			h.pour(c)
		}
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"}, Route{Match: "POST /events"})
	for name, request := range map[string]string{
		"a protected answer": charge("k", "x"), "a protected event stream": post("/events", "e", "x"), "an answer": "GET /large HTTP/1.1\r\nHost: h\r\n\r\n",
		"an upgraded connection": "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			h.begin()
			in := bufio.NewReader(b.dial(request))
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			var body io.Reader = resp.Body
			if resp.StatusCode == 101 {
				body = in
			}
			if n, err := io.Copy(io.Discard, body); n != flood || err != nil {
				t.Fatalf("%d bytes, %v", n, err)
			}
			h.check(t)
		})
	}
	b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept)
	b.send(post("/events", "e", "x")).expect(t, 409, onced.CodeResponseNotKept)
}

func TestALargeBodyPassesWithFlatMemory(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, " ", err)
	})}
	go server.Serve(ln)
	defer server.Close()
	b := newBenchOf(t, nil, Config{Upstream: "http://" + ln.Addr().String(), Tenant: "single"}, Deps{})
	var h heap
	h.begin()
	c := b.dial(fmt.Sprintf("POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", flood))
	if err := h.pour(c); err != nil {
		t.Fatal(err)
	}
	if r := b.read(c).expect(t, 200, ""); r.body != fmt.Sprint(flood, " <nil>") {
		t.Fatalf("the upstream read %s", r.body)
	}
	h.check(t)
}

// A thousand clients that send half a head, half a body, or take nothing of their answer, hold up nobody else.
func TestAThousandSlowClientsHoldUpNobody(t *testing.T) {
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		if strings.HasPrefix(r.Header.Get("Idempotency-Key"), "large") {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", 8<<20) // more than sockets take
			piece := make([]byte, 64<<10)
			for range 8 << 20 / len(piece) {
				if _, err := c.Write(piece); err != nil {
					break
				}
			}
			return false
		}
		io.WriteString(c, created)
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for i := range 1000 {
		switch {
		case i%20 == 0:
			b.dial(charge(fmt.Sprint("large", i), "x"))
		case i%3 == 0:
			b.dial("POST /charge HTTP/1.1\r\nHost: pay.exam")
		case i%3 == 1:
			b.dial(strings.TrimSuffix(charge(fmt.Sprint("half", i), "a body that does not come"), "does not come"))
		case i%3 == 2:
			b.dial("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		}
	}
	began := time.Now()
	var quick sync.WaitGroup
	for i := range 50 {
		quick.Go(func() {
			for _, marker := range []string{"false", "true"} {
				b.send(charge(fmt.Sprint("quick", i), "x", "Connection: close")).expect(t, 201, "").replayed(t, marker)
			}
		})
	}
	quick.Wait()
	if took := time.Since(began); took > 8*time.Second { // less than the time-outs that would set the slow ones aside
		t.Errorf("fifty quick clients took %v", took)
	}
	b.server.Close() // cuts the slow ones
}
