package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"onced"
)

// A client that expects 100 gets it when its body is wanted, once, and the upstream is not asked for it.
func TestABodyIsAskedForWhenItIsWanted(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	c := b.dial(strings.TrimSuffix(charge("k", "body", "Expect: 100-continue"), "body"))
	in := bufio.NewReader(c)
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	got := make([]byte, len(goOn))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != goOn {
		t.Fatalf("%q, %v", got, err)
	}
	io.WriteString(c, "body")
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 201 Created\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if got := up.request(1); strings.Contains(got, "Expect") || !strings.HasSuffix(got, "\r\n\r\nbody") {
		t.Fatalf("the upstream got\n%s", got)
	}
	b.expectRuns(1)
}

// What is refused is refused before its body is asked for: no 100, not a byte read.
func TestNoBodyIsAskedForInVain(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge", MaxRequest: "1KiB"}, Route{Match: "POST /strict", KeyPattern: "[0-9]+"})
	head := func(path string, lines ...string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n" + strings.Join(append(lines, "\r\n"), "\r\n")
	}
	for name, tc := range map[string]struct {
		head   string
		status int
		code   onced.Code
	}{
		"no account":     {head("/charge", "Idempotency-Key: k"), 401, onced.CodeUnauthenticated},
		"no key":         {head("/charge", "X-Account: acme"), 400, onced.CodeKeyRequired},
		"a bad key":      {head("/charge", "X-Account: acme", `Idempotency-Key: "k`), 400, onced.CodeKeyInvalid},
		"another form":   {head("/strict", "X-Account: acme", "Idempotency-Key: k"), 400, onced.CodeKeyInvalid},
		"a bad path":     {head("//charge", "X-Account: acme", "Idempotency-Key: k"), 400, onced.CodeInvalidRequest},
		"too large":      {strings.Replace(head("/charge", "X-Account: acme", "Idempotency-Key: k"), "Length: 9", "Length: 1025", 1), 413, onced.CodeRequestTooLarge},
		"HTTP/2, no key": {"", 400, onced.CodeKeyRequired},
	} {
		t.Run("refused/"+name, func(t *testing.T) {
			if tc.head == "" {
				s, _ := b.ask(nil, append(chargeFields("")[:5], "expect: 100-continue", "content-length: 9"), "")
				got, err := s.answer()
				if err != nil || !strings.HasPrefix(got, ":status: 400\n") || !strings.Contains(got, string(tc.code)) {
					t.Fatalf("%q, %v", got, err)
				}
				return
			}
			all, err := io.ReadAll(b.dial(tc.head)) // until the gateway closes: it waits for no body
			if err != nil {
				t.Fatal(err)
			}
			b.read(fixed(string(all))).expect(t, tc.status, tc.code)
			if strings.Contains(string(all), "100 Continue") || !strings.Contains(string(all), "\r\nConnection: close\r\n") {
				t.Fatalf("got\n%s", all)
			}
		})
	}
	odd := b.dial(strings.Replace(head("/charge", "X-Account: acme", "Idempotency-Key: k"), "100-continue", "miracles", 1))
	if line, err := bufio.NewReader(odd).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 417 ") {
		t.Fatalf("%q, %v", line, err)
	}
	b.expectRuns(0)
}

// fixed is a connection on which text has come.
func fixed(text string) net.Conn {
	near, far := net.Pipe()
	go func() {
		io.WriteString(far, text)
		far.Close()
	}()
	return near
}

// The same with frames: 100 comes before the body is sent, and only then.
func TestABodyIsAskedForOverHTTP2(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	c := b.dial(http2.ClientPreface)
	s := &stream{Framer: newFramer(c), id: 1}
	s.WriteSettings()
	s.head(false, chargeFields("k", "expect: 100-continue", "content-length: 4")...)
	streams := map[uint32]*stream{}
	for streams[1] == nil {
		frame, err := s.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		take(s.Framer, streams, frame)
	}
	if got := strings.Join(streams[1].fields, "\n"); got != ":status: 100" {
		t.Fatalf("got %q", got)
	}
	s.WriteData(1, true, []byte("body"))
	got, err := s.answer()
	if err != nil || !strings.HasPrefix(got, ":status: 201\n") {
		t.Fatalf("%q, %v", got, err)
	}
	b.expectRuns(1)
}

// On a route that is not protected the upstream decides whether it wants the body.
func TestExpectIsTheUpstreamsUnprotected(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b := newBenchOf(t, nil, Config{Upstream: "http://" + ln.Addr().String(), Tenant: "single"}, Deps{})
	const head = "POST /upload HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 4\r\n\r\n"
	for _, wanted := range []bool{true, false} {
		c := b.dial(head)
		far, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		far.SetDeadline(time.Now().Add(20 * time.Second))
		in := bufio.NewReader(far)
		got := ""
		for !strings.HasSuffix(got, "\r\n\r\n") {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			got += line
		}
		if !strings.Contains(got, "\r\nExpect: 100-continue\r\n") {
			t.Fatalf("the upstream got\n%s", got)
		}
		answer, body := "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", ""
		if wanted {
			io.WriteString(far, "HTTP/1.1 100 Continue\r\n\r\n")
			if line, err := bufio.NewReader(io.LimitReader(c, int64(len("HTTP/1.1 100 Continue\r\n\r\n")))).ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("%q, %v", line, err)
			}
			io.WriteString(c, "body")
			whole := make([]byte, 4)
			if _, err := io.ReadFull(in, whole); err != nil {
				t.Fatal(err)
			}
			answer, body = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", string(whole)
		}
		io.WriteString(far, answer)
		all, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(all), answer[:12]) || strings.Contains(string(all), "100 Continue") || wanted != (body == "body") {
			t.Fatalf("%q, %v", all, err)
		}
		far.Close()
	}
}

// A gateway that is shutting down asks for no body either.
func TestNoBodyIsAskedForWhileDraining(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := b.g.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(b.dial(strings.TrimSuffix(charge("k", "body", "Expect: 100-continue"), "body")))
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 503 ") {
		t.Fatalf("%q, %v", all, err)
	}
}
