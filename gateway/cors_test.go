package gateway

import (
	"strings"
	"testing"

	"onced"
)

// corsOf are the lines of an answer that a browser judges by.
func corsOf(r reply) string {
	return strings.Join([]string{r.header.Get(allowOrigin), r.header.Get(allowCredentials), r.header.Get("Vary"), r.header.Get(exposeHeaders)}, "; ")
}

const markers = "Idempotency-Replayed, Idempotency-Expires, Retry-After"

// Pages of the origins that the configuration names can read refusals and replays; others get what the upstream said. (F51)
func TestPagesCanReadRefusalsAndReplays(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: https://first.example\r\nVary: Accept\r\nContent-Length: 2\r\n\r\nok"))
	b := newBenchOf(t, up, Config{Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge"}},
		CORSOrigins: []string{"https://shop.example", "http://localhost:3000"}}, Deps{})
	// The first answer is the upstream's own, whoever asks.
	if got := corsOf(b.send(charge("k", "x", "Origin: https://shop.example"))); got != "https://first.example; ; Accept; "+markers {
		t.Fatalf("the first answer says %q", got)
	}
	for origin, want := range map[string]string{
		"https://shop.example":      "https://shop.example; true; Accept; " + markers, // and a line Vary: Origin
		"http://localhost:3000":     "http://localhost:3000; true; Accept; " + markers,
		"https://first.example":     "https://first.example; ; Accept; " + markers,
		"https://evil.example":      "https://first.example; ; Accept; " + markers,
		"https://shop.example.evil": "https://first.example; ; Accept; " + markers,
		"null":                      "https://first.example; ; Accept; " + markers,
	} {
		r := b.send(charge("k", "x", "Origin: "+origin)).expect(t, 200, "").replayed(t, "true")
		if got := corsOf(r); got != want || strings.Contains(strings.Join(r.header["Vary"], ","), "Origin") != (r.header.Get(allowCredentials) != "") {
			t.Errorf("the replay to %s says %q, expected %q\n%v", origin, got, want, r)
		}
	}
	refusals := map[string]struct {
		status int
		code   onced.Code
	}{
		charge("k", "other", "Origin: ORIGIN"):                                            {409, onced.CodeConflict},
		charge("", "x", "Origin: ORIGIN"):                                                 {400, onced.CodeKeyRequired},
		post("//charge", "k", "x", "Origin: ORIGIN"):                                      {400, onced.CodeInvalidRequest},
		strings.Replace(charge("k", "x", "Origin: ORIGIN"), "X-Account: acme\r\n", "", 1): {401, onced.CodeUnauthenticated},
	}
	for request, want := range refusals {
		r := b.send(strings.ReplaceAll(request, "ORIGIN", "https://shop.example")).expect(t, want.status, want.code)
		if got := corsOf(r); got != "https://shop.example; true; Origin; "+markers {
			t.Errorf("the refusal %s says %q", want.code, got)
		}
		r = b.send(strings.ReplaceAll(request, "ORIGIN", "https://evil.example")).expect(t, want.status, want.code)
		if got := corsOf(r); got != "; ; ; " {
			t.Errorf("the refusal %s says %q to a stranger", want.code, got)
		}
	}
	b.expectRuns(1)
}

// What the gateway says of an outcome that nobody knows, of an upstream that is not there, and of an answer that was not kept can be read too.
func TestPagesCanReadWhatWentWrong(t *testing.T) {
	up := newUpstream(t, answers("")) // closes
	b := newBenchOf(t, up, Config{Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge"}}, CORSOrigins: []string{"*"}}, Deps{})
	for _, r := range []reply{
		b.send(charge("k", "x", "Origin: https://any.example")).expect(t, 504, onced.CodeOutcomeUnknown),
		b.send(charge("k", "x", "Origin: https://any.example")).expect(t, 409, onced.CodeOutcomeUnknown),
		b.send(post("/other", "k", "x", "Origin: https://any.example")).expect(t, 502, ""),
	} {
		if got := corsOf(r); got != "*; ; ; "+markers {
			t.Errorf("%q is said in\n%v", got, r)
		}
	}
	up = newUpstream(t, answers("HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: https://first.example\r\nAccess-Control-Allow-Credentials: true\r\nContent-Length: 2\r\n\r\nok"))
	b = newBenchOf(t, up, Config{Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge"}, {Match: "POST /gone", Store: []string{}}}, CORSOrigins: []string{"*"}}, Deps{})
	b.send(charge("k", "x"))
	if got := corsOf(b.send(charge("k", "x", "Origin: https://any.example")).replayed(t, "true")); got != "*; ; ; "+markers {
		t.Errorf("the replay says %q", got)
	}
	b.send(post("/gone", "g", "x"))
	if got := corsOf(b.send(post("/gone", "g", "x", "Origin: https://any.example")).expect(t, 409, onced.CodeResponseNotKept)); got != "*; ; ; "+markers {
		t.Errorf("the refusal says %q", got)
	}
}

func TestBadOrigins(t *testing.T) {
	for _, list := range [][]string{{""}, {"shop.example"}, {"https://shop.example/"}, {"https://Shop.example"}, {"https://*.example"}, {"https://shop.example:443"}, {"http://shop.example:80"}, {"null"}, {"*", "https://a.example"}, {"https://a.example?x"}, {"https://u@a.example"}} {
		if _, err := parseOrigins(list); err == nil {
			t.Errorf("%q is taken", list)
		}
	}
}

// A page of a listed origin can follow an operation to its end: it reads the 202 and its Location, and may send its
// account along. Others may not.
func TestPagesCanFollowAnOperation(t *testing.T) {
	gate := newGated(t)
	b := newBenchOf(t, newUpstream(t, gate.script), Config{Tenant: "header:X-Account", Routes: []Route{{Match: "POST /charge"}}, CORSOrigins: []string{"https://shop.example"}}, Deps{})
	const shop, evil = "Origin: https://shop.example", "Origin: https://evil.example"
	readable := func(r reply, names ...string) {
		t.Helper()
		exposed := strings.Join(r.header[exposeHeaders], ", ")
		for _, name := range names {
			if !strings.Contains(exposed, name) {
				t.Errorf("%s is not exposed in\n%v", name, r)
			}
		}
		if r.header.Get(allowOrigin) != "https://shop.example" || r.header.Get(allowCredentials) != "true" {
			t.Errorf("the page cannot read\n%v", r)
		}
	}
	first := b.send(charge("k", "x", async, shop))
	location := first.accepted(t)
	readable(first, "Location", "Retry-After", "Idempotency-Replayed")
	<-gate.began
	again := b.send(charge("k", "x", async, shop))
	again.accepted(t)
	readable(again, "Location", "Retry-After")
	ask := func(origin string) reply {
		return b.send("OPTIONS " + location + " HTTP/1.1\r\nHost: h\r\n" + origin + "\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: x-account\r\n\r\n")
	}
	allowed := ask(shop).expect(t, 204, "")
	readable(allowed)
	if allowed.header.Get("Access-Control-Allow-Headers") != "x-account" || allowed.header.Get("Access-Control-Allow-Methods") != "GET, HEAD" {
		t.Errorf("the preflight is told\n%v", allowed)
	}
	if r := ask(evil).expect(t, 405, onced.CodeInvalidRequest); r.header.Get(allowOrigin) != "" {
		t.Errorf("a stranger's preflight is told\n%v", r)
	}
	look := func() reply {
		return b.send("GET " + location + " HTTP/1.1\r\nHost: h\r\nX-Account: acme\r\n" + shop + "\r\n\r\n")
	}
	readable(look().expect(t, 202, ""), "Retry-After")
	gate.next <- created
	b.fetch(location+"?wait=20s", "acme").expect(t, 201, "")
	readable(look().expect(t, 201, ""), "Idempotency-Replayed")
	b.expectRuns(1)
}
