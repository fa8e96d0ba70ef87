package gateway

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"onced"
)

// overrides are the headers by which some upstreams (with Express' method-override, or .NET's, or Spring's) let a request
// name another method than its own.
var overrides = map[string]bool{"X-Http-Method-Override": true, "X-Http-Method": true, "X-Method-Override": true}

// isOverride tells whether a header is one of overrides. An underscore counts as a dash, as CGI-like upstreams cannot tell
// them apart.
func isOverride(name string) bool {
	return overrides[textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))]
}

// otherMethods returns the methods beside its own that an upstream may take a request for, in upper case. Of a list each
// element counts: some upstreams take the first one, and two lines are a list to many.
func otherMethods(r *http.Request) []string {
	var methods []string
	for name, lines := range r.Header {
		if !isOverride(name) {
			continue
		}
		for method := range strings.SplitSeq(strings.Join(lines, ","), ",") {
			if method = strings.ToUpper(strings.Trim(method, " \t")); method != "" && method != strings.ToUpper(r.Method) {
				methods = append(methods, method)
			}
		}
	}
	return methods
}

// checkOverride judges a request that names other methods, as choose does one whose path has other readings: none
// of them may be protected by another route than the one that was chosen.
func (t *table) checkOverride(r *http.Request, c choice) error {
	for _, method := range otherMethods(r) {
		other, err := t.choose(method, r.URL.EscapedPath())
		if err != nil {
			return err
		}
		if other.route.protected() && other.route != c.route {
			return onced.Problemf(onced.CodeInvalidRequest,
				"a header lets this %s be read as %.20q, which is protected by the route %q; send it with that method itself, or name %s in a route too", r.Method, method, other.route.pattern.text, r.Method)
		}
	}
	return nil
}

// methodOf is the method as the fingerprint takes it: with those that an upstream may take it for.
func methodOf(r *http.Request) string {
	methods := otherMethods(r)
	if len(methods) == 0 {
		return r.Method
	}
	slices.Sort(methods) // headers have no order among each other
	return r.Method + " " + strings.Join(methods, " ")
}
