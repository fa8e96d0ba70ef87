package wire

import "bytes"

// maxDepth bounds the nesting of a value that is skipped or kept verbatim.
const maxDepth = 10_000

// raw reads any value and returns a copy of its text, which is at most max bytes long.
func (s *scanner) raw(max int) ([]byte, error) {
	s.peek()
	start := s.pos
	if err := s.skip(0); err != nil {
		return nil, err
	}
	if n := s.pos - start; n > max {
		return nil, s.fail("has %d bytes: expected at most %d", n, max)
	}
	return bytes.Clone(s.data[start:s.pos]), nil
}

// skip reads any value. Only its grammar and its UTF-8 are judged.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return s.fail("is nested too deeply: expected at most %d levels", maxDepth)
	}
	switch c := s.peek(); c {
	case '{':
		return s.skipList('}', func() error {
			if s.peek() != '"' {
				return s.broken("a member's name in quotes")
			}
			if err := s.skipText(); err != nil {
				return err
			}
			if !s.take(':') {
				return s.broken("a colon")
			}
			return s.skip(depth + 1)
		})
	case '[':
		return s.skipList(']', func() error { return s.skip(depth + 1) })
	case '"':
		return s.skipText()
	case 't', 'f', 'n':
		_, err := s.literal()
		return err
	}
	_, err := s.number()
	return err
}

// skipList reads the elements of an object or an array up to its closing byte.
func (s *scanner) skipList(closing byte, element func() error) error {
	s.pos++
	if s.take(closing) {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.take(closing) {
			return nil
		}
		if !s.take(',') {
			return s.broken("a comma or the end of the list")
		}
	}
}
