package gateway

import (
	"hash/maphash"
	"sync"
	"time"

	"onced"
)

// detector finds clients that make a new key at each retry: the same payload under different keys of
// one tenant within a window. It only counts and tells; two equal operations under two keys may be meant.
//
// Its memory is fixed: a table of sets with a few places each. A payload can lie in one set only. A set that is full
// gives up the oldest entry of the tenant that has the most in it, so that a flood of one
// tenant pushes out its own. What was pushed out is not found again: the figure is never too high, and may be too low.
type detector struct {
	seed maphash.Seed

	mu     sync.Mutex
	sets   [][setPlaces]sighting
	spoken [speakers]time.Time // when a line was last written about the tenants of each place
	silent [speakers]int       // how many were found since, without a line
}

// sighting is the last request with a payload. A zero payload is an empty place.
type sighting struct {
	payload uint64 // of tenant and fingerprint
	tenant  uint64
	key     [16]byte // the key's digest
	seen    time.Time
}

const (
	detectorSets = 8 << 10 // of 65,536 entries, less than 4 MiB in all
	setPlaces    = 8
	speakers     = 64
	// speakEvery is how often there is a line about a tenant; those that share a place share it.
	speakEvery = time.Minute
)

// suspicion is one finding.
type suspicion struct {
	before, now string // the digests of the two keys
	more        int    // how many were found since the last line, this one aside
	speak       bool   // it is time for a line
}

func newDetector() *detector {
	return &detector{seed: maphash.MakeSeed(), sets: make([][setPlaces]sighting, detectorSets)}
}

// see notes that a payload was reserved under a key, and tells whether it was under another one
// less than window ago.
func (d *detector) see(id onced.ID, fingerprint string, window time.Duration, now time.Time) (suspicion, bool) {
	tenant := maphash.String(d.seed, id.Tenant)
	payload := max(maphash.String(d.seed, id.Tenant+"\x00"+fingerprint), 1)
	s := sighting{payload: payload, tenant: tenant, seen: now}
	copy(s.key[:], id.Digest())

	d.mu.Lock()
	defer d.mu.Unlock()
	set := &d.sets[payload%uint64(len(d.sets))]
	for i := range set {
		if set[i].payload != payload {
			continue
		}
		before := set[i]
		set[i] = s
		if before.key == s.key || now.Sub(before.seen) >= window {
			return suspicion{}, false
		}
		return d.found(before, s), true
	}
	set[place(set, window, now)] = s
	return suspicion{}, false
}

// found counts a finding, and decides whether it is told.
func (d *detector) found(before, s sighting) suspicion {
	at := s.tenant % speakers
	f := suspicion{before: string(before.key[:]), now: string(s.key[:]), more: d.silent[at]}
	if last := d.spoken[at]; !last.IsZero() && s.seen.Sub(last) < speakEvery {
		d.silent[at]++
		return f
	}
	d.spoken[at], d.silent[at], f.speak = s.seen, 0, true
	return f
}

// place returns which place of a set a new entry takes: an empty one or one past the window, else
// the oldest of the tenant that has the most.
func place(set *[setPlaces]sighting, window time.Duration, now time.Time) int {
	most, best := 0, 0
	for i := range set {
		if set[i].payload == 0 || now.Sub(set[i].seen) >= window {
			return i
		}
		count := 0
		for j := range set {
			if set[j].tenant == set[i].tenant {
				count++
			}
		}
		if count > most || count == most && set[i].seen.Before(set[best].seen) {
			most, best = count, i
		}
	}
	return best
}

// detect tells of a payload that has just been reserved under another key. An empty one says
// nothing of what is wanted, and neither does a fingerprint without the body.
func (o *operation) detect() {
	window := o.t.detectWindow
	if window == 0 || len(o.body) == 0 || o.route.bodyless {
		return
	}
	f, found := o.g.detector.see(o.id, o.fingerprint, window, time.Now())
	if !found {
		return
	}
	o.g.meter.Suspected(o.id.Tenant)
	if f.speak {
		o.log.Warn("gateway: the same payload came under another key: the client seems to make a new key at each retry",
			"route", o.route.pattern.text, "earlier_key_digest", f.before, "more_since_the_last_line", f.more)
	}
}
