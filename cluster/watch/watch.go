// Package watch wakes those who wait for a record to change.
//
// Invariants:
//
//   - Who registers before looking misses nothing: a change that the look did not
//     show wakes the watcher. (The waker changes the table first and asks for watchers
//     second; the watcher registers first and looks second. So at least one of the two
//     sees the other.)
//   - A wake says "look again", nothing else: it may be spurious, and it comes once.
//   - While nobody watches, a wake costs one atomic load.
//   - The number of watchers is bounded; there is no goroutine.
package watch

import (
	"errors"
	"sync"
	"sync/atomic"

	"onced"
)

// ErrTooMany means that the bound on watchers is reached: the caller must not
// wait here (the contract's `unavailable`).
var ErrTooMany = errors.New("too many are waiting for records on this node")

// Watchers holds who waits for which record. Create it with New.
type Watchers struct {
	max   int64
	count atomic.Int64 // of watchers; raised before a watcher looks

	mu   sync.Mutex
	byID map[onced.ID]*queue
}

// queue is everybody who waits for one record: they share a channel. Owned by
// Watchers.mu.
type queue struct {
	ch    chan struct{}
	size  int64
	woken bool // ch is closed, and the queue is not in the map any more
}

// New returns Watchers that takes at most max at a time.
func New(max int) *Watchers {
	return &Watchers{max: int64(max), byID: make(map[onced.ID]*queue)}
}

// Watch registers a watcher of id. It must be called before the record is looked at. The
// channel is closed at the first change after that. stop ends the watch, may be called
// more than once and after the wake, and must be called. The only error is ErrTooMany.
func (w *Watchers) Watch(id onced.ID) (woken <-chan struct{}, stop func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count.Load() >= w.max {
		return nil, nil, ErrTooMany
	}
	w.count.Add(1)
	q := w.byID[id]
	if q == nil {
		q = &queue{ch: make(chan struct{})}
		w.byID[id] = q
	}
	q.size++
	var once sync.Once
	return q.ch, func() { once.Do(func() { w.leave(id, q) }) }, nil
}

func (w *Watchers) leave(id onced.ID, q *queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.woken {
		return
	}
	w.count.Add(-1)
	if q.size--; q.size == 0 {
		delete(w.byID, id)
	}
}

// Wake wakes the watchers of ids. It must be called after the change of these
// records can be seen.
func (w *Watchers) Wake(ids []onced.ID) {
	if w.count.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if q := w.byID[id]; q != nil {
			w.wake(id, q)
		}
	}
}

// WakeAll wakes everybody: the table was replaced as a whole.
func (w *Watchers) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, q := range w.byID {
		w.wake(id, q)
	}
}

// wake empties q. w.mu is held.
func (w *Watchers) wake(id onced.ID, q *queue) {
	q.woken = true
	close(q.ch)
	w.count.Add(-q.size)
	delete(w.byID, id)
}

// Len returns how many watch now.
func (w *Watchers) Len() int { return int(w.count.Load()) }
