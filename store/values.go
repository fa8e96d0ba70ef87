package store

import (
	"encoding/binary"
	"fmt"

	"onced/fsm"
)

// stateVersion is the first byte of the value of the meta key.
const stateVersion = 1

// tableState is what the table says of itself.
type tableState struct {
	applied uint64 // raft index of the last entry in the table
	term    uint64 // of that entry
	meta    fsm.Meta
}

func (s tableState) append(b []byte) []byte {
	b = append(b, stateVersion)
	b = binary.AppendUvarint(b, s.applied)
	b = binary.AppendUvarint(b, s.term)
	b = binary.AppendVarint(b, s.meta.Clock)
	b = binary.AppendUvarint(b, s.meta.LastToken)
	b = binary.BigEndian.AppendUint64(b, s.meta.History)
	b = binary.AppendUvarint(b, s.meta.MarkIndex)
	b = binary.BigEndian.AppendUint64(b, s.meta.MarkHistory)
	return append(b, s.meta.ClusterID...)
}

func decodeState(b []byte) (tableState, error) {
	if len(b) > 0 && b[0] != stateVersion {
		return tableState{}, fmt.Errorf("the table has format version %d; this release reads %d", b[0], stateVersion)
	}
	d := fields{b: b}
	d.take(1)
	var s tableState
	s.applied, s.term = d.uvarint(), d.uvarint()
	s.meta.Clock, s.meta.LastToken = d.varint(), d.uvarint()
	s.meta.History, s.meta.MarkIndex, s.meta.MarkHistory = d.uint64(), d.uvarint(), d.uint64()
	s.meta.ClusterID = string(d.b)
	return s, d.err("the table's state")
}

func appendCounts(b []byte, c fsm.Counts) []byte {
	return binary.AppendVarint(binary.AppendVarint(b, c.Keys), c.Open)
}

func decodeCounts(b []byte) (fsm.Counts, error) {
	d := fields{b: b}
	c := fsm.Counts{Keys: d.varint(), Open: d.varint()}
	return c, d.end("a tenant's counts")
}

func appendUntil(b []byte, until int64) []byte { return binary.AppendVarint(b, until) }

func decodeUntil(b []byte) (int64, error) {
	d := fields{b: b}
	until := d.varint()
	return until, d.end("a cancel")
}

// fields reads from the front of b; bad tells that it was too short.
type fields struct {
	b   []byte
	bad bool
}

func (d *fields) take(n int) []byte {
	if n <= 0 || n > len(d.b) {
		d.bad, d.b = true, nil
		return make([]byte, max(n, 8))
	}
	field := d.b[:n]
	d.b = d.b[n:]
	return field
}

func (d *fields) uint64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

func (d *fields) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.take(n)
	return v
}

func (d *fields) varint() int64 {
	v, n := binary.Varint(d.b)
	d.take(n)
	return v
}

func (d *fields) err(of string) error {
	if d.bad {
		return fmt.Errorf("decoding %s: %w", of, ErrDamaged)
	}
	return nil
}

// end is err for an encoding that has nothing after its last field.
func (d *fields) end(of string) error {
	d.bad = d.bad || len(d.b) > 0
	return d.err(of)
}
