package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"onced"
)

// table is one configuration in force. It is never changed, only replaced.
type table struct {
	upstream    *url.URL
	roots       *x509.CertPool   // that an https upstream is trusted by; nil = the system's
	certificate *tls.Certificate // of the listener; nil = no TLS
	cors        origins
	account     account
	routes      []*route
	own         map[string]*route      // of what is asked about an operation, by contract
	proxy       *httputil.ReverseProxy // for what is not protected

	detectWindow  time.Duration // 0 = off
	bodyMemory    int64         // bytes
	headerTimeout time.Duration
	pace          pace
	blobPlan      *blobPlan
	blobs         *blobStore // nil = none
}

// choice is the route of a request; route is nil where none matches.
type choice struct {
	route    *route
	method   string   // upper case
	segments []string // the path, read plainly
}

// choose returns the first route that matches. escaped is the path as sent.
//
// A path that can be read in several ways goes by its plain reading only if no
// other reading is protected by another route: an upstream that reads it that way
// would run a protected operation unprotected, or under another route's policy. Such a
// path is a CodeInvalidRequest problem.
func (t *table) choose(method, escaped string) (choice, error) {
	method = strings.ToUpper(method) // an upstream may fold its case
	if !t.protects(method) {
		return choice{}, nil
	}
	c := choice{method: method, segments: plainSegments(escaped)}
	c.route = t.first(method, c.segments)
	if len(escaped) > maxOddPath && isOdd(escaped) {
		return c, onced.Problemf(onced.CodeInvalidRequest,
			"the path has %d bytes and can be read in more than one way; expected at most %d, or its plain form, without escapes of escapes, dot segments, double slashes, backslashes, parameters or escaped separators", len(escaped), maxOddPath)
	}
	for _, other := range otherReadings(escaped) {
		if rt := t.first(method, other); rt.protected() && rt != c.route {
			return c, onced.Problemf(onced.CodeInvalidRequest,
				"the path can also be read as /%s, which is protected by the route %q; send it in its plain form, without dot segments, double slashes, backslashes, parameters or escaped separators",
				strings.Join(other, "/"), rt.pattern.text)
		}
	}
	return c, nil
}

// protects tells whether any route takes the method.
func (t *table) protects(method string) bool {
	for _, rt := range t.routes {
		if rt.pattern.takes(method) {
			return true
		}
	}
	return false
}

func (t *table) first(method string, path []string) *route {
	for _, rt := range t.routes {
		if rt.pattern.takes(method) && rt.pattern.match(path) {
			return rt
		}
	}
	return nil
}
