package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// rowVersion is the first byte of every encoded row.
const rowVersion = 1

// ErrCorrupt is wrapped by every decoding error: the bytes are not what this
// package wrote.
var ErrCorrupt = errors.New("corrupt encoding")

// Flag bits of an encoded row; the numbers are on disk.
const (
	flagRetry = 1 << iota
	flagGaveUp
	flagCheckpoint
	flagResponse
)

// Append appends the canonical encoding of r to b: equal rows have equal bytes,
// in every release that writes rowVersion. Times are kept as differences to CreatedAt, since
// they are close to it.
func (r *Row) Append(b []byte) []byte {
	b = append(b, rowVersion, byte(r.Phase), r.flags())
	b = binary.AppendUvarint(b, uint64(r.Attempt))
	b = binary.AppendUvarint(b, r.Token)
	b = binary.AppendVarint(b, r.CreatedAt)
	for _, t := range [...]int64{r.LeaseUntil, r.CompletedAt} {
		b = binary.AppendVarint(b, t-r.CreatedAt)
	}
	for _, d := range [...]int64{r.Lease, r.Retention, r.Tombstone} {
		b = binary.AppendVarint(b, d)
	}
	b = appendBytes(b, r.Fingerprint)
	b = appendBytes(b, r.Owner)
	if r.Checkpoint != nil {
		b = appendBytes(b, r.Checkpoint)
	}
	if r.Response != nil {
		b = appendBytes(b, r.Response)
	}
	return b
}

func (r *Row) flags() byte {
	var f byte
	if r.Retry {
		f |= flagRetry
	}
	if r.GaveUp {
		f |= flagGaveUp
	}
	if r.Checkpoint != nil {
		f |= flagCheckpoint
	}
	if r.Response != nil {
		f |= flagResponse
	}
	return f
}

// DecodeRow reads what Row.Append wrote, and nothing else. The row's byte fields
// are copies of b.
func DecodeRow(b []byte) (*Row, error) {
	d := decoder{b: b}
	if v := d.byte(); d.err == nil && v != rowVersion {
		return nil, fmt.Errorf("decoding row: version %d, this release reads %d: %w", v, rowVersion, ErrCorrupt)
	}
	r := &Row{Phase: Phase(d.byte())}
	flags := d.byte()
	r.Retry, r.GaveUp = flags&flagRetry != 0, flags&flagGaveUp != 0
	attempt := d.uvarint()
	r.Attempt, r.Token = uint32(attempt), d.uvarint()
	r.CreatedAt = d.varint()
	r.LeaseUntil, r.CompletedAt = r.CreatedAt+d.varint(), r.CreatedAt+d.varint()
	r.Lease, r.Retention, r.Tombstone = d.varint(), d.varint(), d.varint()
	r.Fingerprint, r.Owner = string(d.bytes()), string(d.bytes())
	if flags&flagCheckpoint != 0 {
		r.Checkpoint = d.copied()
	}
	if flags&flagResponse != 0 {
		r.Response = d.copied()
	}
	switch {
	case d.err != nil:
		return nil, fmt.Errorf("decoding row: %w", d.err)
	case len(d.b) != 0:
		return nil, fmt.Errorf("decoding row: %d bytes too many: %w", len(d.b), ErrCorrupt)
	case r.Phase < PhaseRunning || r.Phase > PhaseTombstone:
		return nil, fmt.Errorf("decoding row: phase %d: %w", r.Phase, ErrCorrupt)
	case flags&^(flagRetry|flagGaveUp|flagCheckpoint|flagResponse) != 0:
		return nil, fmt.Errorf("decoding row: flags %#x: %w", flags, ErrCorrupt)
	case attempt != uint64(r.Attempt):
		return nil, fmt.Errorf("decoding row: attempt %d: %w", attempt, ErrCorrupt)
	}
	return r, nil
}

func appendBytes[T ~string | ~[]byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// decoder reads fields from the front of b and remembers the first error.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() { d.b, d.err = nil, ErrCorrupt }

func (d *decoder) byte() byte {
	if d.err != nil || len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.err != nil || n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if d.err != nil || n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// bytes returns a field without copying it.
func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if d.err != nil || n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	field := d.b[:n]
	d.b = d.b[n:]
	return field
}

// copied returns a copy of a field, never nil without an error.
func (d *decoder) copied() []byte { return append([]byte{}, d.bytes()...) }
