package fingerprint

import (
	"mime"
	"sort"
	"strings"
)

// media is a Content-Type whose parameters have no order.
type media struct {
	lines  []string // as sent; what counts when they could not be read
	kind   string   // "application/json", lower case; "" = not readable
	params map[string]string
}

func parseMedia(lines []string) media {
	m := media{lines: lines}
	if len(lines) != 1 {
		return m
	}
	if kind, params, err := mime.ParseMediaType(lines[0]); err == nil {
		m.kind, m.params = kind, params
	}
	return m
}

func (m media) isJSON() bool {
	return m.kind == "application/json" || m.kind == "text/json" || strings.HasSuffix(m.kind, "+json")
}

// boundary returns the boundary of a multipart type.
func (m media) boundary() (string, bool) {
	b := m.params["boundary"]
	return b, strings.HasPrefix(m.kind, "multipart/") && b != ""
}

func (m media) withoutBoundary() media {
	params := make(map[string]string, len(m.params))
	for name, value := range m.params {
		if name != "boundary" {
			params[name] = value
		}
	}
	m.params = params
	return m
}

func (m media) write(w *writer) {
	if m.kind == "" {
		w.strings("content-type", m.lines)
		return
	}
	names := make([]string, 0, len(m.params))
	for name := range m.params {
		names = append(names, name)
	}
	sort.Strings(names)
	parts := []string{m.kind}
	for _, name := range names {
		value := m.params[name]
		if name == "charset" { // the one parameter whose value has no case (RFC 9110 §8.3.2)
			value = strings.ToLower(value)
		}
		parts = append(parts, name, value)
	}
	w.strings("media", parts)
}
