package store

import (
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A table travels as a label and a body:
//
//	label  magic(8) kind(1) index(8) term(8) sum(8)
//	body   files(4) { name length(2) name size(8) }… { content }… sum(8)
//
// Numbers are big endian, sums are xxHash64 of what stands before them in their part. The body is that of a
// Pebble checkpoint and does not depend on the label, so that received bytes can be sent, or
// restored, under another index.
const (
	streamMagic = "ONCEDTB1"
	labelSize   = len(streamMagic) + 1 + 8 + 8 + 8
	sumSize     = 8
	maxFiles    = 1 << 20
	maxFileName = 255
)

// Kinds of labels; the numbers are in streams and backups.
const (
	// labelSnapshot: the body has everything up to index, and maybe more of the same log.
	labelSnapshot = 1
	// labelRebase: the body stands for index whatever its own applied index says: it comes from another log.
	labelRebase = 2
	// labelBackup: the body is of index, of a log that may not be ours.
	labelBackup = 3
)

type label struct {
	kind  byte
	index uint64
	term  uint64
}

func (l label) bytes() []byte {
	b := append([]byte(streamMagic), l.kind)
	b = binary.BigEndian.AppendUint64(b, l.index)
	b = binary.BigEndian.AppendUint64(b, l.term)
	return binary.BigEndian.AppendUint64(b, xxhash.Sum64(b))
}

func parseLabel(b []byte) (label, error) {
	switch n := labelSize - sumSize; {
	case len(b) != labelSize || string(b[:len(streamMagic)]) != streamMagic:
		return label{}, fmt.Errorf("reading a snapshot: %w: it does not begin as one", ErrDamaged)
	case xxhash.Sum64(b[:n]) != binary.BigEndian.Uint64(b[n:]):
		return label{}, fmt.Errorf("reading a snapshot: %w: the checksum of its label is wrong", ErrDamaged)
	}
	d := fields{b: b[len(streamMagic):]}
	l := label{kind: d.take(1)[0], index: d.uint64(), term: d.uint64()}
	if l.kind < labelSnapshot || l.kind > labelBackup {
		return label{}, fmt.Errorf("reading a snapshot: it is of kind %d, which this release does not know", l.kind)
	}
	return l, nil
}

// stream reads a label and the body of a folder's files. The files must not change.
type stream struct {
	io.Reader
	size  int64 // of all that will be read
	close func() error
}

func (s *stream) Close() error { return s.close() }

type streamFile struct {
	name string
	size int64
}

// newStream lists the folder; close is called at Close.
func newStream(f files, l label, dir string, close func() error) (*stream, error) {
	list, err := f.listFiles(dir)
	if err != nil {
		return nil, err
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(list)))
	var content int64
	for _, file := range list {
		head = binary.BigEndian.AppendUint16(head, uint16(len(file.name)))
		head = append(head, file.name...)
		head = binary.BigEndian.AppendUint64(head, uint64(file.size))
		content += file.size
	}
	sum := xxhash.New()
	parts := []io.Reader{strings.NewReader(string(head))}
	for _, file := range list {
		parts = append(parts, &lazyFile{files: f, path: f.PathJoin(dir, file.name), left: file.size})
	}
	body := io.TeeReader(io.MultiReader(parts...), sum)
	return &stream{
		Reader: io.MultiReader(strings.NewReader(string(l.bytes())), body, &sumReader{sum: sum}),
		size:   int64(labelSize) + int64(len(head)) + content + sumSize,
		close:  close,
	}, nil
}

// listFiles returns the files of a folder by name, but for Pebble's lock.
func (f files) listFiles(dir string) ([]streamFile, error) {
	names, err := f.List(dir)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	slices.Sort(names)
	var list []streamFile
	for _, name := range names {
		info, err := f.Stat(f.PathJoin(dir, name))
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", dir, err)
		}
		if name != "LOCK" && !info.IsDir() {
			list = append(list, streamFile{name, info.Size()})
		}
	}
	return list, nil
}

// lazyFile opens a file when it is read and gives exactly left bytes.
type lazyFile struct {
	files files
	path  string
	left  int64
	file  vfs.File
}

func (l *lazyFile) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	if l.file == nil {
		file, err := l.files.Open(l.path, vfs.SequentialReadsOption)
		if err != nil {
			return 0, fmt.Errorf("opening %s: %w", l.path, err)
		}
		l.file = file
	}
	n, err := l.file.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	if err == io.EOF && l.left > 0 {
		err = fmt.Errorf("reading %s: %d bytes are missing: %w", l.path, l.left, io.ErrUnexpectedEOF)
	}
	if l.left == 0 || err != nil {
		if closeErr := l.file.Close(); err == nil || err == io.EOF {
			err = closeErr
		}
		l.file, l.left = nil, 0
	}
	return n, err
}

// sumReader gives the checksum of what was read before it.
type sumReader struct {
	sum hash.Hash64
	out *strings.Reader
}

func (s *sumReader) Read(p []byte) (int, error) {
	if s.out == nil {
		s.out = strings.NewReader(string(binary.BigEndian.AppendUint64(nil, s.sum.Sum64())))
	}
	return s.out.Read(p)
}
