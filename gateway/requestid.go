package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
)

// requestIDHeader carries the id of one request: to the upstream, and back in what the gateway itself answers. What the upstream answers is
// left as it is (contract §5.3).
const requestIDHeader = "X-Request-Id"

type requestIDKey struct{}

// withRequestID gives a request its id: the client's where that is a sane one, else a new one. It is
// in no header of r, so that no fingerprint and no account can depend on it.
func withRequestID(r *http.Request) *http.Request {
	id := rand.Text()
	if lines := r.Header[requestIDHeader]; len(lines) == 1 && saneRequestID(lines[0]) {
		id = lines[0]
	}
	return r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
}

// requestIDOf returns the id of a request, "" where it has none yet.
func requestIDOf(r *http.Request) string {
	id, _ := r.Context().Value(requestIDKey{}).(string)
	return id
}

// saneRequestID tells whether an id can stand in a log line and a header as it is. The API takes the same.
func saneRequestID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	return strings.IndexFunc(id, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._:@/+=-", c))
	}) < 0
}

// nameRequest puts the request's id into the headers for the upstream. What a client sent that is no sane id
// goes on as it is: a service that stays as it was may know what to do with it.
func nameRequest(out http.Header, in *http.Request) {
	if id := requestIDOf(in); id != "" && len(in.Header[requestIDHeader]) == 0 {
		out[requestIDHeader] = []string{id}
	}
}
