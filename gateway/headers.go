package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"onced"
)

// The headers that the gateway itself sets.
const (
	attemptHeader  = "Onced-Attempt"
	tokenHeader    = "Onced-Token"
	replayedHeader = "Idempotency-Replayed"
	expiresHeader  = "Idempotency-Expires"
)

// hopByHop are the headers of one connection (RFC 9110 §7.6.1, and what is used like them).
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
}

// neverReplayed are end-to-end headers that belong to one moment or one person: they are
// replayed only where keep_headers names them.
var neverReplayed = map[string]bool{"Set-Cookie": true, "Www-Authenticate": true, "Date": true}

// named returns the canonical names that the Connection headers of h list.
func named(h http.Header) map[string]bool {
	names := map[string]bool{}
	for _, line := range h["Connection"] {
		for _, name := range strings.Split(line, ",") {
			names[textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))] = true
		}
	}
	return names
}

// isOurs tells whether a request header is one that only the gateway may set, or looks like the key or the account. An
// underscore counts as a dash, as CGI-like upstreams cannot tell them apart.
func (t *table) isOurs(name string) bool {
	switch dashed := textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-")); dashed {
	case attemptHeader, tokenHeader:
		return true
	case onced.KeyHeader, t.account.source():
		return name != dashed
	}
	return false
}

// isOurMarker tells whether a response header is one of the gateway's markers.
func isOurMarker(name string) bool { return name == replayedHeader || name == expiresHeader }

// endToEnd returns the headers of an upstream's answer that go on to the client.
func endToEnd(h http.Header) http.Header {
	hop := named(h)
	out := make(http.Header, len(h)+2)
	for name, values := range h {
		if !hopByHop[name] && !hop[name] && !isOurMarker(name) && name != "Content-Length" {
			out[name] = values
		}
	}
	return out
}

// trimNames removes the white space that stands before a colon in an answer (RFC 9112 §5.1): net/http has such a line under
// a name with the space, which nobody looks for. So it has not seen a length that was said in that way, and takes all
// that comes for the body, also what was cut; that is an error.
func trimNames(h http.Header) error {
	for spelled, values := range h {
		name := textproto.CanonicalMIMEHeaderKey(strings.TrimRight(spelled, " \t"))
		if name == spelled {
			continue
		}
		if name == "Content-Length" || name == "Transfer-Encoding" {
			return fmt.Errorf("white space stands before the colon of the answer's %s: nobody can tell where it ends", name)
		}
		delete(h, spelled)
		h[name] = append(h[name], values...)
	}
	return nil
}

// storable returns the lines of end-to-end headers that are stored for the replay: in the order of
// names, spelled as there, where they are known, the others by name.
func (rt *route) storable(h http.Header, order []string) []onced.Header {
	left := make(map[string][]string, len(h))
	for name, values := range h {
		if !neverReplayed[name] || rt.keep[name] {
			left[name] = values
		}
	}
	var lines []onced.Header
	for _, spelled := range order {
		name := textproto.CanonicalMIMEHeaderKey(spelled)
		if values := left[name]; len(values) > 0 {
			lines = append(lines, onced.Header{Name: spelled, Value: values[0]})
			left[name] = values[1:]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		for _, value := range left[name] {
			lines = append(lines, onced.Header{Name: name, Value: value})
		}
	}
	return lines
}

// byName is the order of an answer whose own is not known: the names sorted, one per line.
func byName(h http.Header) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		names = append(names, slices.Repeat([]string{name}, len(h[name]))...)
	}
	return names
}

// orderOf returns the names of stored lines, for the order of the replay.
func orderOf(lines []onced.Header) []string {
	names := make([]string, len(lines))
	for i, l := range lines {
		names[i] = l.Name
	}
	return names
}

// replayable returns the headers of a stored answer. It filters once more, as an
// answer may have been stored by someone else than this gateway.
func (rt *route) replayable(lines []onced.Header) http.Header {
	h := make(http.Header, len(lines)+3)
	for _, l := range lines {
		if isToken(l.Name) {
			h.Add(l.Name, l.Value)
		}
	}
	h = endToEnd(h)
	for name := range neverReplayed {
		if !rt.keep[name] {
			delete(h, name)
		}
	}
	return h
}

// isToken tells whether s can be a header's name (RFC 9110 §5.6.2).
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
