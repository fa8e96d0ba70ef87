package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"onced"
	"onced/fsm"
)

// The key spaces of the table. Tenant, scope and key have no byte below 0x20, so that a zero byte
// separates them without doubt and keeps the order of (tenant, scope, key). The numbers are on disk.
//
//	m                                             the applied index and fsm.Meta
//	r tenant 0 scope 0 key                        a row
//	o tenant 0 scope 0 key                        nothing: the row is open (not settled)
//	d at(8, big endian) tenant 0 scope 0 key      nothing: the row is due at that time
//	d at(8, big endian) tenant 0 scope 0 key 0 owner   the same of a cancel
//	x tenant 0 scope 0 key 0 owner                until when the owner is remembered as cancelled
//	n tenant                                      counts
const (
	spaceMeta   = 'm'
	spaceRow    = 'r'
	spaceOpen   = 'o'
	spaceDue    = 'd'
	spaceCancel = 'x'
	spaceCounts = 'n'
)

var metaKey = []byte{spaceMeta}

func appendID(b []byte, id onced.ID) []byte {
	b = append(b, id.Tenant...)
	b = append(b, 0)
	b = append(b, id.Scope...)
	b = append(b, 0)
	return append(b, id.Key...)
}

// idKey is a key in the space of rows or of open rows.
func idKey(b []byte, space byte, id onced.ID) []byte {
	return appendID(append(b, space), id)
}

// dueKey is the key of an item of the due index. The sign bit is turned so that the order of
// the bytes is that of the times.
func dueKey(b []byte, item fsm.DueItem) []byte {
	b = binary.BigEndian.AppendUint64(append(b, spaceDue), uint64(item.At)^1<<63)
	b = appendID(b, item.ID)
	if item.Owner != "" {
		b = append(append(b, 0), item.Owner...)
	}
	return b
}

// dueBound is the smallest key of the due index at or after a time.
func dueBound(at int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{spaceDue}, uint64(at)^1<<63)
}

func cancelKey(b []byte, id onced.ID, owner string) []byte {
	return append(append(idKey(b, spaceCancel, id), 0), owner...)
}

func countsKey(b []byte, tenant string) []byte {
	return append(append(b, spaceCounts), tenant...)
}

// spaceEnd is the end, exclusive, of a key space.
func spaceEnd(space byte) []byte { return []byte{space + 1} }

// decodeID reads what appendID wrote. Anything after a third separator is rest.
func decodeID(b []byte) (id onced.ID, rest string, err error) {
	parts := bytes.SplitN(b, []byte{0}, 4)
	if len(parts) < 3 || len(parts[0]) == 0 || len(parts[2]) == 0 {
		return onced.ID{}, "", fmt.Errorf("decoding the key %q of the table: %w", b, ErrDamaged)
	}
	if len(parts) == 4 {
		rest = string(parts[3])
	}
	return onced.ID{Tenant: string(parts[0]), Scope: string(parts[1]), Key: onced.Key(parts[2])}, rest, nil
}

func decodeDue(key []byte) (fsm.DueItem, error) {
	if len(key) < 9 {
		return fsm.DueItem{}, fmt.Errorf("decoding the key %q of the due index: %w", key, ErrDamaged)
	}
	id, owner, err := decodeID(key[9:])
	return fsm.DueItem{At: int64(binary.BigEndian.Uint64(key[1:]) ^ 1<<63), ID: id, Owner: owner}, err
}

// checkID refuses an id that would be ambiguous as a key. Whoever takes a request in has checked it
// long before, so this is the last line.
func checkID(id onced.ID) error {
	if id.Tenant == "" || id.Key == "" ||
		strings.IndexByte(id.Tenant, 0) >= 0 || strings.IndexByte(id.Scope, 0) >= 0 || strings.IndexByte(string(id.Key), 0) >= 0 {
		return fmt.Errorf("the id %q is no id: expected a tenant and a key, and no zero bytes", id)
	}
	return nil
}
