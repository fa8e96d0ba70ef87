package gateway

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// pattern is what a route matches: methods, and a path in segments.
type pattern struct {
	text     string // as written
	methods  []string
	segments []segment
	rest     bool // ends in *: any further segments, also none
}

// segment is one path segment: a literal, decoded, or a {name} for any one that is not empty.
type segment struct {
	literal string
	name    string
}

// parsePattern reads "METHOD /path/{name}/*". No method means POST and PATCH.
func parsePattern(text string) (pattern, error) {
	p := pattern{text: text, methods: []string{"POST", "PATCH"}}
	method, path, ok := strings.Cut(text, " ")
	if !ok {
		method, path = "", text
	}
	if ok {
		if err := checkMethod(method); err != nil {
			return p, err
		}
		p.methods = []string{method}
	}
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, " ?#;\\") {
		return p, fmt.Errorf(`%q is no path: expected one such as "POST /charge" or "/pay/{id}/*", with no query, space, ";" or "\"`, path)
	}
	if path == "/" {
		return p, nil
	}
	if own, odd := ownPath(path); own || odd {
		return p, fmt.Errorf("%q is below /%s/, which is the gateway's own and never forwarded", path, ownSegment)
	}
	parts := strings.Split(path[1:], "/")
	for i, part := range parts {
		if part == "*" && i == len(parts)-1 {
			p.rest = true
			break
		}
		s, err := parseSegment(part)
		if err != nil {
			return p, err
		}
		if s.name != "" && slices.ContainsFunc(p.segments, func(o segment) bool { return o.name == s.name }) {
			return p, fmt.Errorf("{%s} stands twice", s.name)
		}
		p.segments = append(p.segments, s)
	}
	return p, nil
}

func checkMethod(method string) error {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "CONNECT":
		return fmt.Errorf("%s is never protected: expected POST, PATCH, PUT, DELETE or another method with an effect", method)
	}
	for i := 0; i < len(method); i++ {
		if method[i] < 'A' || method[i] > 'Z' {
			return fmt.Errorf("%q is no method: expected upper-case letters, such as POST", method)
		}
	}
	if method == "" {
		return errors.New("it begins with a space: expected a method or a path")
	}
	return nil
}

func parseSegment(part string) (segment, error) {
	if name, ok := strings.CutPrefix(part, "{"); ok && strings.HasSuffix(name, "}") && len(name) > 1 && !strings.ContainsAny(name[:len(name)-1], "{}*") {
		return segment{name: name[:len(name)-1]}, nil
	}
	switch {
	case part == "":
		return segment{}, errors.New("it has an empty segment; a slash at the end counts for nothing and is left out")
	case part == "." || part == "..":
		return segment{}, fmt.Errorf("%q is no segment of a plain path", part)
	case strings.ContainsAny(part, "{}*"):
		return segment{}, fmt.Errorf("in %q: {name} stands for a whole segment, and * for the rest, at the very end", part)
	}
	literal, err := url.PathUnescape(part)
	if err != nil {
		return segment{}, fmt.Errorf("%q has a bad percent escape", part)
	}
	return segment{literal: literal}, nil
}

// match tells whether the pattern matches the decoded segments. Case counts for nothing
// in a literal, as upstreams differ in that.
func (p *pattern) match(path []string) bool {
	if len(path) < len(p.segments) || len(path) > len(p.segments) && !p.rest {
		return false
	}
	for i, s := range p.segments {
		if s.name != "" && path[i] == "" || s.name == "" && !strings.EqualFold(s.literal, path[i]) {
			return false
		}
	}
	return true
}

// takes tells whether the pattern is for this method.
func (p *pattern) takes(method string) bool { return slices.Contains(p.methods, method) }

// covers tells whether every request that o matches is matched by p too.
func (p *pattern) covers(o *pattern) bool {
	for _, m := range o.methods {
		if !p.takes(m) {
			return false
		}
	}
	if len(o.segments) < len(p.segments) || o.rest && !p.rest || len(o.segments) > len(p.segments) && !p.rest {
		return false
	}
	for i, s := range p.segments {
		other := o.segments[i]
		if s.name == "" && (other.name != "" || !strings.EqualFold(s.literal, other.literal)) {
			return false
		}
	}
	return true
}

// scopeOf names the part of a tenant's keys that belongs to a request under
// scope: route: the method, and the pattern with its variable parts as sent. The
// spellings of one path that the pattern takes alike thus share one scope.
func (p *pattern) scopeOf(method string, path []string) string {
	var b strings.Builder
	b.WriteString(method + " ")
	for i, part := range path {
		if i < len(p.segments) && p.segments[i].name == "" {
			part = p.segments[i].literal
		}
		b.WriteString("/" + url.PathEscape(part))
	}
	if len(path) == 0 {
		b.WriteByte('/')
	}
	return b.String()
}
