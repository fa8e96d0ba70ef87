package store

import (
	"sync"

	"github.com/hashicorp/raft"
)

// recentBytes is how much of the log's end is kept in memory: more than what is under way to followers that keep up.
const recentBytes = 4 << 20

// recentLog is the end of raft's log in memory, as it was stored. Raft asks for each entry soon after it was stored: to send it to
// followers, and to apply it. It is bounded by bytes, as an entry may have 100 bytes or a megabyte.
//
// It has only what is durable, an unbroken run of entries up to the log's last one, and never more than about limit bytes.
// Entries are shared with who gets them: nobody changes the bytes of an entry that was stored.
type recentLog struct {
	limit int64

	mu      sync.RWMutex
	entries []*raft.Log // in the order of their indexes, without a gap
	bytes   int64
}

// get copies the entry with index, and tells whether it is there.
func (r *recentLog) get(index uint64, to *raft.Log) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.entries) == 0 || index < r.entries[0].Index || index-r.entries[0].Index >= uint64(len(r.entries)) {
		return false
	}
	*to = *r.entries[index-r.entries[0].Index]
	return true
}

// add appends entries that were stored.
func (r *recentLog) add(logs []*raft.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range logs {
		if n := len(r.entries); n > 0 && l.Index != r.entries[n-1].Index+1 {
			r.clear()
		}
		own := *l // raft may go on using its own; the bytes are shared
		r.entries = append(r.entries, &own)
		r.bytes += entryBytes(l)
	}
	over := 0
	for bytes := r.bytes; bytes > r.limit; over++ {
		bytes -= entryBytes(r.entries[over])
	}
	r.cut(r.entries[:over])
	r.entries = r.entries[over:]
}

// drop forgets the entries from first to last, and what would be left behind a gap. It is called before they are deleted from the log.
func (r *recentLog) drop(first, last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) == 0 {
		return
	}
	low, high := r.entries[0].Index, r.entries[len(r.entries)-1].Index
	switch {
	case last < low || first > high:
	case first > low:
		r.cut(r.entries[first-low:])
		r.entries = r.entries[:first-low]
	case last < high:
		r.cut(r.entries[:last-low+1])
		r.entries = r.entries[last-low+1:]
	default:
		r.clear()
	}
}

// cut lets go of entries, which are part of r.entries. r.mu is held.
func (r *recentLog) cut(gone []*raft.Log) {
	for i, l := range gone {
		r.bytes -= entryBytes(l)
		gone[i] = nil
	}
}

// clear lets go of all. r.mu is held.
func (r *recentLog) clear() { r.entries, r.bytes = nil, 0 }
