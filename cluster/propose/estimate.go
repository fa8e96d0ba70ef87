package propose

import (
	"sync"
	"time"
)

// estimate is what a follower knows of the leader's time: never more than it is, but
// for the 1 % by which a leader may slow down. See the package comment.
type estimate struct {
	mu   sync.Mutex
	term uint64
	ms   int64     // the leader's time
	at   time.Time // when the answer that said so arrived: later than it was true
}

// sample takes note of an answer that arrived at the moment at. Of two samples of a term the one
// that travelled less is the better one, unless it is old.
func (e *estimate) sample(term uint64, ms int64, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if term < e.term {
		return
	}
	if term == e.term && at.Sub(e.at) < time.Second && ms <= e.ms+at.Sub(e.at).Milliseconds() {
		return
	}
	e.term, e.ms, e.at = term, ms, at
}

// now returns the least that the leader's time can be at the moment at, and false when
// nothing recent is known of this term.
func (e *estimate) now(term uint64, at time.Time) (int64, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	age := at.Sub(e.at)
	if term != e.term || age > maxEstimateAge {
		return 0, false
	}
	return e.ms + age.Milliseconds(), true
}
