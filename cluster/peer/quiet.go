package peer

import (
	"sync"
	"time"
)

const (
	quietFor  = time.Minute
	quietSize = 1024 // subjects remembered; beyond it all are forgotten
)

// quiet lets one line per subject and minute through, so that a peer that tries
// again and again does not fill the log.
type quiet struct {
	mu   sync.Mutex
	last map[string]time.Time // guarded by mu
}

// allow tells whether subject may be logged now.
func (q *quiet) allow(subject string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if t, ok := q.last[subject]; ok && now.Sub(t) < quietFor {
		return false
	}
	if q.last == nil || len(q.last) >= quietSize {
		q.last = make(map[string]time.Time)
	}
	q.last[subject] = now
	return true
}
