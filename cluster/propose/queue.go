package propose

import "sync"

// queue is what waits, in the order it came. Reserves and holders' commands have a
// share each, which are counted apart, so that neither takes the other's room.
type queue struct {
	mu         sync.Mutex
	head, tail *call
	reserves   load
	holders    load
	closed     bool
}

// load is how much of a Share is taken.
type load struct {
	share           Share
	commands, bytes int
}

func (l *load) admits(size int) bool {
	return l.commands == 0 || l.commands < l.share.Commands && l.bytes+size <= l.share.Bytes
}

func (q *queue) load(c *call) *load {
	if c.reserve {
		return &q.reserves
	}
	return &q.holders
}

// push appends calls in one step, so that they can leave together. For those that are not taken it
// calls refuse, with ErrOverloaded or ErrClosed; refuse must not use the queue.
func (q *queue) push(calls []*call, refuse func(*call, error)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range calls {
		switch {
		case q.closed:
			refuse(c, ErrClosed)
		case !q.load(c).admits(c.size()):
			refuse(c, ErrOverloaded)
		default:
			q.link(c)
		}
	}
}

// link appends c. q.mu is held.
func (q *queue) link(c *call) {
	l := q.load(c)
	l.commands++
	l.bytes += c.size()
	c.queued, c.prev = true, q.tail
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.next = c
	}
	q.tail = c
}

// unlink takes c out. q.mu is held, and c is queued.
func (q *queue) unlink(c *call) {
	if c.prev == nil {
		q.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.next, c.prev, c.queued = nil, nil, false
	l := q.load(c)
	l.commands--
	l.bytes -= c.size()
}

// remove takes c out and tells whether it was still in.
func (q *queue) remove(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !c.queued {
		return false
	}
	q.unlink(c)
	return true
}

// take returns the next batch: at most count commands and bytes bytes, one command
// at least, and one that travels alone by itself. nil when nothing waits.
func (q *queue) take(count, bytes int) []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == nil {
		return nil
	}
	batch := make([]*call, 0, min(count, q.reserves.commands+q.holders.commands))
	for c := q.head; c != nil && len(batch) < count; c = q.head {
		bytes -= c.size()
		if len(batch) > 0 && (bytes < 0 || c.alone) {
			break
		}
		q.unlink(c)
		batch = append(batch, c)
		if c.alone {
			break
		}
	}
	return batch
}

// fills tells whether enough waits for a batch of count commands or bytes bytes.
func (q *queue) fills(count, bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reserves.commands+q.holders.commands >= count || q.reserves.bytes+q.holders.bytes >= bytes
}

// takeIf takes out every call that which names.
func (q *queue) takeIf(which func(*call) bool) []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*call
	for c := q.head; c != nil; {
		next := c.next
		if which(c) {
			q.unlink(c)
			out = append(out, c)
		}
		c = next
	}
	return out
}

// close refuses what comes from now on.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
