package wire

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"onced"
)

// object appends the members of one JSON object to a buffer.
type object struct {
	buf   []byte
	begun bool
}

// appendObject appends the object whose members fill writes.
func appendObject(dst []byte, fill func(o *object)) []byte {
	o := object{buf: append(dst, '{')}
	fill(&o)
	return append(o.buf, '}')
}

// member writes the name of the next member. Names are plain ASCII.
func (o *object) member(name string) {
	if o.begun {
		o.buf = append(o.buf, ',')
	}
	o.begun = true
	o.buf = append(o.buf, '"')
	o.buf = append(o.buf, name...)
	o.buf = append(o.buf, '"', ':')
}

func (o *object) str(name, value string) {
	o.member(name)
	o.buf = appendText(o.buf, value)
}

func (o *object) boolean(name string, value bool) {
	o.member(name)
	o.buf = strconv.AppendBool(o.buf, value)
}

func (o *object) integer(name string, value uint64) {
	o.member(name)
	o.buf = strconv.AppendUint(o.buf, value, 10)
}

func (o *object) duration(name string, value time.Duration) {
	o.str(name, FormatDuration(value))
}

func (o *object) instant(name string, value onced.Instant) {
	o.member(name)
	o.buf = append(o.buf, '"')
	o.buf = value.Time().AppendFormat(o.buf, timeForm)
	o.buf = append(o.buf, '"')
}

func (o *object) base64(name string, value []byte) {
	o.member(name)
	o.buf = appendBase64(o.buf, value)
}

// raw writes a value that is JSON already.
func (o *object) raw(name string, value []byte) {
	o.member(name)
	o.buf = append(o.buf, value...)
}

func appendBase64(dst, value []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, value)
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

// appendText appends value, which is valid UTF-8, as a JSON string.
func appendText[T string | []byte](dst []byte, value T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, value[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, value[start:]...)
	return append(dst, '"')
}

// FormatDuration returns d as the shortest of its Go strings: "24h" where
// time.Duration says "24h0m0s".
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}

// validText returns text fit for a JSON string. Only for words to a person, never
// for what has to come back as it was.
func validText(text string) string { return strings.ToValidUTF8(text, "?") }
