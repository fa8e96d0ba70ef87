package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"time"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// The library's file of a segment: a header of 32 bytes, then frames of 8 bytes (kind, 3 bytes, length or checksum), each with its
// bytes filled up to the next multiple of 8. What was appended at once is some entries and a commit with the checksum of everything
// since the commit before; the last commit of a full segment has the offsets of its entries in front.
const (
	segmentHeader = 32
	segmentMagic  = 0x58eb6b0d
	frameHeader   = 8
)

// check reads the whole log before the library opens it, since the library takes a file for ended at the first thing that
// it does not understand: a changed byte in the middle would cut off acknowledged entries without a word. Here:
//
//   - What is read is what the disk has: the last segment is synced first, since a process that was killed between a write and its
//     sync leaves the write in memory alone.
//   - A segment that is full must be whole, and none may be missing.
//   - The last one may end in a write that was never ended, and so never acknowledged; what there is of it is wiped out.
//   - Where an entry comes after it that was appended later, what lies before had been acknowledged: ErrDamaged.
//   - A segment that was full when the process died, and whose successor was not named yet, gets it. (The library would
//     refuse every append to it, for ever.)
//
// A change in the very last append looks like a write that was never ended, and is taken for one.
func (w *walDir) check(log func(msg string, args ...any)) error {
	if err := w.readState(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: there is no %s", ErrDamaged, segmentsFile)
		}
		return err
	}
	if err := w.removeUnnamed(); err != nil {
		return err
	}
	for i, info := range w.state.Segments {
		last := i == len(w.state.Segments)-1
		if info.SealTime.IsZero() != last || !last && w.state.Segments[i+1].BaseIndex != info.MaxIndex+1 {
			return fmt.Errorf("%w: %s names segments that do not follow each other, at entry %d", ErrDamaged, segmentsFile, info.BaseIndex)
		}
		if err := w.checkSegment(info, log); err != nil {
			return fmt.Errorf("segment %s: %w", segment.FileName(info), err)
		}
	}
	return nil
}

func (w *walDir) checkSegment(info types.SegmentInfo, log func(string, ...any)) (err error) {
	file, err := w.openSegment(segment.FileName(info))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.size()
	if err != nil {
		return err
	}
	if size < int64(info.SizeLimit) {
		return fmt.Errorf("%w: it has %d bytes, expected %d or more", ErrDamaged, size, info.SizeLimit)
	}
	if info.SealTime.IsZero() {
		// The process may have died between a write and its sync. What is read here counts as durable.
		if err := file.Sync(); err != nil {
			return err
		}
	}
	forget(file.Fd())
	s := scan{info: info, last: info.BaseIndex - 1}
	if err := s.run(bufio.NewReaderSize(io.NewSectionReader(file, 0, size), 256<<10)); err != nil {
		return err
	}
	if !info.SealTime.IsZero() {
		if s.index == 0 || uint64(s.index) != info.IndexStart || s.last < info.MaxIndex {
			return fmt.Errorf("%w after entry %d: %s", ErrDamaged, s.last, s.why)
		}
		return nil
	}
	if err := w.wipeRest(file, &s, log); err != nil {
		return err
	}
	if s.index != 0 {
		return w.rotate(&s)
	}
	return nil
}

// scan reads a segment for as long as it is what was written.
type scan struct {
	info types.SegmentInfo
	end  int64  // offset after the last whole commit; 0 = there is none
	last uint64 // the last entry before end
	// index is the offset of the entries' offsets, where the last commit has them: the segment is full.
	index int64
	why   string // it ended there
}

// run returns errors of reading alone.
func (s *scan) run(r *bufio.Reader) error {
	var header [segmentHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return s.stop(err)
	}
	if s.why = checkSegmentHeader(header[:], s.info); s.why != "" {
		return nil
	}
	b := batchScan{sum: crc32.Checksum(header[:], castagnoli), first: s.last + 1, next: s.last + 1, offset: segmentHeader}
	for {
		var frame [frameHeader]byte
		if _, err := io.ReadFull(r, frame[:]); err != nil {
			return s.stop(err)
		}
		kind, n := frame[0], binary.LittleEndian.Uint32(frame[4:])
		switch {
		case frame[1]|frame[2]|frame[3] != 0: // no checksum covers those of a commit
			s.why = "something else begins there"
			return nil
		case kind == segment.FrameCommit:
			if n != b.sum {
				s.why = "a checksum is wrong"
				return nil
			}
			s.end, s.last, s.index = b.offset+frameHeader, b.next-1, b.index
			b = batchScan{first: b.next, next: b.next, offset: s.end, buf: b.buf}
			continue
		case kind != segment.FrameEntry && kind != segment.FrameIndex || n > maxEntryBytes || s.index != 0:
			s.why = "something else begins there"
			return nil
		}
		if why, err := b.read(r, frame, int(n)); err != nil || why != "" {
			s.why = why
			return s.stop(err)
		}
	}
}

// stop notes the end of the file; other errors are the caller's.
func (s *scan) stop(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		s.why = "it is cut short"
		return nil
	}
	return err
}

// batchScan is what was appended at once.
type batchScan struct {
	sum         uint32
	first, next uint64 // indexes of its first entry and of the one that is expected
	offset      int64  // of the next frame
	index       int64
	buf         []byte
}

// read takes a frame that has bytes.
func (b *batchScan) read(r io.Reader, frame [frameHeader]byte, n int) (why string, err error) {
	padded := (n + 7) &^ 7
	if cap(b.buf) < padded {
		b.buf = make([]byte, padded)
	}
	body := b.buf[:padded]
	if _, err := io.ReadFull(r, body); err != nil {
		return "", err
	}
	b.sum = crc32.Update(crc32.Update(b.sum, castagnoli, frame[:]), castagnoli, body)
	if frame[0] == segment.FrameIndex {
		b.index = b.offset + frameHeader
	} else {
		e, err := parseEntry(body[:n])
		if err != nil || e.Index != b.next || e.batch != b.first {
			return fmt.Sprintf("no entry %d, or another one", b.next), nil
		}
		b.next++
	}
	b.offset += int64(frameHeader + padded)
	return "", nil
}

func checkSegmentHeader(h []byte, info types.SegmentInfo) (why string) {
	if binary.LittleEndian.Uint64(h) != segmentMagic || binary.LittleEndian.Uint64(h[8:]) != info.BaseIndex ||
		binary.LittleEndian.Uint64(h[16:]) != info.ID || binary.LittleEndian.Uint64(h[24:]) != info.Codec {
		return "its header is another one"
	}
	return ""
}

// wipeRest sees to what comes after the last whole commit.
func (w *walDir) wipeRest(file *segmentFile, s *scan, log func(string, ...any)) error {
	size, err := file.size()
	if err != nil {
		return err
	}
	rest := make([]byte, max(size-s.end, 0))
	if _, err := file.ReadAt(rest, s.end); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	used := len(bytes.TrimRight(rest, "\x00"))
	if used == 0 {
		return nil
	}
	if later := laterEntry(rest[:used], s.last+1); later != 0 {
		return fmt.Errorf("%w after entry %d (%s), and acknowledged entries come after it, as %d", ErrDamaged, s.last, s.why, later)
	}
	log("raft's log ends in a write that was not ended; what there is of it is dropped", "after", s.last, "bytes", used)
	if err := w.guard.step("log.wipe"); err != nil {
		return err
	}
	if _, err := file.WriteAt(make([]byte, used), s.end); err != nil {
		return err
	}
	return file.Sync()
}

// laterEntry looks for a whole entry that was appended after the write that began with first had been synced.
func laterEntry(b []byte, first uint64) uint64 {
	for at := 0; at+frameHeader+entryHeader <= len(b); at += frameHeader {
		body := b[at+frameHeader:]
		n := uint64(binary.LittleEndian.Uint32(b[at+4:]))
		if b[at] != segment.FrameEntry || body[0] != entryMark || n < entryHeader || n > uint64(len(body)) {
			continue
		}
		if e, err := parseEntry(body[:n]); err == nil && e.batch > first {
			return e.Index
		}
	}
	return 0
}

// rotate names the successor of a full segment.
func (w *walDir) rotate(s *scan) error {
	state := types.PersistentState{NextSegmentID: w.state.NextSegmentID + 1, Segments: append([]types.SegmentInfo(nil), w.state.Segments...)}
	full := &state.Segments[len(state.Segments)-1]
	full.SealTime, full.MaxIndex, full.IndexStart = time.Now(), s.last, uint64(s.index)
	state.Segments = append(state.Segments, types.SegmentInfo{
		ID: w.state.NextSegmentID, BaseIndex: s.last + 1, MinIndex: s.last + 1, SizeLimit: full.SizeLimit, Codec: full.Codec, CreateTime: time.Now(),
	})
	return w.CommitState(state)
}
