package gateway

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// encode applies codings to text, in their order. "raw" is deflate without zlib's frame.
func encode(t testing.TB, text string, codings ...string) string {
	t.Helper()
	for _, coding := range codings {
		var out bytes.Buffer
		var w io.WriteCloser
		var err error
		switch coding {
		case "gzip", "x-gzip":
			w = gzip.NewWriter(&out)
		case "deflate":
			w = zlib.NewWriter(&out)
		case "raw":
			w, err = flate.NewWriter(&out, 5)
		case "br":
			w = brotli.NewWriter(&out)
		case "zstd":
			w, err = zstd.NewWriter(&out)
		case "identity":
			continue
		default:
			t.Fatalf("no encoder for %q", coding)
		}
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, text)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text = out.String()
	}
	return text
}

func TestDecodeContent(t *testing.T) {
	text := strings.Repeat("0123456789", 100)
	for coding, sent := range map[string]string{
		"":               text,
		"identity":       text,
		" GZip":          encode(t, text, "gzip"),
		"x-gzip":         encode(t, text, "gzip"),
		"gzip":           encode(t, text[:500], "gzip") + encode(t, text[500:], "gzip"), // two members are one body
		"deflate":        encode(t, text, "deflate"),
		"deflate, ":      encode(t, text, "raw"),
		"br":             encode(t, text, "br"),
		"zstd":           encode(t, text, "zstd"),
		"gzip, br":       encode(t, text, "gzip", "br"),
		"br,identity,BR": encode(t, text, "br", "br"),
	} {
		if got, err := decodeContent(coding, []byte(sent), 1000); err != nil || string(got) != text {
			t.Errorf("%q: %d bytes, %v", coding, len(got), err)
		}
		if coding == "" || coding == "identity" {
			continue
		}
		if got, err := decodeContent(coding, []byte(sent), 999); !errors.Is(err, errDecodedTooLarge) {
			t.Errorf("%q beyond the limit: %d bytes, %v", coding, len(got), err)
		}
		if got, err := decodeContent(coding, []byte(sent[:len(sent)-3]), 1000); err == nil {
			t.Errorf("%q cut: %d bytes and no error", coding, len(got))
		}
		if got, err := decodeContent(coding, []byte("plain text, as it happens"), 1000); err == nil {
			t.Errorf("%q of what is none: %q", coding, got)
		}
	}
	for _, coding := range []string{"compress", "gzip, sdch", strings.Repeat("gzip,", 5)} {
		if _, err := decodeContent(coding, []byte(encode(t, text, "gzip")), 1000); !errors.Is(err, errUnknownCoding) {
			t.Errorf("%q: %v", coding, err)
		}
	}
}

// A few bytes that are a gigabyte are given up at the limit, and a window beyond what HTTP allows is not made.
func TestDecodeContentOfABomb(t *testing.T) {
	for _, coding := range []string{"gzip", "br", "zstd"} {
		bomb := []byte(encode(t, strings.Repeat("\x00", 64<<20), coding))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := decodeContent(coding, bomb, 1<<20); !errors.Is(err, errDecodedTooLarge) {
			t.Errorf("%s: %v", coding, err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 40<<20 {
			t.Errorf("%s took %d bytes of memory for a limit of 1 MiB", coding, took)
		}
	}
	var wide bytes.Buffer
	w, err := zstd.NewWriter(&wide, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.Write(bytes.Repeat([]byte("x"), 40<<20))
	}
	w.Close()
	if _, err := decodeContent("zstd", wide.Bytes(), 200<<20); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("a window of 64 MiB: %v", err)
	}
}

func FuzzDecodeContent(f *testing.F) {
	for _, coding := range []string{"gzip", "deflate", "br", "zstd", "identity"} {
		f.Add(coding, []byte(encode(f, "the same text, the same text, the same text", coding)))
	}
	f.Add("gzip,br", []byte("\x1f\x8b\x08"))
	f.Fuzz(func(t *testing.T, coding string, body []byte) {
		const max = 1 << 16
		got, err := decodeContent(coding, body, max)
		if err == nil && len(got) > max && len(codingsOf(coding)) > 0 {
			t.Fatalf("%d bytes, the limit is %d", len(got), max)
		}
	})
}

func TestAcceptable(t *testing.T) {
	for _, tc := range []struct {
		accept  string // "-" = no such header
		codings string
		want    bool
	}{
		{"-", "gzip", true}, {"-", "unheard-of", true},
		{"", "gzip", false}, {"identity", "gzip", false},
		{"gzip", "gzip", true}, {"GZIP", "gzip", true}, {"x-gzip", "gzip", true}, {"br", "gzip", false},
		{"gzip, deflate, br", "br", true}, {"deflate,gzip;q=1.0", "gzip", true}, {"gzip;q=0.001", "gzip", true},
		{"gzip;q=0", "gzip", false}, {"gzip ; q = 0.000 , br", "gzip", false}, {"gzip;Q=0", "gzip", false},
		{"*", "gzip", true}, {"*;q=0", "gzip", false}, {"gzip;q=0, *", "gzip", false}, {"gzip, *;q=0", "gzip", true}, {"gzip, *;q=0", "br", false},
		{"identity;q=0", "gzip", false}, {"identity;q=0, *", "gzip", true},
		{"gzip;q=2", "gzip", false}, {"gzip;q=NaN", "gzip", false}, {"gzip;q=", "gzip", false}, {"gzip;level=9", "gzip", false}, {"gzip;q=-1", "gzip", false},
		{"gzip", "gzip br", false}, {"br, gzip", "gzip br", true}, {",,gzip,", "gzip", true},
	} {
		var accept []string
		if tc.accept != "-" {
			accept = []string{tc.accept}
		}
		if got := acceptable(accept, strings.Fields(tc.codings)); got != tc.want {
			t.Errorf("%q takes %s: %v", tc.accept, tc.codings, got)
		}
	}
	if !acceptable([]string{"br", "gzip"}, []string{"gzip"}) {
		t.Error("two lines are not one list")
	}
}

// A replay is readable for a client that does not take the coding of the first answer, and as it was stored for one that does.
func TestAReplayIsReadable(t *testing.T) {
	text := strings.Repeat(`{"charge":7}`, 20)
	for _, coding := range []string{"gzip", "deflate", "br", "zstd", "gzip, br"} {
		t.Run(coding, func(t *testing.T) {
			body := encode(t, text, strings.Split(coding, ", ")...)
			up := newUpstream(t, answers("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Encoding: "+coding+"\r\nETag: \"v1\"\r\nDigest: sha-256=x\r\n"+
				"Content-Digest: sha-256=:x:\r\nRepr-Digest: sha-256=:x:\r\nContent-MD5: x\r\nAccept-Ranges: bytes\r\nVary: Origin\r\nLast-Modified: Mon, 01 Jan 2001 00:00:00 GMT\r\n"+
				fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)))
			b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
			encoded := "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Encoding: " + coding + "\r\nETag: \"v1\"\r\nDigest: sha-256=x\r\n" +
				"Content-Digest: sha-256=:x:\r\nRepr-Digest: sha-256=:x:\r\nContent-MD5: x\r\nAccept-Ranges: bytes\r\nVary: Origin\r\nLast-Modified: Mon, 01 Jan 2001 00:00:00 GMT\r\n"
			decoded := "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nETag: W/\"v1\"\r\nVary: Origin\r\nLast-Modified: Mon, 01 Jan 2001 00:00:00 GMT\r\n"
			foot := func(length int, marker, vary string) string {
				return fmt.Sprintf("Content-Length: %d\r\nIdempotency-Expires: later\r\nIdempotency-Replayed: %s\r\n%sDate: now\r\nConnection: close\r\n\r\n", length, marker, vary)
			}
			sameWire(t, b.wire(charge("k", "x", "Accept-Encoding: "+coding)), encoded+foot(len(body), "false", "")+body)
			for _, accept := range []string{"Accept-Encoding: " + coding, "Accept-Encoding: *;q=0.1", "Accept-Encoding: *;q=0", "Accept-Encoding: gzip;q=0, identity;q=0", "X-No: header"} {
				sameWire(t, b.wire(charge("k", "x", accept)), encoded+foot(len(body), "true", "")+body)
			}
			for _, accept := range []string{"Accept-Encoding: identity", "Accept-Encoding:", "Accept-Encoding: unheard-of", "Accept-Encoding: *, gzip;q=0, deflate;q=0, br;q=0, zstd;q=0"} {
				sameWire(t, b.wire(charge("k", "x", accept)), decoded+foot(len(text), "true", "Vary: Accept-Encoding\r\n")+text)
			}
			b.expectRuns(1)
		})
	}
}

// What cannot be decoded, or only to more than an answer may have, is sent as it is stored.
func TestAReplayThatCannotBeDecoded(t *testing.T) {
	for name, answer := range map[string][2]string{ // coding and body
		"unknown": {"sdch", "x"}, "not what it says": {"gzip", "plain"}, "cut": {"gzip", encode(t, "text", "gzip")[:20]},
		"too large": {"br", encode(t, strings.Repeat("x", maxStored+1), "br")}, "empty": {"gzip", ""},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nETag: \"v1\"\r\nContent-Length: %d\r\n\r\n%s", answer[0], len(answer[1]), answer[1])))
			b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
			for _, marker := range []string{"false", "true"} {
				r := b.send(charge("k", "x", "Accept-Encoding: identity")).expect(t, 200, "").replayed(t, marker)
				if r.body != answer[1] || r.header.Get("Content-Encoding") != answer[0] || r.header.Get("Etag") != `"v1"` || r.cut != nil {
					t.Fatalf("got\n%v", r)
				}
			}
			b.expectRuns(1)
		})
	}
	// The largest that is decoded, and a part of a whole, which has no meaning decoded.
	whole := encode(t, strings.Repeat("x", maxStored), "br")
	up := newUpstream(t, answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole)))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	b.send(charge("k", "x")).expect(t, 200, "")
	if r := b.send(charge("k", "x", "Accept-Encoding: gzip")).expect(t, 200, ""); len(r.body) != maxStored {
		t.Fatalf("%d bytes", len(r.body))
	}
	part := encode(t, "text", "gzip")
	up = newUpstream(t, answers(fmt.Sprintf("HTTP/1.1 206 Partial Content\r\nContent-Encoding: gzip\r\nContent-Range: bytes 0-27/100\r\nContent-Length: %d\r\n\r\n%s", len(part), part)))
	b = newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for range 2 {
		if r := b.send(charge("k", "x", "Accept-Encoding:")).expect(t, 206, ""); r.body != part {
			t.Fatalf("got\n%v", r)
		}
	}
}

// Requests in any of the codings are compared by what they mean.
func TestRequestsInEveryCoding(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	b.send(charge("k", `{"a":1}`, "Content-Type: application/json")).expect(t, 201, "").replayed(t, "false")
	for _, coding := range []string{"gzip", "deflate", "br", "zstd", "br, gzip"} {
		sent := encode(t, `{ "a": 1 }`, strings.Split(coding, ", ")...)
		b.send(charge("k", sent, "Content-Type: application/json", "Content-Encoding: "+coding)).expect(t, 201, "").replayed(t, "true")
		sent = encode(t, `{"a":2}`, strings.Split(coding, ", ")...)
		b.send(charge("k", sent, "Content-Type: application/json", "Content-Encoding: "+coding)).expect(t, 409, "")
	}
	b.expectRuns(1)
}
