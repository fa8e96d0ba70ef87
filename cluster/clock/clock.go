package clock

import (
	"sync"
	"time"

	"onced/internal/planted"
)

// slewShare is the part of the passing time by which a correction is worked off: 1/100.
const slewShare = 100

// Config is what a Clock reads. The zero value reads the process's own clocks.
type Config struct {
	// Mono is a monotonic clock: the time since some fixed moment.
	Mono func() time.Duration
	// Wall is this node's wall clock, its answer when a leader asks.
	Wall func() time.Time
}

// Clock tells the cluster's time while this node leads, and remembers the largest
// stamp while it does not. It is safe for concurrent use.
type Clock struct {
	mono func() time.Duration
	wall func() time.Time

	mu      sync.Mutex
	leading bool
	term    uint64        // the last term that Lead was called for
	last    int64         // milliseconds; the largest stamp given or seen
	base    int64         // microseconds of cluster time at anchor
	anchor  time.Duration // of mono
	slew    int64         // microseconds still to be worked off since anchor; may be negative

	heard     int64         // milliseconds; what a leader's time was at heardAt, 0 = none was heard
	heardAt   time.Duration // of mono
	heardTerm uint64        // that it led in
}

// Answer is what a node says of the time when a leader asks.
type Answer struct {
	Wall  int64  // its wall clock, in milliseconds
	Floor int64  // the least that the cluster's time is, in milliseconds; 0 = it has heard no leader since it started
	Term  uint64 // of the leader that it heard last
}

// New returns a Clock that does not lead.
func New(cfg Config) *Clock {
	if cfg.Mono == nil {
		start := time.Now()
		cfg.Mono = func() time.Duration { return time.Since(start) }
	}
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	return &Clock{mono: cfg.Mono, wall: cfg.Wall}
}

// Wall is this node's answer to a leader that asks for its wall clock, in milliseconds.
func (c *Clock) Wall() int64 { return c.wall().UnixMilli() }

// Answer is what this node says of the time when a leader asks.
func (c *Clock) Answer() Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	term := c.heardTerm
	if c.leading {
		term = c.term
	}
	return Answer{Wall: c.Wall(), Floor: c.floor(), Term: term}
}

// Heard takes note of the time, in milliseconds, of the leader of a term, where it is news: from its own
// word, or from a stamp that it has just written. What is read again after a restart is none. A
// later leader's time counts even where it is less: it goes on from what it knew, and nothing was stamped beyond.
func (c *Clock) Heard(term uint64, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if term > c.heardTerm || term == c.heardTerm && now > c.floor() {
		c.heard, c.heardAt, c.heardTerm = now, c.mono(), term
	}
}

// floor is the least that the cluster's time is now, as far as this process can tell: a leader's time
// runs at 99 % at least. 0 = no leader was heard. c.mu is held.
func (c *Clock) floor() int64 {
	if c.leading {
		return max(c.last, c.micros()/1000)
	}
	if c.heard == 0 {
		return 0
	}
	return c.heard + (c.mono()-c.heardAt).Milliseconds()*(slewShare-1)/slewShare
}

// Lead begins a term and returns the time that it begins at, in milliseconds.
// tableClock is the clock of this node's table once it has applied everything up to this
// term; answers are the voters', this node's own among them; voters is how many voters there
// are. A term that is not newer than the last one changes nothing, and Lead returns false.
func (c *Clock) Lead(term uint64, tableClock int64, answers []Answer, voters int) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if term <= c.term {
		return c.last, false
	}
	start := base(max(tableClock, c.last), answers, voters)
	c.leading, c.term, c.last = true, term, start
	c.restart(start * 1000)
	return start, true
}

// Resign ends the term: Now is false until the next Lead. A term that is not the
// present one changes nothing, so a late call does not end its successor.
func (c *Clock) Resign(term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if term == c.term && c.leading {
		c.heard, c.heardAt, c.heardTerm = c.floor(), c.mono(), term
		c.leading = false
	}
}

// Now returns the cluster's time in milliseconds, and whether this node leads; if
// not, the time is the largest stamp seen.
func (c *Clock) Now() (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leading {
		c.last = max(c.last, c.micros()/1000)
		if planted.LocalClock {
			c.last = max(c.last, c.Wall())
		}
	}
	return c.last, c.leading
}

// Saw takes note of a stamp, in milliseconds, that was applied. Time goes on from
// there if it was behind.
func (c *Clock) Saw(stamp int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stamp <= c.last {
		return
	}
	c.last = stamp
	if c.leading && c.micros() < stamp*1000 {
		c.restart(stamp * 1000)
	}
}

// Check compares the time with the voters' wall clocks (this node's own
// among them) and from now on works off the difference, which it returns. Without a majority
// of answers, or when term is not the one that this node leads in, nothing is
// changed, and Check returns false.
func (c *Clock) Check(term uint64, answers []Answer, voters int) (time.Duration, bool) {
	sorted := sound(answers)
	if 2*len(sorted) <= voters {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.leading || term != c.term {
		return 0, false
	}
	now := c.micros()
	c.restart(now)
	c.slew = lowerMedian(sorted)*1000 - now
	return time.Duration(c.slew) * time.Microsecond, true
}

// restart lets time go on from micros without a correction. c.mu is held.
func (c *Clock) restart(micros int64) {
	c.base, c.anchor, c.slew = micros, c.mono(), 0
}

// micros is the running time in microseconds. c.mu is held.
func (c *Clock) micros() int64 {
	elapsed := max(0, (c.mono() - c.anchor).Microseconds())
	most := elapsed / slewShare
	return c.base + elapsed + min(max(c.slew, -most), most)
}
