package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"onced"
)

// A large answer is sent whole, but not its last piece before it is recorded.
func TestALargeAnswerIsRecordedBeforeItsLastByte(t *testing.T) {
	for _, framing := range []string{"length", "chunked", "just over"} {
		t.Run(framing, func(t *testing.T) {
			size := 300_000
			if framing == "just over" {
				size = 1025
			}
			body := strings.Repeat("0123456789", size/10+1)[:size]
			up := newUpstream(t, func(_ int, _ *http.Request, c net.Conn) bool {
				if framing == "chunked" {
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, body)
				} else {
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, body)
				}
				return false
			})
			b := newBench(t, up, Deps{}, Route{Match: "POST /charge", MaxResponse: "1KiB"})
			asked, store := make(chan struct{}), make(chan struct{})
			b.keeper.hook(&b.keeper.complete, func() error { close(asked); <-store; return nil })
			got := make(chan reply, 1)
			c := b.dial(charge("k", "x"))
			go func() { got <- b.read(c) }()
			<-asked
			select {
			case r := <-got:
				t.Fatalf("the answer was whole before it was recorded: %d bytes", len(r.body))
			case <-time.After(30 * time.Millisecond):
			}
			close(store)
			r := <-got
			if r.expect(t, 200, "").replayed(t, "false"); r.body != body || r.cut != nil {
				t.Fatalf("%d bytes arrived, expected %d (%v)", len(r.body), size, r.cut)
			}
			again := b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept).replayed(t, "true")
			if !strings.Contains(again.body, `"original_status":200`) || !strings.Contains(again.body, `"retry":"stop"`) {
				t.Fatalf("the duplicate got\n%v", again)
			}
			b.expectRuns(1)
		})
	}
}

func TestALargeAnswerThatIsCut(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"+strings.Repeat("x", 150_000)))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", MaxResponse: "1KiB"})
	if r := b.send(charge("k", "x")); r.cut == nil {
		t.Fatalf("a cut answer was passed on as whole: %d bytes", len(r.body))
	}
	b.send(charge("k", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
	b.expectRuns(1)
}

// What cannot be recorded must not look whole to the client.
func TestALargeAnswerThatCannotBeRecorded(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"+strings.Repeat("x", 9000)))
	b := newBench(t, up, Deps{RequestTimeout: 50 * time.Millisecond}, Route{Match: "POST /charge", MaxResponse: "1KiB"})
	b.keeper.hook(&b.keeper.complete, unavailable)
	if r := b.send(charge("k", "x")); r.cut == nil {
		t.Fatalf("the answer came whole though it is not recorded: %d bytes", len(r.body))
	}
	b.send(charge("k", "x")).expect(t, 409, onced.CodeRequestInProgress)
	b.expectRuns(1)
}

func TestAnAnswerOfExactlyTheLimitIsKept(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n"+strings.Repeat("x", 1024)))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", MaxResponse: "1KiB"})
	b.send(charge("k", "x")).expect(t, 200, "")
	if r := b.send(charge("k", "x")).expect(t, 200, "").replayed(t, "true"); len(r.body) != 1024 {
		t.Fatalf("replayed %d bytes", len(r.body))
	}
	b.expectRuns(1)
}

func TestEventStream(t *testing.T) {
	next := make(chan struct{})
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 3 {
			io.WriteString(c, "9\r\ndata: 1\n\n\r\n")
			<-next
		}
		if r.Header.Get("Idempotency-Key") != "cut" {
			io.WriteString(c, "0\r\n\r\n")
		}
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for _, key := range []string{"whole", "cut"} {
		resp, err := http.ReadResponse(bufio.NewReader(b.dial(charge(key, "x"))), nil)
		if err != nil {
			t.Fatal(err)
		}
		event := make([]byte, 9)
		for range 3 { // each event is here before the next one is sent
			if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != "data: 1\n\n" {
				t.Fatalf("got %q, %v", event, err)
			}
			next <- struct{}{}
		}
		_, err = io.ReadAll(resp.Body)
		if (err != nil) != (key == "cut") {
			t.Fatalf("%s: the stream ended with %v", key, err)
		}
	}
	b.send(charge("whole", "x")).expect(t, 409, onced.CodeResponseNotKept)
	b.send(charge("cut", "x")).expect(t, 409, onced.CodeOutcomeUnknown)
	b.expectRuns(2)
}

// A client that leaves in the middle of a stream does not end the operation.
func TestEventStreamGoesOnWithoutItsClient(t *testing.T) {
	gone := make(chan struct{})
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
		<-gone
		for range 100 {
			io.WriteString(c, "9\r\ndata: 2\n\n\r\n")
		}
		io.WriteString(c, "0\r\n\r\n")
		return false
	})
	events := make(chan Event, 10)
	b := newBench(t, up, Deps{Observe: func(e Event) { events <- e }}, Route{Match: "POST /charge"})
	c := b.dial(charge("k", "x"))
	bufio.NewReader(c).ReadString('\n')
	c.Close()
	close(gone)
	if e := <-events; e.Outcome != Executed {
		t.Fatalf("the event is %+v", e)
	}
	b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept)
}

func TestInformationalAnswersArePassedOn(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"+created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	in := bufio.NewReader(b.dial(charge("k", "x")))
	early, err := http.ReadResponse(in, nil)
	if err != nil || early.StatusCode != 103 || early.Header.Get("Link") == "" {
		t.Fatalf("got %+v, %v", early, err)
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 201 || len(resp.Header["Link"]) != 2 {
		t.Fatalf("got %+v, %v", resp, err)
	}
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
}
