package store

import (
	"sort"
	"sync"

	"github.com/hashicorp/raft"
)

const (
	entryOverhead  = 64        // of an entry on disk, beside its data; about
	markEvery      = 256 << 10 // bytes between two marks
	maxMarks       = 8192      // then every second one is dropped
	sampledEntries = 256       // at open
)

// logSize knows about how many bytes raft's log has up to an index: exactly at its marks, evenly
// spread between two of them. Since Open it is fed with every entry; what was there before is estimated
// from entries that are read at even distances.
type logSize struct {
	mu    sync.Mutex
	marks []mark // in rising order; the first one is the log's first entry
	every int64
	last  uint64 // index of the log's last entry; 0 = the log is empty
	total int64  // bytes from the first mark to the last entry
}

// mark says how many bytes lie before an entry.
type mark struct {
	index  uint64
	before int64
}

func entryBytes(l *raft.Log) int64 { return int64(len(l.Data)+len(l.Extensions)) + entryOverhead }

// add counts n entries of size bytes each, the first of which has index.
func (s *logSize) add(index uint64, n uint64, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.marks) == 0 || s.total-s.marks[len(s.marks)-1].before >= s.every {
		s.marks = append(s.marks, mark{index, s.total})
	}
	s.total += int64(n) * size
	s.last = index + n - 1
	if len(s.marks) > maxMarks {
		s.thin()
	}
}

func (s *logSize) thin() {
	kept := s.marks[:0]
	for i := 0; i < len(s.marks); i += 2 {
		kept = append(kept, s.marks[i])
	}
	s.marks, s.every = kept, s.every*2
}

// before returns the bytes before an entry. The caller holds mu.
func (s *logSize) before(index uint64) int64 {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].index > index })
	if i == 0 {
		return 0
	}
	from, to := s.marks[i-1], mark{s.last + 1, s.total}
	if i < len(s.marks) {
		to = s.marks[i]
	}
	if index >= to.index {
		return to.before
	}
	return from.before + int64(float64(to.before-from.before)*float64(index-from.index)/float64(to.index-from.index))
}

// dropTail forgets the entries from index on.
func (s *logSize) dropTail(index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.marks) == 0 || index > s.last {
		return
	}
	s.total = s.before(index)
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].index >= index })
	s.marks, s.last = s.marks[:i], index-1
	if i == 0 {
		s.last, s.total = 0, 0
	}
}

// dropHead forgets the entries up to index.
func (s *logSize) dropHead(index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.marks) == 0 || index < s.marks[0].index {
		return
	}
	if index >= s.last {
		s.marks, s.last, s.total = nil, 0, 0
		return
	}
	gone := s.before(index + 1)
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].index > index+1 })
	s.marks = append([]mark{{index + 1, gone}}, s.marks[i:]...)
	for i := range s.marks {
		s.marks[i].before -= gone
	}
	s.total -= gone
}

// after returns the bytes of the entries after index.
func (s *logSize) after(index uint64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.before(index+1)
}

// trailing returns how many of the last entries have about so many bytes: not more, but for one mark's distance.
func (s *logSize) trailing(bytes int64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.marks) == 0 {
		return 0
	}
	first := s.marks[0].index
	count := int(s.last - first + 1)
	return uint64(count - sort.Search(count, func(i int) bool { return s.total-s.before(first+uint64(i)) <= bytes }))
}
