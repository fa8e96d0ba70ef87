package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"onced"
)

// responseLimit is how long the JSON around a response may be: its body as base64, its
// headers and the members around them.
func (a *api) responseLimit() int64 { return a.MaxResponseBytes/3*4 + 4 + 64<<10 }

// requestBody reads the body of a call that stores no response.
func (c *call) requestBody() ([]byte, error) {
	return c.body(c.MaxRequestBytes, onced.Problemf(onced.CodeRequestTooLarge, "the body is longer than %d bytes", c.MaxRequestBytes))
}

// responseBody reads the body of a call that stores a response.
func (c *call) responseBody() ([]byte, error) {
	return c.body(c.responseLimit(), onced.Problemf(onced.CodeResponseTooLarge,
		`the JSON around the response is longer than %d bytes; a body of at most %d bytes is stored, as "body_base64" if need be, a longer one is left out by "body_omitted": true`,
		c.responseLimit(), c.MaxResponseBytes))
}

// checkResponse refuses a response whose body is longer than what is stored.
func (c *call) checkResponse(r *onced.Response) error {
	if n := int64(r.Bytes()); n > c.MaxResponseBytes {
		return onced.Problemf(onced.CodeResponseTooLarge, `the response's body has %d bytes; at most %d are stored, a longer one is left out by "body_omitted": true`, n, c.MaxResponseBytes)
	}
	return nil
}

// body reads the whole body, up to limit bytes; tooLarge is the refusal of a longer one.
func (c *call) body(limit int64, tooLarge error) ([]byte, error) {
	if err := checkMedia(c.r.Header); err != nil {
		return nil, err
	}
	if c.r.ContentLength > limit {
		return nil, tooLarge
	}
	var buf bytes.Buffer
	// A length that is merely said gets no more than this ahead of its bytes.
	buf.Grow(int(min(max(c.r.ContentLength, 0), 64<<10)) + bytes.MinRead)
	// The server's own writer, so that it learns to close the connection after a longer body.
	_, err := buf.ReadFrom(http.MaxBytesReader(c.seen.ResponseWriter, c.r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return buf.Bytes(), nil
	case errors.As(err, &over):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, onced.Problemf(onced.CodeInvalidRequest, "the body did not arrive in time; nothing was done")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, onced.Problemf(onced.CodeInvalidRequest, "the body ended before its announced length; nothing was done")
	default:
		return nil, onced.Problemf(onced.CodeInvalidRequest, "the body cannot be read (%v); nothing was done", err)
	}
}

// checkMedia refuses a body that says to be something else than JSON in UTF-8. That a form is
// refused also keeps foreign web pages from posting one through a browser.
func checkMedia(h http.Header) error {
	for _, coding := range h["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") {
			return onced.Problemf(onced.CodeInvalidRequest, "Content-Encoding is %.40q: expected the body as it is, without compression", coding)
		}
	}
	lines := h["Content-Type"]
	if len(lines) == 0 {
		return nil
	}
	media, options, err := mime.ParseMediaType(lines[0])
	charset, hasCharset := options["charset"]
	if len(lines) > 1 || err != nil || media != "application/json" || hasCharset && !strings.EqualFold(charset, "utf-8") {
		return onced.Problemf(onced.CodeInvalidRequest, "Content-Type is %.80q: expected application/json", strings.Join(lines, ", "))
	}
	return nil
}
