package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"onced"
)

// TestShortcutIsTheRouter: whatever the path and the method, the answer is the same with the shortcut as by the router alone, and so is
// what the Keeper is asked.
func TestShortcutIsTheRouter(t *testing.T) {
	k := &scripted{result: onced.ReserveResult{Record: running}, record: completed}
	a := &api{Config: config(k).withDefaults()}
	router := a.router()
	alone, short := a.observe(a.guard(router)), a.observe(a.guard(shortcut(a.keyCalls(), router)))
	serve := func(h http.Handler, method, path string) (int, string, any) {
		k.asked = nil
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, strings.NewReader(`{"fingerprint":"f","owner":"o"}`))
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String(), k.asked
	}
	paths := []string{"/v1/keys", "/v1/keys/", "/v1/keys//", "/v1/keysk/reserve", "/v1//keys/k/reserve", "/V1/keys/k/reserve", "/v1/keys/../keys/k/reserve",
		"/v1/keys/k", "/v1/keys/k/", "/v1/keys/reserve", "/v1/keys/a/b/reserve", "/v1/keys/k/nothing", "/v1/keys/k/reserve%2F", "/v1/keys/k%2Freserve", "/v1%2Fkeys/k/reserve"}
	for _, verb := range []string{"reserve", "complete", "release", "renew", "resolve"} {
		for _, key := range []string{"k", "", "a%2Fb", "a%20b", "%22a%22", "%C3%A9", ".", "..", "a%2Freserve", "a+b", "a;b", "a:b"} {
			paths = append(paths, "/v1/keys/"+key+"/"+verb)
		}
		paths = append(paths, "/v1/keys/k/"+verb+"/", "/v1/keys/k//"+verb, "/v1/keys/k/"+verb+"?scope=s", "/v1/keys/k/"+verb+"?other=1", "/v1/keys/k/"+strings.ToUpper(verb), "/v1/keys/k/%72"+verb[1:])
	}
	for _, path := range paths {
		for _, method := range []string{"POST", "GET", "HEAD", "DELETE", "OPTIONS"} {
			status, body, asked := serve(short, method, path)
			wantStatus, wantBody, wantAsked := serve(alone, method, path)
			if diff := cmp.Diff(wantBody, body) + cmp.Diff(wantAsked, asked); status != wantStatus || diff != "" {
				t.Errorf("%s %s: status %d, by the router %d; the router alone (-), with the shortcut (+):\n%s", method, path, status, wantStatus, diff)
			}
		}
	}
}
