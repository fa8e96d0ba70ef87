package wire

import (
	"strings"
	"unicode/utf8"

	"onced"
)

const (
	// MaxHeaderBytes bounds the names and values of a response's headers
	// together. It is the room that a complete's JSON has around its body.
	MaxHeaderBytes = 64 << 10
	// MaxReferenceBytes bounds the reference to a body that is not kept.
	MaxReferenceBytes = 2 << 10
)

var responseFields = []string{"status", "headers", "body", "body_base64", "body_omitted", "reference"}

// DecodeResponse reads a response that stands alone, as strictly as in the body of a call.
//
// Problems: invalid_request; response_too_large for headers over MaxHeaderBytes.
func DecodeResponse(data []byte) (r *onced.Response, err error) {
	err = decodeCall(data, func(s *scanner) error {
		r, err = s.response()
		return err
	})
	return r, err
}

// response reads a stored answer.
func (s *scanner) response() (*onced.Response, error) {
	var r onced.Response
	seen, err := s.object(responseFields, func(field string) (err error) {
		switch field {
		case "status":
			var n int64
			n, err = s.integer(100, 599)
			r.Status = int(n)
		case "headers":
			r.Headers, err = s.headers()
		case "body":
			var b []byte
			b, err = s.text()
			r.Body = append(r.Body, b...)
		case "body_base64":
			var b []byte
			b, err = s.base64()
			r.Body = append(r.Body, b...)
		case "body_omitted":
			r.BodyOmitted, err = s.boolean()
		case "reference":
			r.Reference, err = s.str()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &r, s.checkResponse(&r, seen)
}

// checkResponse judges the members of a response against each other.
func (s *scanner) checkResponse(r *onced.Response, seen fieldSet) error {
	hasBody := seen.has(indexOf(responseFields, []byte("body")))
	hasBase64 := seen.has(indexOf(responseFields, []byte("body_base64")))
	switch {
	case hasBody && hasBase64:
		return s.fail(`has both "body" and "body_base64": expected one of them`)
	case r.BodyOmitted && (hasBody || hasBase64):
		return s.fail(`has a body and "body_omitted": true: expected one of them`)
	case r.Reference != "" && !r.BodyOmitted:
		return s.fail(`has a "reference" without "body_omitted": true: expected both`)
	case len(r.Reference) > MaxReferenceBytes:
		return s.fail(`has a "reference" of %d bytes: expected at most %d`, len(r.Reference), MaxReferenceBytes)
	}
	return s.missing(responseFields, seen, "status", "the HTTP status, an integer from 100 to 599")
}

// headers reads header lines: ["Name", "value"], or ["Name", "dmFsdWU=", "base64"]
// for a value that is not UTF-8.
func (s *scanner) headers() ([]onced.Header, error) {
	var headers []onced.Header
	size := 0
	err := s.array(func(int) error {
		h, err := s.header()
		headers = append(headers, h)
		if size += len(h.Name) + len(h.Value); size > MaxHeaderBytes && err == nil {
			return onced.Problemf(onced.CodeResponseTooLarge, "the response's headers have more than %d bytes; at most that many are kept", MaxHeaderBytes)
		}
		return err
	})
	return headers, err
}

func (s *scanner) header() (onced.Header, error) {
	var h onced.Header
	elements := 0
	err := s.array(func(i int) (err error) {
		elements++
		switch i {
		case 0:
			if h.Name, err = s.str(); err == nil && !isToken(h.Name) {
				err = s.fail("is %.60q: expected the name of a header", h.Name)
			}
		case 1:
			h.Value, err = s.str()
		case 2:
			h.Value, err = s.base64Value(h.Value)
		default:
			err = s.fail("is one too many: expected a name and a value")
		}
		return err
	})
	switch {
	case err != nil:
		return h, err
	case elements < 2:
		return h, s.fail(`has %d elements: expected a header as ["Name", "value"]`, elements)
	case !isFieldValue(h.Value):
		return h, s.fail("has a value with a control character: expected no CR, LF, NUL or any other but a tab")
	}
	return h, nil
}

// base64Value reads the word "base64" after a header's value and returns what it stands for.
func (s *scanner) base64Value(value string) (string, error) {
	word, err := s.str()
	if err != nil {
		return "", err
	}
	if word != "base64" {
		return "", s.fail(`is %.60q: expected only "base64" after a value`, word)
	}
	decoded, err := s.decodeBase64([]byte(value))
	return string(decoded), err
}

// isToken tells whether name is a token of RFC 9110, as the name of a header has to be.
func isToken(name string) bool {
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}

// isFieldValue tells whether value can stand in a header line.
func isFieldValue(value string) bool {
	for i := 0; i < len(value); i++ {
		if c := value[i]; c < 0x20 && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}

// appendResponse appends r in the form that response reads.
func appendResponse(dst []byte, r *onced.Response) []byte {
	return appendObject(dst, func(o *object) {
		o.integer("status", uint64(r.Status))
		o.member("headers")
		o.buf = appendHeaders(o.buf, r.Headers)
		switch {
		case r.BodyOmitted:
			o.boolean("body_omitted", true)
			if r.Reference != "" {
				o.str("reference", r.Reference)
			}
		case utf8.Valid(r.Body):
			o.member("body")
			o.buf = appendText(o.buf, r.Body)
		default:
			o.base64("body_base64", r.Body)
		}
	})
}

func appendHeaders(dst []byte, headers []onced.Header) []byte {
	dst = append(dst, '[')
	for i, h := range headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = appendText(dst, h.Name)
		dst = append(dst, ',')
		if utf8.ValidString(h.Value) {
			dst = appendText(dst, h.Value)
		} else {
			dst = appendBase64(dst, []byte(h.Value))
			dst = append(dst, `,"base64"`...)
		}
		dst = append(dst, ']')
	}
	return append(dst, ']')
}
