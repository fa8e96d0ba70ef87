package fingerprint

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// number reads a number and returns it as written: 1, 1.0 and 1e0 are three
// literals, so no two amounts ever meet by being rounded.
func (p *jsonParser) number() ([]byte, bool) {
	start := p.pos
	p.skip('-')
	if !p.skip('0') && !p.digits() {
		return nil, false
	}
	if p.skip('.') && !p.digits() {
		return nil, false
	}
	if p.skip('e') || p.skip('E') {
		if !p.skip('+') {
			p.skip('-')
		}
		if !p.digits() {
			return nil, false
		}
	}
	return p.in[start:p.pos], true
}

// skip consumes c if it is the very next byte.
func (p *jsonParser) skip(c byte) bool {
	if p.pos < len(p.in) && p.in[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *jsonParser) digits() bool {
	start := p.pos
	for p.pos < len(p.in) && p.in[p.pos] >= '0' && p.in[p.pos] <= '9' {
		p.pos++
	}
	return p.pos > start
}

// text reads a string, whose opening quote is next, and unescapes it.
func (p *jsonParser) text() ([]byte, bool) {
	p.pos++
	out := []byte{}
	for p.pos < len(p.in) {
		switch c := p.in[p.pos]; {
		case c == '"':
			p.pos++
			return out, true
		case c == '\\':
			var ok bool
			if out, ok = p.escape(out); !ok {
				return nil, false
			}
		case c < 0x20:
			return nil, false
		case c < utf8.RuneSelf:
			out = append(out, c)
			p.pos++
		default:
			r, size := utf8.DecodeRune(p.in[p.pos:])
			if r == utf8.RuneError && size == 1 {
				return nil, false
			}
			out = append(out, p.in[p.pos:p.pos+size]...)
			p.pos += size
		}
	}
	return nil, false
}

var simpleEscapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (p *jsonParser) escape(out []byte) ([]byte, bool) {
	p.pos++ // the backslash
	if p.pos == len(p.in) {
		return nil, false
	}
	if c, ok := simpleEscapes[p.in[p.pos]]; ok {
		p.pos++
		return append(out, c), true
	}
	r, ok := p.hex()
	if !ok {
		return nil, false
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(out, r), true
	}
	// A pair is one character. A lone half is no text in any encoding, and upstreams
	// do not agree on what it means, so the body is compared raw.
	if !p.skip('\\') {
		return nil, false
	}
	low, ok := p.hex()
	if !ok {
		return nil, false
	}
	r = utf16.DecodeRune(r, low)
	return utf8.AppendRune(out, r), r != utf8.RuneError
}

// hex reads u and four hexadecimal digits.
func (p *jsonParser) hex() (rune, bool) {
	if !p.skip('u') || len(p.in)-p.pos < 4 {
		return 0, false
	}
	digits := p.in[p.pos : p.pos+4]
	for _, c := range digits {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(digits), 16, 16)
	p.pos += 4
	return rune(n), err == nil
}
