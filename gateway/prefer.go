package gateway

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"onced"
)

// preference is what a client asks for with Prefer (RFC 7240): to be answered before the operation ends.
type preference struct {
	async bool
	wait  time.Duration // how long to wait for the answer before that; 0 = not at all
}

const (
	preferHeader = "Prefer"
	respondAsync = "respond-async"
	waitName     = "wait"
)

// preferenceOf reads the Prefer lines. Of a preference that stands twice the first counts, and
// one that cannot be read is ignored, as the RFC says. wait is of use only to who wants no
// answer in the end.
func preferenceOf(h http.Header) preference {
	var p preference
	seen := map[string]bool{}
	for _, item := range preferences(h) {
		name, value := nameOf(item)
		if seen[name] {
			continue
		}
		seen[name] = true
		switch name {
		case respondAsync:
			p.async = true
		case waitName:
			if n, err := strconv.ParseUint(value, 10, 31); err == nil {
				p.wait = min(time.Duration(n)*time.Second, onced.MaxWait)
			}
		}
	}
	if !p.async {
		return preference{}
	}
	return p
}

// preferences returns the preferences of all lines, each with its value and its parameters.
func preferences(h http.Header) []string {
	var items []string
	for _, line := range h[preferHeader] {
		quoted, begin := false, 0
		for i := 0; i < len(line); i++ {
			switch {
			case quoted && line[i] == '\\':
				i++
			case line[i] == '"':
				quoted = !quoted
			case line[i] == ',' && !quoted:
				items = append(items, line[begin:i])
				begin = i + 1
			}
		}
		items = append(items, line[begin:])
	}
	return items
}

// nameOf splits a preference into its name, in lower case, and its value. Parameters are dropped.
func nameOf(item string) (name, value string) {
	item, _, _ = strings.Cut(item, ";") // a quoted ";" would cut a value that means nothing to us
	name, value, _ = strings.Cut(item, "=")
	return strings.ToLower(strings.TrimSpace(name)), strings.Trim(strings.TrimSpace(value), `"`)
}

// withoutPreference returns h without what the gateway itself has applied: the upstream must not answer
// 202 to an operation that is to be recorded by its answer. All else is left as it is.
func withoutPreference(h http.Header) http.Header {
	out := maps.Clone(h)
	var left []string
	for _, item := range preferences(h) {
		if name, _ := nameOf(item); name != respondAsync && name != waitName {
			left = append(left, strings.TrimSpace(item))
		}
	}
	delete(out, preferHeader)
	if len(left) > 0 {
		out[preferHeader] = []string{strings.Join(left, ", ")}
	}
	return out
}
