package gateway

import (
	"net/url"
	"slices"
	"strings"
)

// plainSegments reads an escaped path the plain way: split at each slash as sent, every
// segment decoded on its own, one slash at the end counting for nothing.
func plainSegments(escaped string) []string {
	trimmed := strings.TrimPrefix(escaped, "/")
	trimmed = strings.TrimSuffix(trimmed, "/")
	if trimmed == "" && len(escaped) <= 1 {
		return nil
	}
	parts := strings.Split(trimmed, "/")
	for i, part := range parts {
		if decoded, err := url.PathUnescape(part); err == nil {
			parts[i] = decoded
		}
	}
	return parts
}

// plainPath is the path as the fingerprint takes it: as sent, with each segment's
// percent escapes in one form. A slash at the end stays.
func plainPath(escaped string) string {
	parts := strings.Split(escaped, "/")
	for i, part := range parts {
		if decoded, err := url.PathUnescape(part); err == nil {
			parts[i] = url.PathEscape(decoded)
		}
	}
	return strings.Join(parts, "/")
}

// maxOddPath is how long a path may be, in bytes, that can be read in more than one way: the readings take time.
const maxOddPath = 8 << 10

// otherReadings returns how else an upstream may read the path. Each of these is one habit that an upstream has or has not,
// whatever its others: escapes are decoded once, twice or more before the split; a backslash is a slash; what follows a NUL, "?" or "#" is cut;
// a double slash begins an authority; and those of lenientSegments. So every combination is tried.
// A path without any of these has no other reading.
func otherReadings(escaped string) [][]string {
	if !isOdd(escaped) {
		return nil
	}
	var readings [][]string
	for _, text := range texts(escaped) {
		for _, h := range allHabits {
			if h.cutParams && !strings.Contains(text, ";") {
				continue
			}
			readings = append(readings, lenientSegments(text, h))
		}
	}
	return readings
}

// texts are what the path may be before it is split at slashes, each once.
func texts(escaped string) []string {
	out := []string{escaped}
	add := func(text string) {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for text, i := escaped, 0; i < maxDecodings; i++ {
		text = decodeOnce(text)
		add(text)
	}
	for _, text := range slices.Clone(out) {
		add(strings.ReplaceAll(text, `\`, "/"))
	}
	for _, text := range slices.Clone(out) {
		if i := strings.IndexAny(text, "\x00?#"); i >= 0 {
			add(text[:i])
		}
	}
	for _, text := range slices.Clone(out) {
		if strings.HasPrefix(text, "//") {
			_, path, _ := strings.Cut(strings.TrimLeft(text, "/"), "/")
			add(path)
		}
	}
	return out
}

// habits are how an upstream makes segments of a text.
type habits struct {
	cutParams bool // ";parameters" are cut
	trim      trim
	resolve   bool // "." and ".." are resolved
	empties   bool // ".." removes an empty segment as it does any other
}

// trim is what some file systems and servers drop of a segment.
type trim int

const (
	trimNothing trim = iota
	trimBlanks       // control bytes and blanks at both ends
	trimDots         // and dots at the end
)

var allHabits = func() (all []habits) {
	for _, cutParams := range []bool{false, true} {
		for _, t := range []trim{trimNothing, trimBlanks, trimDots} {
			all = append(all, habits{cutParams, t, false, false}, habits{cutParams, t, true, false}, habits{cutParams, t, true, true})
		}
	}
	return all
}()

// isOdd tells whether the path has anything that upstreams read in more than one way.
func isOdd(escaped string) bool {
	decoded, err := url.PathUnescape(escaped)
	if err != nil || strings.ContainsAny(decoded, "\\;%?#") || strings.Contains(decoded, "//") ||
		strings.Count(decoded, "/") != strings.Count(escaped, "/") {
		return true
	}
	for _, segment := range strings.Split(decoded, "/") {
		if segment != trimDots.of(segment) || segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// of drops from a segment. Dot segments are no names, and stay.
func (t trim) of(segment string) string {
	if t == trimNothing || segment == "." || segment == ".." {
		return segment
	}
	segment = strings.TrimFunc(segment, func(r rune) bool { return r <= ' ' })
	if t == trimBlanks || segment == "." || segment == ".." {
		return segment
	}
	return strings.TrimRightFunc(segment, func(r rune) bool { return r <= ' ' || r == '.' })
}

// maxDecodings bounds how often escapes are decoded over and over: an upstream behind
// another proxy decodes twice, and a path that nests deeper must not cost time.
const maxDecodings = 4

// decodeOnce decodes every well-formed escape and leaves the others as they are.
func decodeOnce(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := unhex(s[i+1]), unhex(s[i+2])
			if high >= 0 && low >= 0 {
				out = append(out, byte(high<<4|low))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

// unhex returns the value of a hexadecimal digit, -1 for any other byte.
func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func lenientSegments(text string, h habits) []string {
	var out []string
	for segment := range strings.SplitSeq(strings.TrimPrefix(text, "/"), "/") {
		if h.cutParams {
			segment, _, _ = strings.Cut(segment, ";")
		}
		switch segment = h.trim.of(segment); {
		case h.resolve && segment == ".", segment == "" && !h.empties:
		case h.resolve && segment == "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		default:
			out = append(out, segment)
		}
	}
	return slices.DeleteFunc(out, func(segment string) bool { return segment == "" })
}
