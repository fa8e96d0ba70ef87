//go:build linux

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// stored is an answer of an operation.
type stored struct {
	status  int
	headers [][2]string
	body    []byte
}

// kinds is how many kinds of answers there are.
const kinds = 6

// kind returns an answer of a kind, of which no two are the same.
func kind(i, serial int) stored {
	s := stored{status: 201, headers: [][2]string{
		{"Content-Type", "application/octet-stream"}, {"Link", "</a>; rel=next"}, {"X-Serial", fmt.Sprint(serial)}, {"Link", "</b>; rel=prev"}, {"link", ""},
	}}
	chance := rand.NewChaCha8([32]byte{byte(i), byte(serial), byte(serial >> 8), byte(serial >> 16)})
	switch i % kinds {
	case 0: // an empty body, and nothing else
		s = stored{status: 204, headers: [][2]string{{"X-Serial", fmt.Sprint(serial)}}}
	case 1: // every byte there is
		for b := range 256 {
			s.body = append(s.body, byte(b))
		}
	case 2: // text of 300 bytes that JSON must escape
		s.body = fmt.Appendf(nil, "{\"charge\":%d,\"text\":\"<&>\u2028\\u0000é€😀\\\\\"}%s", serial, strings.Repeat("\n\t\x7f ", 100))[:300]
		s.body = bytes.ToValidUTF8(s.body, nil)
	case 3: // 1 MiB of chance
		s.body = make([]byte, 1<<20)
		chance.Read(s.body)
	case 4: // 1 MiB of text
		s.body = bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	case 5: // text that looks like a cut character
		s.body = []byte("\xff\xfe\x00 no text \xc3")
	}
	return s
}

// object is the answer as a complete says it.
func (s stored) object() object {
	o := object{"status": s.status, "headers": s.headers, "body_base64": base64.StdEncoding.EncodeToString(s.body)}
	if s.headers == nil {
		delete(o, "headers")
	}
	return o
}

// same returns an error unless raw, a record's response, is this answer byte for byte.
func (s stored) same(raw json.RawMessage) error {
	var got struct {
		Status  int         `json:"status"`
		Headers [][2]string `json:"headers"`
		Body    *string     `json:"body"`
		Base64  *string     `json:"body_base64"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return fmt.Errorf("reading the response %.100q: %w", raw, err)
	}
	var body []byte
	switch {
	case got.Body != nil && got.Base64 != nil:
		return fmt.Errorf("it has two bodies")
	case got.Body != nil:
		body = []byte(*got.Body)
	case got.Base64 != nil:
		var err error
		if body, err = base64.StdEncoding.DecodeString(*got.Base64); err != nil {
			return err
		}
	}
	switch {
	case got.Status != s.status:
		return fmt.Errorf("the status is %d, expected %d", got.Status, s.status)
	case !slices.Equal(got.Headers, s.headers):
		return fmt.Errorf("the headers are %q, expected %q", got.Headers, s.headers)
	case !bytes.Equal(body, s.body):
		return fmt.Errorf("the body of %d bytes is not the one of %d bytes that was stored", len(body), len(s.body))
	}
	return nil
}
