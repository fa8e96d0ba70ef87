package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// MaxBody is the largest body of a request or an answer, in bytes. A frame is
// about 1 MiB, and one command alone may be somewhat larger.
const MaxBody = 16 << 20

// bodyTimeout is how long a peer may take to send a body.
const bodyTimeout = 30 * time.Second

// body is a request's body that was read in full.
type body struct {
	*bytes.Reader
	data []byte
}

func (*body) Close() error { return nil }

// Body returns the whole body of a request that came through a Gate, without
// copying it; any other request's is read, up to MaxBody.
func Body(r *http.Request) ([]byte, error) {
	if b, ok := r.Body.(*body); ok {
		return b.data, nil
	}
	return ReadAll(r.Body, r.ContentLength)
}

// buffer reads the request's body in full and puts it back.
func buffer(w http.ResponseWriter, r *http.Request) (status int, err error) {
	if r.ContentLength > MaxBody {
		return http.StatusRequestEntityTooLarge, fmt.Errorf("body of %d bytes: at most %d are taken", r.ContentLength, MaxBody)
	}
	// A carrier without deadlines says so, and has none to run into.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	data, err := ReadAll(r.Body, r.ContentLength)
	_ = control.SetReadDeadline(time.Time{})
	if errors.Is(err, ErrTooLarge) {
		return http.StatusRequestEntityTooLarge, err
	}
	if err != nil {
		return http.StatusBadRequest, err
	}
	r.Body = &body{Reader: bytes.NewReader(data), data: data}
	return 0, nil
}

// ErrTooLarge is wrapped when a body is larger than MaxBody.
var ErrTooLarge = fmt.Errorf("body is larger than %d bytes", MaxBody)

// ReadAll reads a body whose length is size, -1 = not known, up to MaxBody.
func ReadAll(r io.Reader, size int64) ([]byte, error) {
	if r == nil || size == 0 {
		return nil, nil
	}
	if size > MaxBody {
		return nil, ErrTooLarge
	}
	if size > 0 {
		data := make([]byte, size)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, fmt.Errorf("reading a body of %d bytes: %w", size, err)
		}
		return data, nil
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("reading a body: %w", err)
	}
	if len(data) > MaxBody {
		return nil, ErrTooLarge
	}
	return data, nil
}
