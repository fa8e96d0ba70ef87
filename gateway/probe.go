package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// probe is the look-up of a route with on_unknown: probe, such as "GET /charges?key={key}": what the
// upstream is asked when it is not known whether an operation happened. It is never changed.
type probe struct {
	text  string // as written
	parts []probePart
}

// probePart is a literal, as it goes over the wire, or a variable.
type probePart struct {
	literal string
	name    string // "key", or a {name} of the route's match; "" = literal
	query   bool   // it stands behind the question mark
}

// keyVariable is the variable that stands for the idempotency key.
const keyVariable = "key"

// parseProbe reads a look-up whose variables are those of the route, and {key}.
func parseProbe(text string, match *pattern) (*probe, error) {
	method, target, found := strings.Cut(text, " ")
	switch {
	case !found || !strings.HasPrefix(target, "/"):
		return nil, fmt.Errorf(`%q is no look-up: expected one such as "GET /charges?key={key}"`, text)
	case method != http.MethodGet:
		return nil, fmt.Errorf("%q: the method is %s, expected GET: a look-up has no effect", text, method)
	case strings.ContainsAny(target, " #\\"):
		return nil, fmt.Errorf(`%q: the path has a space, "#" or "\"; expected a plain path, percent-encoded`, text)
	}
	p := &probe{text: text}
	if err := p.split(target, match); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	if !slices.ContainsFunc(p.parts, func(part probePart) bool { return part.name == keyVariable }) {
		return nil, fmt.Errorf("%q has no {key}: without it every operation would be looked up as the same one", text)
	}
	if _, err := p.render(func(string) string { return "x" }); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return p, nil
}

// split cuts the target into literals and variables.
func (p *probe) split(target string, match *pattern) error {
	query := false
	for target != "" {
		literal, rest, open := strings.Cut(target, "{")
		if strings.Contains(literal, "}") {
			return errors.New(`there is a "}" without its "{"`)
		}
		if literal != "" {
			p.parts = append(p.parts, probePart{literal: literal})
			query = query || strings.Contains(literal, "?")
		}
		if !open {
			return nil
		}
		name, after, closed := strings.Cut(rest, "}")
		known := name == keyVariable || slices.ContainsFunc(match.segments, func(s segment) bool { return s.name == name && name != "" })
		switch {
		case !closed:
			return errors.New(`there is a "{" without its "}"`)
		case !known:
			return fmt.Errorf("{%s} stands for nothing: expected {key}, or a {name} of the route's match", name)
		}
		p.parts = append(p.parts, probePart{name: name, query: query})
		target = after
	}
	return nil
}

var errOddLookUp = errors.New("with these values its path could be read in more than one way")

// render returns path and query of the look-up, each value percent-encoded for where it
// stands. A path that upstreams read in more than one way is an error: what they would look up is not
// what is meant.
func (p *probe) render(value func(name string) string) (*url.URL, error) {
	var b strings.Builder
	for _, part := range p.parts {
		switch {
		case part.name == "":
			b.WriteString(part.literal)
		case part.query: // a plus sign would be a space to some and a plus to others
			b.WriteString(strings.ReplaceAll(url.QueryEscape(value(part.name)), "+", "%20"))
		default:
			b.WriteString(url.PathEscape(value(part.name)))
		}
	}
	u, err := url.ParseRequestURI(b.String())
	if err != nil {
		return nil, fmt.Errorf("it is no path: %w", err)
	}
	if isOdd(u.EscapedPath()) {
		return nil, errOddLookUp
	}
	return &url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}, nil
}

// variable returns what a variable of the look-up stands for in a request: its key, or a
// segment of its path.
func (o *operation) variable(name string) string {
	if name == keyVariable {
		return string(o.id.Key)
	}
	for i, s := range o.route.pattern.segments {
		if s.name == name {
			return o.segments[i]
		}
	}
	return ""
}
