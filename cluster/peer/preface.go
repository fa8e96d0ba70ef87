package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The first byte of a connection says what it is for. Neither value begins a
// TLS record (0x16) or an HTTP request (a letter).
const (
	kindRaft byte = 0xF1
	kindRPC  byte = 0xF2
)

// prefaceVersion is the version of what follows the preface, in both directions.
const prefaceVersion = 1

const (
	maxPreface = 512 // bytes after the fixed head
	maxText    = 255 // bytes of a refusal
)

// preface is what the dialler says first.
//
//	kind(1) version(1) length(2, big endian) then three strings, each length(1) and bytes
type preface struct {
	kind    byte
	cluster string // of the dialler; "" while it has none
	from    string // the dialler's node id
	to      string // the node id it means to reach; "" = whoever is there
}

// errPreface is wrapped by every error about bytes that are no preface.
var errPreface = errors.New("not a connection of a onced node")

// encode returns p as it travels.
func (p preface) encode() ([]byte, error) {
	b := make([]byte, 4, 4+3+len(p.cluster)+len(p.from)+len(p.to))
	b[0], b[1] = p.kind, prefaceVersion
	for _, s := range []string{p.cluster, p.from, p.to} {
		if len(s) > 255 {
			return nil, fmt.Errorf("writing preface: a name of %d bytes is too long", len(s))
		}
		b = append(append(b, byte(len(s))), s...)
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)-4))
	return b, nil
}

// readPreface reads exactly one preface and not a byte more.
func readPreface(r io.Reader) (preface, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return preface{}, fmt.Errorf("reading the first byte: %w", err)
	}
	switch head[0] {
	case kindRaft, kindRPC:
	case 0x16:
		return preface{}, fmt.Errorf("%w: it speaks TLS, but this node has neither a cluster secret nor certificates", errPreface)
	default:
		return preface{}, fmt.Errorf("%w: first byte 0x%02x", errPreface, head[0])
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return preface{}, fmt.Errorf("reading the preface: %w", err)
	}
	if head[1] != prefaceVersion {
		return preface{}, fmt.Errorf("%w of this version: it speaks version %d, this node %d", errPreface, head[1], prefaceVersion)
	}
	n := int(binary.BigEndian.Uint16(head[2:]))
	if n > maxPreface {
		return preface{}, fmt.Errorf("%w: a preface of %d bytes", errPreface, n)
	}
	rest := make([]byte, n)
	if _, err := io.ReadFull(r, rest); err != nil {
		return preface{}, fmt.Errorf("reading the preface: %w", err)
	}
	return parsePreface(head[0], rest)
}

// parsePreface takes the three strings apart.
func parsePreface(kind byte, rest []byte) (preface, error) {
	p := preface{kind: kind}
	for _, s := range []*string{&p.cluster, &p.from, &p.to} {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return preface{}, fmt.Errorf("%w: the preface is cut short", errPreface)
		}
		n := int(rest[0])
		*s, rest = string(rest[1:1+n]), rest[1+n:]
	}
	if len(rest) > 0 {
		return preface{}, fmt.Errorf("%w: %d bytes too many in the preface", errPreface, len(rest))
	}
	return p, nil
}

// writeVerdict answers a preface: 0 for "go on", or 1, a length and why not.
func writeVerdict(w io.Writer, refusal string) error {
	if refusal == "" {
		_, err := w.Write([]byte{0, 0})
		return err
	}
	if len(refusal) > maxText {
		refusal = refusal[:maxText]
	}
	_, err := w.Write(append([]byte{1, byte(len(refusal))}, refusal...))
	return err
}

// readVerdict reads the answer to a preface; "" = go on.
func readVerdict(r io.Reader) (refusal string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	if head[0] == 0 && head[1] == 0 {
		return "", nil
	}
	if head[0] != 1 || head[1] == 0 {
		return "", errPreface
	}
	text := make([]byte, head[1])
	if _, err := io.ReadFull(r, text); err != nil {
		return "", err
	}
	return string(text), nil
}
