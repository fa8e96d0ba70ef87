package gateway

import (
	"strings"
	"testing"

	"onced"
)

// A header that names another method cannot carry an operation past its protection, nor under another route's policy.
func TestMethodsThatAHeaderNames(t *testing.T) {
	const put = "X-HTTP-Method-Override: PUT"
	up := newUpstream(t, answers(strings.Replace(created, "\r\n", "\r\nConnection: close\r\n", 1)))
	b := newBench(t, up, Deps{}, Route{Match: "PUT /order"}, Route{Match: "/charge"}, Route{Match: "/tunnel"}, Route{Match: "PUT /tunnel", Key: keyOff}, Route{Match: "DELETE /free", Key: keyOff})
	get := func(path string, more ...string) string {
		return strings.Replace(post(path, "k", "", more...), "POST", "GET", 1)
	}
	for name, request := range map[string]string{
		"no route takes POST":          post("/order", "k", "x", put),
		"in another case":              post("/order", "k", "x", "x-http-method-override:  put "),
		"underscores":                  post("/order", "k", "x", "X_HTTP_Method_Override: PUT"),
		"another name":                 post("/order", "k", "x", "X-HTTP-Method: PUT"),
		"a third name":                 post("/order", "k", "x", "X-Method-Override: PUT"),
		"the second of two lines":      post("/order", "k", "x", "X-Method-Override: LOCK", "X-Method-Override: PUT"),
		"the first of a list":          post("/order", "k", "x", "X-HTTP-Method-Override: PUT, LOCK"),
		"the last of a list":           post("/order", "k", "x", "X-HTTP-Method-Override: LOCK ,put"),
		"an odd path":                  post("//order", "k", "x", put),
		"GET as a protected operation": get("/charge", "X-HTTP-Method-Override: POST"),
	} {
		if got := b.send(request); got.status != 400 || !got.hasCode(onced.CodeInvalidRequest) {
			t.Errorf("%s: got\n%v", name, got)
		}
	}
	b.expectRuns(0)
	b.send(post("/free", "k", "x", "X-HTTP-Method-Override: DELETE")).expect(t, 201, "")       // nothing of it is protected
	b.send(post("/order", "k", "x", "X-HTTP-Method-Override: POST")).expect(t, 201, "")        // says nothing new
	b.send(post("/tunnel", "k", "x", put)).expect(t, 201, "").replayed(t, "false")             // protected as the POST that it is
	b.send(post("/tunnel", "k", "x", put)).expect(t, 201, "").replayed(t, "true")              // and the same again
	b.send(post("/tunnel", "k", "x")).expect(t, 409, onced.CodeConflict)                       // which is not the POST itself
	b.send(charge("p", "x", "X-HTTP-Method-Override: PATCH")).expect(t, 201, "")               // the same route
	b.send(charge("p", "x", "X-HTTP-Method-Override: GET")).expect(t, 409, onced.CodeConflict) // a third request
	b.expectRuns(4)
}

// A look-up is a GET, whatever the operation was to be taken for.
func TestALookUpIsNoOtherMethod(t *testing.T) {
	up := newUpstream(t, answers("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno"))
	b := newBench(t, up, Deps{}, Route{Match: "/charge", OnUnknown: "probe", Probe: "GET /charges?key={key}"})
	for range 2 {
		b.send(charge("k", "x", "X-HTTP-Method-Override: PATCH"))
	}
	if b.expectRuns(2); strings.Contains(up.request(2), "Override") || !strings.HasPrefix(up.request(2), "GET /charges?key=k ") {
		t.Fatalf("the look-up was\n%s", up.request(2))
	}
}
