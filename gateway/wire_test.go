package gateway

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wire sends a request and returns every byte that comes back until the gateway closes. What is never the
// same twice is replaced: the value of Date by "now", and the end of retention by "later"; ids of requests that
// had none are left out.
func (b *bench) wire(text string) string {
	b.t.Helper()
	c := b.dial(strings.Replace(text, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
	all, err := io.ReadAll(c)
	if err != nil {
		b.t.Fatalf("after %q: %v", all, err)
	}
	raw := regexp.MustCompile(`Date: \w{3}, \d\d \w{3} 20(2[5-9]|[3-9]\d) [^\r]*`).ReplaceAllString(string(all), "Date: now")
	raw = unnamed(raw)
	return regexp.MustCompile(`(Idempotency-Expires): \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`).ReplaceAllString(raw, "$1: later")
}

// sameWire fails the test unless got is want, byte for byte.
func sameWire(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("on the wire (-expected +got):\n%s", diff)
	}
}

// The first answer and the replay have the upstream's lines in its order, spelled as it spells them, with the gateway's own behind
// them. (F43, F44, F50)
func TestLinesKeepTheirOrder(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 201 Created\r\nx-request-ID: 7\r\nServer: pay/1\r\nETag: \"v1\"\r\nLink: <a>; rel=x\r\nContent-Length: 2\r\nX-Empty:\r\n"+
		"LOCATION: /charges/7\r\nContent-Type: text/plain\r\nlink: <b>; rel=y\r\nX-Request-Id: 8\r\nConnection: close\r\n\r\nok"))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	const head = "HTTP/1.1 201 Created\r\nx-request-ID: 7\r\nServer: pay/1\r\nETag: \"v1\"\r\nLink: <a>; rel=x\r\nX-Empty: \r\n" +
		"LOCATION: /charges/7\r\nContent-Type: text/plain\r\nlink: <b>; rel=y\r\nX-Request-Id: 8\r\n"
	for i := range 3 {
		marker := map[bool]string{true: "false", false: "true"}[i == 0]
		sameWire(t, b.wire(charge("k", "x")), head+"Content-Length: 2\r\nIdempotency-Expires: later\r\nIdempotency-Replayed: "+marker+"\r\nDate: now\r\nConnection: close\r\n\r\nok")
	}
	b.expectRuns(1)
	var stored []string
	for _, l := range b.record("k").Response.Headers {
		stored = append(stored, l.Name+": "+l.Value+"\r\n")
	}
	sameWire(t, "HTTP/1.1 201 Created\r\n"+strings.Join(stored, ""), head)
}

// On one connection each answer has its own order, whatever came before it: an interim answer, a refusal, a large head.
func TestOrderOnAKeptConnection(t *testing.T) {
	large := "Z-Large: " + strings.Repeat("z", 20<<10) + "\r\n"
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		head := map[string]string{
			"early": "HTTP/1.1 103 Early Hints\r\nZ: 1\r\nA: 1\r\n\r\nHTTP/1.1 200 OK\r\nZ: 1\r\nA: 1\r\n",
			"large": "HTTP/1.1 200 OK\r\n" + large + "B: 1\r\nA: 1\r\n",
			"other": "HTTP/1.1 200 OK\r\nC: 1\r\nB: 1\r\n",
		}[r.Header.Get("Idempotency-Key")]
		io.WriteString(c, head+"Content-Length: 2\r\n\r\nok")
		return false
	})
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for range 2 {
		got := b.wire(charge("early", "x") + charge("large", "x") + charge(`"bad`, "x") + charge("other", "x"))
		// wire asks for the end after the first; the others need a connection of theirs
		if !strings.Contains(got, "HTTP/1.1 200 OK\r\nZ: 1\r\nA: 1\r\nContent-Length") {
			t.Fatalf("got %q", got)
		}
		c := b.dial(charge("large", "x") + charge(`"bad`, "x") + charge("other", "x") + charge("early", "x", "Connection: close"))
		all, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		raw := string(all)
		for _, want := range []string{"HTTP/1.1 200 OK\r\n" + large + "B: 1\r\nA: 1\r\nContent-Length: 2\r\n", "HTTP/1.1 400 Bad Request\r\nCache-Control: no-store\r\nContent-Length: ",
			"HTTP/1.1 200 OK\r\nC: 1\r\nB: 1\r\nContent-Length: 2\r\n", "HTTP/1.1 200 OK\r\nZ: 1\r\nA: 1\r\nContent-Length: 2\r\n"} {
			_, rest, found := strings.Cut(raw, want)
			if !found {
				t.Fatalf("%.200q is not next in %.2000q", want, raw)
			}
			raw = rest
		}
	}
	b.expectRuns(3)
}

// A head that net/http would not take, or that is no head, goes by as it is.
func TestInOrder(t *testing.T) {
	for _, tc := range []struct{ head, names, want string }{
		{"HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\n\r\n", "B", "HTTP/1.1 200 OK\r\nB: 2\r\nA: 1\r\n\r\n"},
		{"HTTP/1.1 200 OK\r\nA: 1\r\nA: 2\r\nB: 3\r\n\r\n", "A B A A C", "HTTP/1.1 200 OK\r\nA: 1\r\nB: 3\r\nA: 2\r\n\r\n"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nb: 3\r\n\r\n", "content-length B", "HTTP/1.1 200 OK\r\nB: 3\r\nContent-Length: 1\r\n\r\n"},
		{"HTTP/1.1 200 OK\r\n\r\n", "A", "HTTP/1.1 200 OK\r\n\r\n"},
		{"PRI * HTTP/2.0\r\nA: 1\r\nB: 1\r\n\r\n", "B A", "PRI * HTTP/2.0\r\nA: 1\r\nB: 1\r\n\r\n"},
		{"\r\n", "A", "\r\n"},
		{"HTTP/1.1 200 OK\r\nA: 1\n\r\n", "A", "HTTP/1.1 200 OK\r\nA: 1\n\r\n"}, // a bare line feed
	} {
		if got := string(inOrder([]byte(tc.head), strings.Fields(tc.names))); got != tc.want {
			t.Errorf("%q in the order %s: got %q, expected %q", tc.head, tc.names, got, tc.want)
		}
	}
}

func FuzzInOrder(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\n\r\n", "B A")
	f.Add("HTTP/1.1 200 OK\r\nA\r\n: x\r\n\r\n", "A a")
	f.Add("HTTP/1.1\r\n\r\n\r\n", "")
	f.Add("HTTP/1.\r\n0\n\r\n", "0")
	f.Fuzz(func(t *testing.T, text, names string) {
		end := headEnd([]byte(text))
		if end < 0 {
			return
		}
		got := string(inOrder([]byte(text[:end]), strings.Fields(names)))
		sorted := func(s string) string {
			lines := strings.Split(strings.ToLower(s), "\r\n")
			for i := range lines {
				for j := i + 1; j < len(lines); j++ {
					if lines[j] < lines[i] {
						lines[i], lines[j] = lines[j], lines[i]
					}
				}
			}
			return strings.Join(lines, "\r\n")
		}
		if sorted(got) != sorted(text[:end]) {
			t.Fatalf("%q became %q", text[:end], got)
		}
	})
}

// Statuses, bodies and lengths of replays, byte for byte. (F44, F45)
func TestFramingOnTheWire(t *testing.T) {
	const marks = "Idempotency-Expires: later\r\nIdempotency-Replayed: "
	const end = "\r\nDate: now\r\nConnection: close\r\n\r\n"
	for sent, want := range map[string][2]string{ // status line and own lines, then the length and the body
		"HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n":                                                                 {"HTTP/1.1 204 No Content\r\nX: 1\r\n", ""},
		"HTTP/1.1 205 Reset Content\r\nX: 1\r\nContent-Length: 0\r\n\r\n":                                         {"HTTP/1.1 205 Reset Content\r\nX: 1\r\n", "0 "},
		"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 9\r\n\r\n":                                   {"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n", ""},
		"HTTP/1.1 303 See Other\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n":                                     {"HTTP/1.1 303 See Other\r\nLocation: /x\r\n", "0 "},
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":                                                            {"HTTP/1.1 200 OK\r\n", "0 "},
		"HTTP/1.1 200 OK\r\nX: 1\r\nTrailer: T\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: 1\r\n\r\n": {"HTTP/1.1 200 OK\r\nX: 1\r\n", "2 ab"},
		"HTTP/1.0 200 OK\r\nX: 1\r\n\r\n\x00\xff\r\n":                                                             {"HTTP/1.1 200 OK\r\nX: 1\r\n", "4 \x00\xff\r\n"},
		"HTTP/1.1 299 Of Our Own\r\nX: 1\r\nContent-Length: 1\r\n\r\na":                                           {"HTTP/1.1 299 status code 299\r\nX: 1\r\n", "1 a"},
	} {
		up := newUpstream(t, answers(sent))
		b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
		for _, marker := range []string{"false", "true", "true"} {
			length, body, has := strings.Cut(want[1], " ")
			if has {
				length = "Content-Length: " + length + "\r\n"
			}
			sameWire(t, b.wire(charge("k", "x")), want[0]+length+marks+marker+end+body)
		}
		b.expectRuns(1)
	}
}
