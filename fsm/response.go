package fsm

import (
	"encoding/binary"
	"fmt"
	"slices"

	"onced"
	"onced/fsm/command"
)

// responseVersion is the first byte of every encoded response.
const responseVersion = 1

const flagBodyOmitted = 1

// appendResponse appends the canonical encoding of an answer: two answers are
// the same exactly when their bytes are. It is not protobuf, whose bytes may change with a release.
func appendResponse(b []byte, r *command.Response) []byte {
	var flags byte
	if r.GetBodyOmitted() {
		flags |= flagBodyOmitted
	}
	b = slices.Grow(b, responseRoom(r))
	b = append(b, responseVersion, flags)
	b = binary.AppendUvarint(b, uint64(uint32(r.GetStatus())))
	b = binary.AppendUvarint(b, uint64(len(r.GetHeaders())))
	for _, h := range r.GetHeaders() {
		b = appendBytes(b, h.GetName())
		b = appendBytes(b, h.GetValue())
	}
	b = appendBytes(b, r.GetBody())
	return appendBytes(b, r.GetReference())
}

// responseRoom is how many bytes the encoding of r has at most.
func responseRoom(r *command.Response) int {
	const length = binary.MaxVarintLen32 // of what fits into an entry
	n := 2 + 2*length + length + len(r.GetBody()) + length + len(r.GetReference())
	for _, h := range r.GetHeaders() {
		n += length + len(h.GetName()) + length + len(h.GetValue())
	}
	return n
}

// DecodeResponse reads the Response of a completed Row. Errors wrap ErrCorrupt.
func DecodeResponse(b []byte) (*onced.Response, error) {
	d := decoder{b: b}
	if v := d.byte(); d.err == nil && v != responseVersion {
		return nil, fmt.Errorf("decoding response: version %d, this release reads %d: %w", v, responseVersion, ErrCorrupt)
	}
	r := &onced.Response{BodyOmitted: d.byte()&flagBodyOmitted != 0, Status: int(d.uvarint())}
	n := d.uvarint()
	if n > uint64(len(d.b)) { // each header takes two bytes at least
		return nil, fmt.Errorf("decoding response: %d headers in %d bytes: %w", n, len(d.b), ErrCorrupt)
	}
	if n > 0 {
		r.Headers = make([]onced.Header, n)
	}
	for i := range r.Headers {
		r.Headers[i] = onced.Header{Name: string(d.bytes()), Value: string(d.bytes())}
	}
	r.Body = d.copied()
	r.Reference = string(d.bytes())
	if d.err != nil || len(d.b) != 0 {
		return nil, fmt.Errorf("decoding response: %w", ErrCorrupt)
	}
	return r, nil
}
