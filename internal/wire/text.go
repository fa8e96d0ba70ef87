package wire

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string.
func (s *scanner) str() (string, error) {
	b, err := s.text()
	return string(b), err
}

// text reads a string and returns its unescaped bytes, which may lie in s.data.
func (s *scanner) text() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.wrongType("a string")
	}
	start := s.pos + 1
	for i := start; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return s.data[start:i], s.checkUTF8(s.data[start:i])
		case c == '\\':
			return s.unescape(start, i)
		case c < 0x20:
			s.pos = i
			return nil, s.broken("control characters in a string to be escaped")
		}
	}
	s.pos = len(s.data)
	return nil, s.broken("the closing quote of a string")
}

// unescape goes on where text met its first backslash, at i.
func (s *scanner) unescape(start, i int) ([]byte, error) {
	out := append(make([]byte, 0, i-start+64), s.data[start:i]...)
	for i < len(s.data) {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return out, s.checkUTF8(out)
		case c < 0x20:
			s.pos = i
			return nil, s.broken("control characters in a string to be escaped")
		case c == '\\':
			r, n := escape(s.data[i:])
			if n == 0 {
				s.pos = i
				return nil, s.broken(`one of the escapes \" \\ \/ \b \f \n \r \t \uXXXX`)
			}
			if utf16.IsSurrogate(r) {
				return nil, s.fail(`has the lone surrogate \u%04x: expected Unicode text`, r)
			}
			out = utf8.AppendRune(out, r)
			i += n
		default:
			run := bytes.IndexAny(s.data[i:], "\"\\")
			if run < 0 {
				run = len(s.data) - i
			}
			if ctl := bytes.IndexFunc(s.data[i:i+run], func(r rune) bool { return r < 0x20 }); ctl >= 0 {
				run = ctl
			}
			out = append(out, s.data[i:i+run]...)
			i += run
		}
	}
	s.pos = len(s.data)
	return nil, s.broken("the closing quote of a string")
}

// escape reads the escape that b begins with. n is its length in b, 0 for none. A
// surrogate that has no partner is returned as it is.
func escape(b []byte) (r rune, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, b[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	if b[1] != 'u' {
		return 0, 0
	}
	high, ok := hex4(b[2:])
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(high) && len(b) >= 8 && b[6] == '\\' && b[7] == 'u' {
		if low, ok := hex4(b[8:]); ok {
			if pair := utf16.DecodeRune(high, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return high, 6
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

func (s *scanner) checkUTF8(b []byte) error {
	if utf8.Valid(b) {
		return nil
	}
	return s.fail("has bytes that are not UTF-8: expected UTF-8 throughout")
}

// skipText reads a string without unescaping it. A lone surrogate's escape is
// grammar, and stays as it is written.
func (s *scanner) skipText() error {
	start := s.pos + 1
	for i := start; i < len(s.data); {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return s.checkUTF8(s.data[start:i])
		case c == '\\':
			_, n := escape(s.data[i:])
			if n == 0 {
				s.pos = i
				return s.broken(`one of the escapes \" \\ \/ \b \f \n \r \t \uXXXX`)
			}
			i += n
		case c < 0x20:
			s.pos = i
			return s.broken("control characters in a string to be escaped")
		default:
			i++
		}
	}
	s.pos = len(s.data)
	return s.broken("the closing quote of a string")
}
