package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// origins are those whose pages may read what the gateway itself answers: refusals, and replays, which
// carry what the upstream once allowed to the origin of the first request. Preflights, and first answers,
// are the upstream's alone.
type origins struct {
	any   bool // "*": without credentials
	named []string
}

// parseOrigins judges cors_origins.
func parseOrigins(list []string) (origins, error) {
	var o origins
	for _, text := range list {
		if text == "*" {
			o.any = true
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme == "" || u.Host == "" || text != u.Scheme+"://"+u.Host || text != strings.ToLower(text) || strings.Contains(text, "*") ||
			u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" {
			return o, fmt.Errorf("%q is no origin: expected what browsers send, such as https://shop.example or http://localhost:3000, or *", text)
		}
		o.named = append(o.named, text)
	}
	if o.any && len(o.named) > 0 {
		return o, fmt.Errorf("* takes every origin, without credentials: expected either * or origins by name")
	}
	return o, nil
}

// originKey is the context key of the origin that a request's answer may be shared with, "*" for any.
type originKey struct{}

// remember returns r with the origin that its answer may be shared with, where there is one.
func (o origins) remember(r *http.Request) *http.Request {
	lines := r.Header["Origin"]
	switch {
	case len(lines) != 1:
		return r
	case o.any:
		return r.WithContext(context.WithValue(r.Context(), originKey{}, "*"))
	case slices.Contains(o.named, lines[0]):
		return r.WithContext(context.WithValue(r.Context(), originKey{}, lines[0]))
	}
	return r
}

const (
	allowOrigin      = "Access-Control-Allow-Origin"
	allowCredentials = "Access-Control-Allow-Credentials"
	exposeHeaders    = "Access-Control-Expose-Headers"
)

// share lets the pages of the request's origin read an answer of the gateway's own, where the configuration has it.
func (c *client) share(h http.Header) {
	switch c.origin {
	case "":
	case "*":
		h[allowOrigin] = []string{"*"}
		delete(h, allowCredentials) // browsers take the two together for an error
	default:
		h[allowOrigin], h[allowCredentials] = []string{c.origin}, []string{"true"}
		vary(h, "Origin")
	}
}

// expose lets pages read the gateway's headers on an answer that they may read, marker among them.
func expose(h http.Header, marker string) {
	exposeNames(h, marker+", "+expiresHeader+", Retry-After")
}

// exposeNames is expose for any headers.
func exposeNames(h http.Header, names string) {
	if _, ok := h[allowOrigin]; ok {
		lines := slices.Clone(h[exposeHeaders]) // h may share its lines with the upstream's answer
		h[exposeHeaders] = append(lines, names)
	}
}

// preflightFor is how long a browser may remember a preflight, in seconds.
const preflightFor = "600"

// preflight answers a browser that asks whether a page of a listed origin may fetch what is the gateway's own. It
// returns false where the request is no such question.
func (c *client) preflight(r *http.Request) bool {
	if r.Method != http.MethodOptions || c.origin == "" || r.Header["Access-Control-Request-Method"] == nil {
		return false
	}
	h := http.Header{"Access-Control-Allow-Methods": {"GET, HEAD"}, "Access-Control-Max-Age": {preflightFor}}
	if asked := r.Header["Access-Control-Request-Headers"]; asked != nil {
		h["Access-Control-Allow-Headers"] = asked
		vary(h, "Access-Control-Request-Headers")
	}
	c.share(h)
	c.send(http.StatusNoContent, h, nil)
	return true
}

// vary adds a name to Vary, unless it is there.
func vary(h http.Header, name string) {
	for _, line := range h["Vary"] {
		for listed := range strings.SplitSeq(line, ",") {
			if listed = strings.TrimSpace(listed); listed == "*" || strings.EqualFold(listed, name) {
				return
			}
		}
	}
	h["Vary"] = append(slices.Clone(h["Vary"]), name)
}
