package wire

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"onced"
)

// literal reads true, false or null, and returns its text.
func (s *scanner) literal() (string, error) {
	s.peek()
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
			s.pos += len(word)
			return word, nil
		}
	}
	return "", s.broken("true, false or null")
}

// number reads a number and returns its text.
func (s *scanner) number() ([]byte, error) {
	s.peek()
	start := s.pos
	if s.pos < len(s.data) && s.data[s.pos] == '-' {
		s.pos++
	}
	first := s.pos
	if s.digits() == 0 {
		return nil, s.broken("a value")
	}
	if s.data[first] == '0' && s.pos > first+1 {
		s.pos = first
		return nil, s.broken("a number without a leading zero")
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if s.digits() == 0 {
			return nil, s.broken("a digit")
		}
	}
	if s.pos < len(s.data) && (s.data[s.pos] == 'e' || s.data[s.pos] == 'E') {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if s.digits() == 0 {
			return nil, s.broken("a digit")
		}
	}
	return s.data[start:s.pos], nil
}

// digits consumes digits and returns how many there were.
func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}

// integer reads an integer literal from min to max.
func (s *scanner) integer(min, max int64) (int64, error) {
	if s.kind() != "a number" {
		return 0, s.wrongType("an integer from " + strconv.FormatInt(min, 10) + " to " + strconv.FormatInt(max, 10))
	}
	text, err := s.number()
	if err != nil {
		return 0, err
	}
	// ParseInt refuses a fraction and an exponent, which is what is wanted: a
	// token that went through a double is no token.
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < min || n > max {
		return 0, s.fail("is %.40s: expected an integer from %d to %d, without fraction or exponent", text, min, max)
	}
	return n, nil
}

// token reads a token, which is never 0.
func (s *scanner) token() (onced.Token, error) {
	n, err := s.integer(1, int64(onced.MaxToken))
	return onced.Token(n), err
}

// boolean reads true or false.
func (s *scanner) boolean() (bool, error) {
	if s.kind() != "a boolean" {
		return false, s.wrongType("true or false")
	}
	word, err := s.literal()
	return word == "true", err
}

// duration reads a Go duration string from min to max.
func (s *scanner) duration(min, max time.Duration) (time.Duration, error) {
	expected := "a duration from " + FormatDuration(min) + " to " + FormatDuration(max) + `, such as "30s"`
	if s.peek() != '"' {
		return 0, s.wrongType(expected)
	}
	text, err := s.str()
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < min || d > max {
		return 0, s.fail("is %.40q: expected %s", text, expected)
	}
	return d, nil
}

// anyDuration reads a Go duration string of any length that is not negative.
func (s *scanner) anyDuration() (time.Duration, error) { return s.duration(0, math.MaxInt64) }

// timeForm is RFC 3339 in UTC with exactly milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z"

// instant reads a time.
func (s *scanner) instant() (onced.Instant, error) {
	text, err := s.str()
	if err != nil {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, s.fail("is %.40q: expected a time such as 2006-01-02T15:04:05.000Z", text)
	}
	return onced.InstantOf(t), nil
}

// base64 reads bytes in standard base64 with padding.
func (s *scanner) base64() ([]byte, error) {
	text, err := s.text()
	if err != nil {
		return nil, err
	}
	return s.decodeBase64(text)
}

// decodeBase64 returns what text, the value being read, stands for.
func (s *scanner) decodeBase64(text []byte) ([]byte, error) {
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(out, text)
	// The decoder steps over line breaks; two spellings of one body are one too many.
	if err != nil || bytes.ContainsAny(text, "\r\n") {
		return nil, s.fail("is no base64: expected the standard alphabet with padding and without line breaks")
	}
	return out[:n], nil
}
