package gateway

import (
	"strings"
	"testing"

	"onced"
)

// What a refusal's type points to is there, on the gateway's own port.
func TestTheTypeOfARefusalIsExplained(t *testing.T) {
	b := newBench(t, newUpstream(t, answers(created)), Deps{}, Route{Match: "POST /charge"})
	refused := b.send(charge("", "x")).expect(t, 400, onced.CodeKeyRequired)
	_, rest, _ := strings.Cut(refused.body, `"type":"`)
	path, _, _ := strings.Cut(rest, `"`)
	page := b.send("GET "+path+" HTTP/1.1\r\nHost: h\r\nAccept: text/html\r\n\r\n").expect(t, 200, "")
	if !strings.Contains(page.body, "<code>idempotency_key_required</code>") || !strings.Contains(page.body, `href="/.onced/problems/"`) {
		t.Fatalf("%s is\n%v", path, page)
	}
	for _, info := range onced.Codes {
		b.send("GET /.onced/problems/"+string(info.Code)+" HTTP/1.1\r\nHost: h\r\nAccept: text/plain\r\n\r\n").expect(t, 200, "")
	}
	if all := b.send("GET /.onced/problems/ HTTP/1.1\r\nHost: h\r\n\r\n").expect(t, 200, ""); strings.Count(all.body, "<article") != len(onced.Codes) {
		t.Fatalf("all of them are\n%v", all)
	}
	b.expectRuns(0)
}

// Nothing below the path of the pages reaches the upstream.
func TestNoPage(t *testing.T) {
	b := newBench(t, newUpstream(t, answers(created)), Deps{}, Route{Match: "/*"})
	for request, status := range map[string]int{
		"GET /.onced/problems/nonsense":   404,
		"GET /.onced/problems/a/b":        404,
		"GET /%2eonced/problems/nonsense": 404,
		"GET /.onced%2fproblems/nonsense": 404,
		"POST /.onced/problems/":          405,
	} {
		got := b.send(request + " HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n")
		got.expect(t, status, onced.CodeInvalidRequest)
		if (got.header.Get("Allow") == "GET, HEAD") != (status == 405) {
			t.Errorf("%s: Allow is %q", request, got.header.Get("Allow"))
		}
	}
	b.send("GET /.onced/problemsx HTTP/1.1\r\nHost: h\r\n\r\n").expect(t, 404, onced.CodeInvalidRequest)
	b.expectRuns(0)
}
