package gateway

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// An upstream that answers without reading its request is heard whole: it must not have a reason to close the connection
// under its own answer.
func TestAnUpstreamThatDoesNotReadItsRequest(t *testing.T) {
	for name, size := range map[string]int{"kept": 512 << 10, "streamed": 24 << 20} {
		t.Run(name, func(t *testing.T) {
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, strings.Repeat("x", size))
			}))
			defer service.Close()
			events := make(chan Event, 10)
			b := newBenchOf(t, nil, Config{Upstream: service.URL, Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge"}}}, Deps{Observe: func(e Event) { events <- e }})
			for _, key := range []string{"a", "b", "c"} {
				if r := b.send(charge(key, strings.Repeat("y", 200<<10))); r.status != 201 || len(r.body) != size || r.cut != nil {
					t.Fatalf("%d with %d bytes of %d, %v", r.status, len(r.body), size, r.cut)
				}
				if e := <-events; e.Outcome != Executed {
					t.Fatalf("the outcome is %s", e.Outcome)
				}
			}
		})
	}
}

// The upstream's connection is closed once its answer is there, before that is recorded: an upstream that serves one
// connection at a time waits for nothing else.
func TestTheUpstreamIsLetGoWithItsAnswer(t *testing.T) {
	let := make(chan struct{})
	up := newUpstream(t, func(_ int, _ *http.Request, c net.Conn) bool {
		io.WriteString(c, created)
		io.Copy(io.Discard, c)
		close(let)
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	b.keeper.hook(&b.keeper.complete, func() error {
		select {
		case <-let:
		case <-time.After(5 * time.Second):
			t.Error("the connection is open while the answer is recorded")
		}
		return nil
	})
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
}
