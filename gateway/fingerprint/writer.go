package fingerprint

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// writer feeds labelled parts to a keyed digest. A part is its label, the number of
// its values, and each value, every one with its length before it.
type writer struct {
	mac hash.Hash
	num [binary.MaxVarintLen64]byte
}

func newWriter(key []byte) *writer { return &writer{mac: hmac.New(sha256.New, key)} }

func (w *writer) field(label string, values ...[]byte) {
	w.bytes([]byte(label))
	w.count(len(values))
	for _, v := range values {
		w.bytes(v)
	}
}

func (w *writer) strings(label string, values []string) {
	w.bytes([]byte(label))
	w.count(len(values))
	for _, v := range values {
		w.bytes([]byte(v))
	}
}

func (w *writer) bytes(b []byte) {
	w.count(len(b))
	w.mac.Write(b)
}

func (w *writer) count(n int) {
	w.mac.Write(w.num[:binary.PutUvarint(w.num[:], uint64(n))])
}

func (w *writer) sum() []byte { return w.mac.Sum(nil) }
