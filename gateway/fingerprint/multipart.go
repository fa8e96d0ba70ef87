package fingerprint

import (
	"bytes"
	"sort"
	"strings"
)

// part is one part of a multipart body.
type part struct {
	headers []string // name, value, name, value …, by lower-case name, in their order within one
	content []byte
}

// splitMultipart reads a body that is nothing but its parts. It is strict on
// purpose: a preamble, an epilogue, padding after a boundary, bare line feeds or a
// folded header make it return false, and the body is compared byte by byte.
func splitMultipart(body []byte, boundary string) ([]part, bool) {
	rest, ok := bytes.CutPrefix(body, []byte("--"+boundary+"\r\n"))
	if !ok {
		return nil, false
	}
	delimiter := []byte("\r\n--" + boundary)
	var parts []part
	for {
		// A part without headers begins with the empty line that ends them.
		section, after, found := bytes.Cut(rest, delimiter)
		if !found {
			return nil, false
		}
		p, ok := readPart(section)
		if !ok {
			return nil, false
		}
		parts = append(parts, p)
		switch {
		case bytes.HasPrefix(after, []byte("\r\n")):
			rest = after[2:]
		case string(after) == "--" || string(after) == "--\r\n":
			return parts, true
		default:
			return nil, false
		}
	}
}

func readPart(section []byte) (part, bool) {
	if content, ok := bytes.CutPrefix(section, []byte("\r\n")); ok {
		return part{content: content}, true
	}
	head, content, ok := bytes.Cut(section, []byte("\r\n\r\n"))
	if !ok {
		return part{}, false
	}
	type line struct{ name, value string }
	var lines []line
	for _, text := range strings.Split(string(head), "\r\n") {
		name, value, ok := strings.Cut(text, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsAny(value, "\r\n\x00") {
			return part{}, false
		}
		lines = append(lines, line{strings.ToLower(name), strings.Trim(value, " \t")})
	}
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].name < lines[j].name })
	p := part{content: content}
	for _, l := range lines {
		p.headers = append(p.headers, l.name, l.value)
	}
	return p, true
}

func writeParts(w *writer, parts []part) {
	w.field("multipart")
	w.count(len(parts))
	for _, p := range parts {
		w.strings("part", p.headers)
		w.field("content", p.content)
	}
}
