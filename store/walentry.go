package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

const (
	// walCodecID names the form below in each segment's header.
	walCodecID = wal.FirstExternalCodecID + 1
	// entryMark is the first byte of each entry. The library takes 0 to 3 at the start of a frame for a frame's kind
	// and ends there for any other byte, so that what is left of an entry is never read as a frame.
	entryMark    = 'O'
	entryVersion = 1
	entryHeader  = 48
	// maxEntryBytes is the largest entry that the library reads back.
	maxEntryBytes = 64 << 20
)

// walEntry is the form of an entry in the log of kind wal. The library has a checksum for what was appended at once and looks
// at no more than the last of them, so each entry has one of its own:
//
//	0   entryMark, entryVersion, raft's type, 0
//	4   CRC-32C of everything else
//	8   index
//	16  index of the first entry that was appended together with it: those before were synced when it was written
//	24  term
//	32  when it was appended, Unix nanoseconds; 0 = not said
//	40  length of the data, of the extensions (4 bytes each)
//	48  data, extensions
//
// Numbers are little-endian.
type walEntry struct {
	raft.Log
	batch uint64
}

// entryCodec is the library's codec. Only the one goroutine that appends may change batch.
type entryCodec struct{ batch uint64 }

// ID implements wal.Codec.
func (*entryCodec) ID() uint64 { return walCodecID }

// Encode implements wal.Codec.
func (c *entryCodec) Encode(l *raft.Log, w io.Writer) error {
	if n := entryHeader + len(l.Data) + len(l.Extensions); n > maxEntryBytes {
		return fmt.Errorf("entry %d has %d bytes, at most %d can be read back", l.Index, n, maxEntryBytes)
	}
	var h [entryHeader]byte
	h[0], h[1], h[2] = entryMark, entryVersion, byte(l.Type)
	binary.LittleEndian.PutUint64(h[8:], l.Index)
	binary.LittleEndian.PutUint64(h[16:], c.batch)
	binary.LittleEndian.PutUint64(h[24:], l.Term)
	if !l.AppendedAt.IsZero() {
		binary.LittleEndian.PutUint64(h[32:], uint64(l.AppendedAt.UnixNano()))
	}
	binary.LittleEndian.PutUint32(h[40:], uint32(len(l.Data)))
	binary.LittleEndian.PutUint32(h[44:], uint32(len(l.Extensions)))
	binary.LittleEndian.PutUint32(h[4:], entrySum(h[:], l.Data, l.Extensions))
	for _, b := range [][]byte{h[:], l.Data, l.Extensions} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// Decode implements wal.Codec. The entry has bytes of its own.
func (*entryCodec) Decode(b []byte, l *raft.Log) error {
	e, err := parseEntry(b)
	if err != nil {
		return err
	}
	*l = e.Log
	own := append([]byte(nil), b[entryHeader:]...)
	l.Data, l.Extensions = own[:len(l.Data):len(l.Data)], own[len(l.Data):]
	return nil
}

// parseEntry checks an entry and returns it; its bytes are those of b.
func parseEntry(b []byte) (walEntry, error) {
	if len(b) < entryHeader || b[0] != entryMark || b[1] != entryVersion {
		return walEntry{}, fmt.Errorf("%w: no entry of this release", ErrDamaged)
	}
	data, ext := uint64(binary.LittleEndian.Uint32(b[40:])), uint64(binary.LittleEndian.Uint32(b[44:]))
	if entryHeader+data+ext != uint64(len(b)) {
		return walEntry{}, fmt.Errorf("%w: an entry says that it has %d bytes, expected %d", ErrDamaged, entryHeader+data+ext, len(b))
	}
	if sum := entrySum(b[:entryHeader], b[entryHeader:]); sum != binary.LittleEndian.Uint32(b[4:]) {
		return walEntry{}, fmt.Errorf("%w: an entry's checksum is %08x, expected %08x", ErrDamaged, sum, binary.LittleEndian.Uint32(b[4:]))
	}
	e := walEntry{batch: binary.LittleEndian.Uint64(b[16:])}
	e.Index, e.Term, e.Type = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[24:]), raft.LogType(b[2])
	e.Data, e.Extensions = b[entryHeader:entryHeader+data], b[entryHeader+data:]
	if at := binary.LittleEndian.Uint64(b[32:]); at != 0 {
		e.AppendedAt = time.Unix(0, int64(at))
	}
	return e, nil
}

// entrySum is the checksum of an entry, but for the four bytes that hold it.
func entrySum(header []byte, rest ...[]byte) uint32 {
	sum := crc32.Update(crc32.Checksum(header[:4], castagnoli), castagnoli, header[8:])
	for _, b := range rest {
		sum = crc32.Update(sum, castagnoli, b)
	}
	return sum
}
