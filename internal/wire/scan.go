package wire

import (
	"fmt"
	"strings"
)

// shapeError says which member has which fault. The decoders of calls turn it into
// invalid_request; those of answers into a plain error.
type shapeError struct{ text string }

func (e *shapeError) Error() string { return e.text }

// scanner reads one JSON text (RFC 8259) from left to right.
type scanner struct {
	data    []byte
	pos     int
	path    []byte // the member being read, as "response.headers[2]", for messages
	lenient bool   // skip unknown members, let a repeated one win
}

// fail returns a shapeError about the member being read.
func (s *scanner) fail(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if len(s.path) == 0 {
		return &shapeError{"the body " + text}
	}
	return &shapeError{fmt.Sprintf("%q %s", s.path, text)}
}

// broken returns the shapeError for a byte that no JSON text has at this place.
func (s *scanner) broken(expected string) error {
	if s.pos >= len(s.data) {
		return &shapeError{fmt.Sprintf("the body is not JSON: it ends at byte %d, expected %s", s.pos, expected)}
	}
	return &shapeError{fmt.Sprintf("the body is not JSON: %q at byte %d, expected %s", s.data[s.pos], s.pos, expected)}
}

// wrongType returns the shapeError for a value of another type than expected.
func (s *scanner) wrongType(expected string) error {
	found := s.kind()
	if found == "" {
		return s.broken(expected)
	}
	return s.fail("is %s: expected %s", found, expected)
}

// kind names the type of the value that begins at the next byte, "" where none does.
func (s *scanner) kind() string {
	switch c := s.peek(); {
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == 'n':
		return "null"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	}
	return ""
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take consumes c if it is the next byte after white space.
func (s *scanner) take(c byte) bool {
	if s.peek() == c && s.pos < len(s.data) {
		s.pos++
		return true
	}
	return false
}

// end refuses anything but white space after the value.
func (s *scanner) end() error {
	if s.peek(); s.pos < len(s.data) {
		return &shapeError{fmt.Sprintf("the body goes on after its JSON value: %q at byte %d, expected the end", s.data[s.pos], s.pos)}
	}
	return nil
}

// object reads an object, calling member for each member that fields names, and
// returns the set of those that were there, one bit for each index of fields.
func (s *scanner) object(fields []string, member func(field string) error) (fieldSet, error) {
	var seen fieldSet
	if s.peek() != '{' {
		return 0, s.wrongType("an object")
	}
	s.pos++
	if s.take('}') {
		return 0, nil
	}
	base := len(s.path)
	for {
		if s.peek() != '"' {
			return 0, s.broken("a member's name in quotes")
		}
		name, err := s.text()
		if err != nil {
			return 0, err
		}
		if !s.take(':') {
			return 0, s.broken("a colon")
		}
		i := indexOf(fields, name)
		switch {
		case i >= 0 && seen.has(i) && !s.lenient:
			return 0, s.fail("has the member %q twice: expected once", name)
		case i >= 0:
			seen |= 1 << i
			s.push(".", fields[i])
			err = member(fields[i])
		case s.lenient:
			err = s.skip(0)
		default:
			return 0, s.unknown(fields, name)
		}
		if err != nil {
			return 0, err
		}
		s.path = s.path[:base]
		if s.take('}') {
			return seen, nil
		}
		if !s.take(',') {
			return 0, s.broken("a comma or the end of the object")
		}
	}
}

// unknown returns the shapeError for a member that fields does not name.
func (s *scanner) unknown(fields []string, name []byte) error {
	for _, field := range fields {
		if strings.EqualFold(field, string(name)) {
			return s.fail("has the unknown member %.60q: expected %q, as names are lower case", name, field)
		}
	}
	return s.fail("has the unknown member %.60q: expected only %s", name, strings.Join(fields, ", "))
}

// array reads an array, calling element for each element.
func (s *scanner) array(element func(i int) error) error {
	if s.peek() != '[' {
		return s.wrongType("an array")
	}
	s.pos++
	if s.take(']') {
		return nil
	}
	base := len(s.path)
	for i := 0; ; i++ {
		s.path = fmt.Appendf(s.path, "[%d]", i)
		if err := element(i); err != nil {
			return err
		}
		s.path = s.path[:base]
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.broken("a comma or the end of the array")
		}
	}
}

// push appends a member's name to the path.
func (s *scanner) push(sep, name string) {
	if len(s.path) > 0 {
		s.path = append(s.path, sep...)
	}
	s.path = append(s.path, name...)
}

// fieldSet has one bit for each index of a list of names.
type fieldSet uint64

func (f fieldSet) has(i int) bool { return f&(1<<i) != 0 }

// missing returns a shapeError unless the member name of fields was there.
func (s *scanner) missing(fields []string, seen fieldSet, name, expected string) error {
	if seen.has(indexOf(fields, []byte(name))) {
		return nil
	}
	return s.fail("lacks the member %q: expected %s", name, expected)
}

func indexOf(fields []string, name []byte) int {
	for i, field := range fields {
		if field == string(name) {
			return i
		}
	}
	return -1
}
