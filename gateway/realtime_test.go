package gateway

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"onced"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func deflated(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What a realtime replay's body becomes, and what the first answer's is: untouched.
func TestRealtimeReplayBodies(t *testing.T) {
	const validated = "ETag: \"v1\"\r\nLast-Modified: now\r\nContent-MD5: x\r\nDigest: sha-256=x\r\nContent-Digest: sha-256=:x=:\r\nRepr-Digest: sha-256=:x=:\r\n"
	jsonType := "Content-Type: application/json\r\n"
	for name, tc := range map[string]struct {
		head, body string
		want       string // "" = as it was
	}{
		"an object":            {jsonType, "{ \"id\": 9007199254740993,\n \"amount\": 1.50 }\n", "{\"replayed\":true, \"id\": 9007199254740993,\n \"amount\": 1.50 }\n"},
		"an empty object":      {jsonType, "{}", `{"replayed":true}`},
		"a member of its own":  {jsonType, `{"a":1,"replayed":false,"b":2}`, `{"a":1,"replayed":true,"b":2}`},
		"one that says true":   {jsonType, `{"a":1,"replayed":true}`, ""},
		"one below":            {jsonType, `{"a":{"replayed":false}}`, `{"replayed":true,"a":{"replayed":false}}`},
		"hal+json":             {"Content-Type: application/hal+json; charset=utf-8\r\n", `{"a":1}`, `{"replayed":true,"a":1}`},
		"no type":              {"", `{"a":1}`, `{"replayed":true,"a":1}`},
		"gzip":                 {jsonType + "Content-Encoding: gzip\r\n", gzipped(t, `{"a":1}`), `{"replayed":true,"a":1}`},
		"deflate":              {jsonType + "Content-Encoding: deflate\r\n", deflated(t, `{"a":1}`), `{"replayed":true,"a":1}`},
		"two codings":          {jsonType + "Content-Encoding: deflate\r\nContent-Encoding: gzip\r\n", gzipped(t, deflated(t, `{"a":1}`)), `{"replayed":true,"a":1}`},
		"gzip that is none":    {jsonType + "Content-Encoding: gzip\r\n", `{"a":1}`, ""},
		"gzip that is cut":     {jsonType + "Content-Encoding: gzip\r\n", gzipped(t, `{"a":1}`)[:20], ""},
		"gzip of no object":    {jsonType + "Content-Encoding: gzip\r\n", gzipped(t, `[1]`), ""},
		"a coding of its own":  {jsonType + "Content-Encoding: snappy\r\n", `{"a":1}`, ""},
		"an array":             {jsonType, `[{"a":1}]`, ""},
		"a string":             {jsonType, `"{}"`, ""},
		"broken JSON":          {jsonType, `{"a":1,}`, ""},
		"nothing":              {jsonType, "", ""},
		"text":                 {"Content-Type: text/plain\r\n", `{"a":1}`, ""},
		"two types":            {jsonType + "Content-Type: text/plain\r\n", `{"a":1}`, ""},
		"a bomb":               {jsonType + "Content-Encoding: gzip\r\n", gzipped(t, `{"a":"`+strings.Repeat("x", maxEdited)+`"}`), ""},
		"larger than a window": {jsonType, `{"a":"` + strings.Repeat("x", 100_000) + `"}`, `{"replayed":true,"a":"` + strings.Repeat("x", 100_000) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("HTTP/1.1 201 Created\r\n%s%sContent-Length: %d\r\n\r\n%s", tc.head, validated, len(tc.body), tc.body)
			b := newBench(t, newUpstream(t, answers(text)), Deps{}, Route{Match: "POST /charge", Contract: "realtime"})
			first := b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
			if first.body != tc.body || first.header.Get("Etag") != `"v1"` {
				t.Fatalf("the first answer was touched: %v", first)
			}
			again := b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
			want, edited := tc.want, tc.want != ""
			if !edited {
				want = tc.body
			}
			if again.body != want {
				t.Fatalf("replayed %.200q, expected %.200q", again.body, want)
			}
			for _, name := range []string{"Etag", "Last-Modified", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest"} {
				if _, there := again.header[name]; there == edited {
					t.Errorf("%s is there: %v", name, there)
				}
			}
			if coding := again.header.Values("Content-Encoding"); (len(coding) > 0) != (!edited && len(first.header.Values("Content-Encoding")) > 0) {
				t.Errorf("the replay says to be encoded as %q", coding)
			}
			b.expectRuns(1)
		})
	}
}

// The table that clients of the realtime contract rely on, row by row.
func TestEveryRowOfTheRealtimeTable(t *testing.T) {
	begin := func(t *testing.T, say string) *bench {
		s := &stage{}
		up := newUpstream(t, func(n int, r *http.Request, c net.Conn) bool {
			if n == 1 && say != "" {
				r.Header.Set("X-Say", say)
			}
			return s.says()(n, r, c)
		})
		return newBench(t, up, Deps{}, Route{Match: "POST /charge", Contract: "realtime"})
	}
	t.Run("a new key runs", func(t *testing.T) {
		b := begin(t, "")
		if got := b.send(charge("k", "x")).expect(t, 201, ""); strings.Contains(got.body, "replayed") {
			t.Fatalf("the first answer says %q", got.body)
		}
		b.expectRuns(1)
	})
	t.Run("same key and payload replays", func(t *testing.T) {
		b := begin(t, "")
		b.send(charge("k", "x"))
		if got := b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true"); got.body != `{"replayed":true,"charge":7}` {
			t.Fatalf("the replay says %q", got.body)
		}
		b.expectRuns(1)
	})
	t.Run("another payload conflicts", func(t *testing.T) {
		b := begin(t, "")
		b.send(charge("k", "x"))
		b.send(charge("k", "y")).expect(t, 409, onced.CodeConflict)
		b.expectRuns(1)
	})
	t.Run("still running is told, with Retry-After", func(t *testing.T) {
		s := &stage{asked: make(chan struct{}, 1), over: make(chan struct{})}
		defer close(s.over)
		s.bench = newBench(t, newUpstream(t, s.says()), Deps{}, Route{Match: "POST /charge", Contract: "realtime"})
		s.dial(charge("k", "x", "X-Say: nothing"))
		<-s.asked
		if got := s.send(charge("k", "x")).expect(t, 409, onced.CodeRequestInProgress); got.header.Get("Retry-After") != "1" {
			t.Fatalf("Retry-After is %q", got.header.Get("Retry-After"))
		}
		s.expectRuns(1)
	})
	t.Run("a missing key is refused", func(t *testing.T) {
		b := begin(t, "")
		b.send(charge("", "x")).expect(t, 400, onced.CodeKeyRequired)
		b.expectRuns(0)
	})
	t.Run("191 bytes", func(t *testing.T) {
		b := begin(t, "")
		b.send(charge(strings.Repeat("k", 191), "x")).expect(t, 201, "")
		b.send(charge(strings.Repeat("k", 192), "x")).expect(t, 400, onced.CodeKeyInvalid)
		b.expectRuns(1)
	})
	t.Run("30 days", func(t *testing.T) {
		b := begin(t, "")
		b.send(charge("k", "x")).expect(t, 201, "")
		b.keeper.ahead.Store((30*24*time.Hour - time.Minute).Milliseconds())
		b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
		b.keeper.ahead.Store((30*24*time.Hour + time.Minute).Milliseconds())
		b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
		b.expectRuns(2)
	})
	for _, failed := range []string{"400", "404", "409", "422", "429", "499", "500", "502", "503"} {
		t.Run("a "+failed+" is not kept", func(t *testing.T) {
			b := begin(t, failed)
			if got := b.send(charge("k", "x")).replayed(t, "false"); fmt.Sprint(got.status) != failed || got.body != `{"n":1}` {
				t.Fatalf("got %v", got)
			}
			b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
			b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
			b.expectRuns(2)
		})
	}
	for _, kept := range []string{"200", "204", "303"} {
		t.Run("a "+kept+" is kept", func(t *testing.T) {
			b := begin(t, kept)
			b.send(charge("k", "x")).replayed(t, "false")
			if got := b.send(charge("k", "x")).replayed(t, "true"); fmt.Sprint(got.status) != kept {
				t.Fatalf("got %v", got)
			}
			b.expectRuns(1)
		})
	}
	t.Run("an unknown outcome is not kept", func(t *testing.T) {
		b := begin(t, "goodbye")
		b.send(charge("k", "x")).expect(t, 504, onced.CodeOutcomeUnknown)
		b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
		b.expectRuns(2)
	})
}
