package gateway

import (
	"slices"
	"strings"
	"testing"
)

func TestWhatIsNeverReplayed(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2001 00:00:00 GMT\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nWWW-Authenticate: Basic\r\n"+
		"Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\nProxy-Authenticate: Basic\r\nIdempotency-Replayed: true\r\n"+
		"Idempotency-Expires: never\r\nX-Kept: 1\r\nX-Kept: 2\r\nContent-Length: 2\r\n\r\nok"))
	for _, keep := range [][]string{nil, {"set-cookie", "Date"}} {
		b := newBench(t, up, Deps{}, Route{Match: "POST /charge", KeepHeaders: keep})
		first := b.send(charge("k", "x")).expect(t, 200, "").replayed(t, "false")
		again := b.send(charge("k", "x")).expect(t, 200, "").replayed(t, "true")
		if len(first.header["Set-Cookie"]) != 2 || first.header.Get("Www-Authenticate") == "" || first.header.Get("Date") != "Mon, 01 Jan 2001 00:00:00 GMT" {
			t.Fatalf("the first answer lacks something of its own:\n%v", first)
		}
		for _, r := range []reply{first, again} {
			for _, name := range []string{"X-Hop", "Keep-Alive", "Upgrade", "Proxy-Authenticate", "Transfer-Encoding", "Connection", "Content-Type"} {
				if r.header.Get(name) != "" {
					t.Fatalf("%s was passed on in\n%v", name, r)
				}
			}
			if got := strings.Join(r.header["X-Kept"], ","); got != "1,2" {
				t.Fatalf("X-Kept is %q in\n%v", got, r)
			}
		}
		kept := keep != nil
		if got := again.header["Set-Cookie"]; (len(got) == 2) != kept || again.header.Get("Www-Authenticate") != "" ||
			(again.header.Get("Date") == first.header.Get("Date")) != kept {
			t.Fatalf("with keep_headers %q the replay is\n%v", keep, again)
		}
		for _, line := range b.record("k").Response.Headers {
			if !kept && neverReplayed[line.Name] || isOurMarker(line.Name) {
				t.Fatalf("%s is stored", line.Name)
			}
		}
	}
}

// A Connection line that also says close names its headers all the same. (F42)
func TestWhatConnectionNamesBesideClose(t *testing.T) {
	for _, lines := range []string{"Connection: X-Hop, close\r\n", "Connection: Close, X-Hop\r\n", "Connection: close\r\nConnection: X-Hop\r\n"} {
		up := newUpstream(t, answers("HTTP/1.1 200 OK\r\n"+lines+"X-Hop: 1\r\nContent-Length: 2\r\n\r\nok"))
		b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
		for _, request := range []string{charge("k", "x"), charge("k", "x"), post("/unprotected", "k", "x")} {
			if r := b.send(request).expect(t, 200, ""); r.header.Get("X-Hop") != "" {
				t.Errorf("after %q X-Hop was passed on in\n%v", lines, r)
			}
		}
	}
}

func TestFramingOfAnswersWithoutABody(t *testing.T) {
	for head, want := range map[string]string{
		"HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n":                               "",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: \"a\"\r\n\r\n": "",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":                          "Content-Length: 0",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":        "Content-Length: 0",
		"HTTP/1.0 200 OK\r\n\r\n":                                               "Content-Length: 0",
	} {
		up := newUpstream(t, answers(head))
		b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
		for i, marker := range []string{"false", "true"} {
			r := b.send(charge("k", "x")).replayed(t, marker)
			if r.status/100 == 5 || r.body != "" || r.cut != nil || strings.Contains(r.raw, "Content-Length") != (want != "") ||
				!strings.Contains(r.raw, want) || strings.Contains(r.raw, "chunked") || strings.Contains(r.raw, "Content-Type") {
				t.Fatalf("answer %d of %q is\n%v", i+1, head, r)
			}
		}
		b.expectRuns(1)
	}
}

func TestMarkersAreExposedWhereTheUpstreamAllowsTheOrigin(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: https://shop.example\r\nAccess-Control-Expose-Headers: X-Own\r\nContent-Length: 2\r\n\r\nok"))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for _, marker := range []string{"false", "true"} {
		r := b.send(charge("k", "x")).expect(t, 200, "").replayed(t, marker)
		if got := strings.Join(r.header["Access-Control-Expose-Headers"], "; "); got != "X-Own; Idempotency-Replayed, Idempotency-Expires, Retry-After" {
			t.Fatalf("exposed are %q", got)
		}
	}
	if lines := b.record("k").Response.Headers; strings.Contains(strings.Join(func() (v []string) {
		for _, l := range lines {
			v = append(v, l.Value)
		}
		return
	}(), ","), "Idempotency") {
		t.Fatalf("the markers are stored: %v", lines)
	}
}

func TestAcceptEncodingAndEncodedAnswersAreLeftAlone(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x00"))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for range 2 {
		r := b.send(charge("k", "x")).expect(t, 200, "")
		if r.body != "\x1f\x8b\x00" || r.header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("the body is %q", r.body)
		}
	}
	if strings.Contains(up.request(1), "Accept-Encoding") || strings.Contains(up.request(1), "User-Agent") {
		t.Fatalf("the request grew:\n%s", up.request(1))
	}
}

// White space before a colon is removed, as RFC 9112 §5.1 has it of a proxy: net/http would drop the line, here a Location.
func TestNamesBeforeASpace(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 201 Created\r\nLocation : /charges/7\r\nLink: <a>\r\nLink : <b>\r\nSet-Cookie : a=1\r\nContent-Length: 2\r\n\r\nok"))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for _, replayed := range []string{"false", "true"} {
		r := b.send(charge("k", "x")).expect(t, 201, "").replayed(t, replayed)
		cookies := 1
		if replayed == "true" {
			cookies = 0
		}
		if r.header.Get("Location") != "/charges/7" || !slices.Equal(r.header["Link"], []string{"<a>", "<b>"}) || len(r.header["Set-Cookie"]) != cookies {
			t.Errorf("replayed %s: got\n%v", replayed, r)
		}
	}
}
