package gateway

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"onced"
)

var update = flag.Bool("update", false, "write the transcripts in testdata anew")

// scene is something that happens at a route; what its client is told is for the contract to say.
type scene struct {
	title string
	route func(*Route) // nil = as the contract has it
	play  func(s *stage)
}

// stage is a bench whose upstream says what the request's X-Say asks for, and a transcript of it.
type stage struct {
	*bench
	asked  chan struct{} // has one for each request that the upstream does not answer
	over   chan struct{}
	script strings.Builder
}

// tell sends a request and notes the answer whole.
func (s *stage) tell(what, request string) reply {
	s.t.Helper()
	return s.note(what, s.send(request))
}

func (s *stage) note(what string, got reply) reply {
	fmt.Fprintf(&s.script, "> %s\n%s\n\n%s\n", what, steady(got.raw), instant.ReplaceAllString(got.body, "(a time)"))
	return got
}

var (
	dates   = regexp.MustCompile(`(?m)^Date: .*$`)
	expires = regexp.MustCompile(`(?m)^Idempotency-Expires: (.*)$`)
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
)

// steady is the head of an answer without what differs from run to run.
func steady(head string) string {
	head = unnamed(head)
	head = dates.ReplaceAllString(strings.ReplaceAll(head, "\r\n", "\n"), "Date: now")
	return expires.ReplaceAllStringFunc(head, func(line string) string {
		at, err := time.Parse("2006-01-02T15:04:05.000Z", strings.TrimPrefix(line, "Idempotency-Expires: "))
		if err != nil {
			return line
		}
		return fmt.Sprintf("Idempotency-Expires: in %.0f h", time.Until(at).Hours())
	})
}

// says answers with the status that the request's X-Say names, else created. To "nothing" it waits for the
// scene to be over, to "goodbye" it cuts the connection.
func (s *stage) says() func(int, *http.Request, net.Conn) bool {
	return func(_ int, r *http.Request, c net.Conn) bool {
		switch say := r.Header.Get("X-Say"); say {
		case "":
			io.WriteString(c, created)
		case "nothing":
			s.asked <- struct{}{}
			<-s.over
		case "goodbye":
		default:
			fmt.Fprintf(c, "HTTP/1.1 %s X\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"n\":1}", say)
		}
		return false
	}
}

// refused has the Keeper refuse every reserve.
func (s *stage) refused(code onced.Code, after time.Duration) {
	s.keeper.hook(&s.keeper.reserve, func() error {
		return &onced.Problem{Code: code, Detail: "not now", RetryAfter: after, Record: &onced.Record{Token: 7, Owner: "somebody"}}
	})
	s.tell("a charge", charge("k", "x"))
}

// twice sends the same charge again, to an upstream that says a status.
func twice(status string) func(*stage) {
	return func(s *stage) {
		s.tell("a charge", charge("k", "x", "X-Say: "+status))
		s.tell("again", charge("k", "x", "X-Say: "+status))
	}
}

var scenes = []scene{
	{title: "a new key, and again", play: func(s *stage) {
		s.tell("a charge", charge("k", `{"amount":5}`, "Content-Type: application/json"))
		s.tell("again", charge("k", `{ "amount": 5 }`, "Content-Type: application/json"))
	}},
	{title: "another payload", play: func(s *stage) {
		s.send(charge("k", "x")).expect(s.t, 201, "")
		s.tell("the key for another charge", charge("k", "y"))
	}},
	{title: "still running", play: func(s *stage) {
		s.dial(charge("k", "x", "X-Say: nothing"))
		<-s.asked
		s.tell("the same charge", charge("k", "x"))
		s.tell("the key for another charge", charge("k", "y"))
	}},
	{title: "no key", play: func(s *stage) { s.tell("a charge", charge("", "x")) }},
	{title: "two keys", play: func(s *stage) { s.tell("a charge", charge("a,b", "x")) }},
	{title: "long keys", play: func(s *stage) {
		for _, n := range []int{191, 192, 255, 256} {
			fmt.Fprintf(&s.script, "> a key of %d bytes\n%d\n", n, s.send(charge(strings.Repeat("k", n), "x")).status)
		}
	}},
	{title: "no account", play: func(s *stage) {
		s.tell("a charge", "POST /charge HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n")
	}},
	{title: "the upstream says 303", play: twice("303")},
	{title: "the upstream says 402", play: twice("402")},
	{title: "the upstream says 409", play: twice("409")},
	{title: "the upstream says 429", play: twice("429")},
	{title: "the upstream says 500", play: twice("500")},
	{title: "the upstream says 503", play: twice("503")},
	{title: "the upstream cuts the connection", play: func(s *stage) {
		s.tell("a charge", charge("k", "x", "X-Say: goodbye"))
		s.tell("again", charge("k", "x"))
	}},
	{title: "past its retention", route: func(r *Route) { r.Tombstone = "1h" }, play: func(s *stage) {
		s.send(charge("k", "x")).expect(s.t, 201, "")
		s.keeper.ahead.Store((s.g.table.Load().routes[0].retention + time.Minute).Milliseconds())
		s.tell("again", charge("k", "x"))
	}},
	{title: "an answer too large to keep", route: func(r *Route) { r.MaxResponse = "5" }, play: func(s *stage) {
		s.tell("a charge", charge("k", "x"))
		s.tell("again", charge("k", "x"))
	}},
	{title: "a request too large to take", route: func(r *Route) { r.MaxRequest = "5" }, play: func(s *stage) { s.tell("a charge", charge("k", "larger")) }},
	{title: "too many reserves", play: func(s *stage) { s.refused(onced.CodeRateLimited, 1500*time.Millisecond) }},
	{title: "a full table", play: func(s *stage) { s.refused(onced.CodeQuotaExceeded, 0) }},
	{title: "the upstream cannot be reached, then it can", play: func(s *stage) {
		s.g.upstreams = newTransports(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route to it") })
		s.tell("a charge", charge("k", "x"))
		s.g.upstreams = newTransports(nil)
		s.tell("again", charge("k", "x"))
	}},
	{title: "no majority", play: func(s *stage) { s.refused(onced.CodeUnavailable, 0) }},
}

// Every contract says the same things in its own words: what its clients get is in the transcripts, byte for byte.
func TestTranscriptOfEachContract(t *testing.T) {
	for i := range contracts {
		ct := &contracts[i]
		t.Run(ct.name, func(t *testing.T) {
			var all strings.Builder
			for _, sc := range scenes {
				route := Route{Match: "POST /charge", Contract: ct.name}
				if sc.route != nil {
					sc.route(&route)
				}
				s := &stage{asked: make(chan struct{}, 10), over: make(chan struct{})}
				s.bench = newBench(t, newUpstream(t, s.says()), Deps{}, route)
				sc.play(s)
				close(s.over)
				fmt.Fprintf(&all, "=== %s\n%s(the upstream ran %d times)\n\n", sc.title, s.script.String(), s.up.runs())
			}
			name := filepath.Join("testdata", "contracts", ct.name+".txt")
			if *update {
				if err := os.WriteFile(name, []byte(all.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), all.String()); diff != "" {
				t.Fatalf("%s is not what happens (-update writes it anew):\n%s", name, diff)
			}
		})
	}
}

func TestContractsAreNamed(t *testing.T) {
	for name, want := range map[string]string{"": "default", "default": "default", "ietf": "ietf", "stripe": "stripe", "realtime": "realtime"} {
		if ct, err := contractOf(name); err != nil || ct.name != want {
			t.Errorf("%q is %+v, %v", name, ct, err)
		}
	}
	for _, name := range []string{"Stripe", "stripe ", "none"} {
		if _, err := contractOf(name); err == nil {
			t.Errorf("%q is a contract", name)
		}
	}
}
