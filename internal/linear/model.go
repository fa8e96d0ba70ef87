package linear

import (
	"slices"
	"strings"
)

// phase is what was written of the key. Under hold a lease that is over makes no other phase: a record that
// is running may then be seen as unknown.
type phase string

const (
	absent    phase = ""
	running   phase = "in_progress"
	unknown   phase = "unknown" // it was said
	completed phase = "completed"
)

// state is what the model holds of a key.
type state struct {
	phase   phase
	owner   string
	token   uint64 // 0 = not told to anybody yet
	attempt int
	body    string
	gaveUp  bool // under retry: unknown was said, and whoever reserves next takes over

	last uint64 // the largest token told of this key
	dead string // owners that never get a reservation again, each between two spaces
	past string // answers whose retention is over, each between two newlines

	since int64 // the state cannot have begun before
	lapse int64 // while running: when the lease may be over at the earliest
	ends  int64 // once completed: when the retention may be
}

// step returns the state after c and whether a is what c must be told in state s. A lost answer is never
// wrong: c takes all the effect that it can have, and one that has none comes to stand at the very end of the
// history.
func (s state) step(c Call, a Answer) (state, bool) {
	if !a.Lost && c.End < s.since {
		return s, false
	}
	switch {
	case c.Verb == Get:
		return s.get(c, a)
	case c.Verb == Reserve && a.Outcome == "replayed" && s.wasReplayed(a.Body):
		return s, true
	}
	if s.over(c, a) {
		s = s.free(s.ends)
	}
	switch c.Verb {
	case Reserve:
		return s.reserve(c, a)
	case Cancel:
		return s.cancel(c, a)
	}
	switch {
	case s.phase == absent && c.Verb == Release:
		return s, a.Outcome == "ok"
	case s.phase == absent || s.token != c.Token:
		return s, a.Outcome == "stale_token"
	case s.phase == completed:
		return s, a.Outcome == s.settled(c)
	}
	return s.held(c, a)
}

// over tells whether, as far as c knows, the completed record's retention is over.
func (s state) over(c Call, a Answer) bool {
	if s.phase != completed || s.ends == never {
		return false
	}
	switch {
	case a.Lost:
		return c.Verb == Reserve // the most that it can do is to begin anew
	case c.End < s.ends:
		return false
	case c.Verb == Reserve:
		return a.Outcome != "replayed"
	case c.Verb == Get:
		return a.Outcome == "key_not_found"
	case c.Verb == Release:
		return a.Outcome == "ok"
	}
	return a.Outcome == "stale_token" && s.token == c.Token
}

// free is the key unused, from a time on.
func (s state) free(since int64) state {
	next := state{last: max(s.last, s.token), dead: s.dead, past: s.past, since: max(s.since, since)}
	if s.phase == completed {
		next.past += "\n" + s.body + "\n"
	}
	return next
}

func (s state) wasReplayed(body string) bool { return strings.Contains(s.past, "\n"+body+"\n") }
func (s state) isDead(owner string) bool     { return strings.Contains(s.dead, " "+owner+" ") }

func (s state) bury(owner string) state {
	if !s.isDead(owner) {
		s.dead += " " + owner + " "
	}
	return s
}

func (s state) cancel(c Call, a Answer) (state, bool) {
	if s.phase == running && !s.gaveUp && s.owner == c.Owner {
		s = s.free(0)
	}
	return s.bury(c.Owner), a.Outcome == "ok"
}

// settled is what a holder's call of a completed record is told.
func (s state) settled(c Call) string {
	if c.Verb == Complete && c.Body == s.body {
		return "ok"
	}
	return "already_completed"
}

// held is a call whose token is that of a record that is not settled. Each may also be told that its holder
// holds no more: a node that was not told how a try of it ended tries again, after what others did in between.
func (s state) held(c Call, a Answer) (state, bool) {
	next, also := s, []string{"stale_token"}
	switch c.Verb {
	case Complete:
		next.phase, next.body, next.gaveUp = completed, c.Body, false
		next.ends = Earliest(c.Begin, c.Retention)
		if c.Retention == 0 {
			also = nil // nobody can come in between
		}
	case Unknown:
		also = append(also, "already_completed")
		if next.gaveUp = true; !c.Retry {
			next.phase = unknown
		} else {
			next.lapse = 0
		}
	case Release:
		next = s.free(0).bury(s.owner)
	case Renew:
		if s.phase == unknown || s.gaveUp {
			return s, a.Outcome == "outcome_unknown"
		}
		also = append(also, "already_completed", "outcome_unknown")
		next.lapse = max(s.lapse, Earliest(c.Begin, c.Lease))
	}
	return next, a.Outcome == "ok" || slices.Contains(also, a.Outcome)
}

func (s state) reserve(c Call, a Answer) (state, bool) {
	lapsed := a.Lost || c.End >= s.lapse || s.gaveUp
	switch s.phase {
	case absent:
		return s.grant(c, a, 1)
	case completed:
		return s, a.Outcome == "replayed" && a.Body == s.body
	case unknown:
		return s, a.Outcome == "outcome_unknown"
	}
	switch {
	case s.owner == c.Owner && !s.gaveUp:
		return s.repeat(c, a)
	case !c.Retry:
		return s, a.Outcome == "request_in_progress" || lapsed && a.Outcome == "outcome_unknown"
	case a.Outcome == "request_in_progress":
		return s, !s.gaveUp
	case lapsed:
		return s.grant(c, a, s.attempt+1)
	}
	return s, false
}

// grant gives the key to the caller. Who is refused may have had it all the same: by a try whose end the node was
// not told, before others did something with it.
func (s state) grant(c Call, a Answer, attempt int) (state, bool) {
	if s.isDead(c.Owner) {
		return s, a.Outcome == "stale_token"
	}
	next := s
	next.last = max(s.last, s.token)
	next.phase, next.owner, next.attempt, next.token, next.gaveUp = running, c.Owner, attempt, 0, false
	next.lapse = Earliest(c.Begin, c.Lease)
	if s.phase == running {
		next.since = max(s.since, s.lapse)
	}
	switch {
	case a.Lost:
	case a.Outcome == "reserved":
		next.token = a.Token
		return next, a.Owner == c.Owner && a.Attempt == attempt && a.Token > next.last
	default:
		return next, slices.Contains([]string{"replayed", "stale_token", "outcome_unknown", "request_in_progress"}, a.Outcome)
	}
	return next, true
}

// repeat gives an owner what it has, with its lease anew.
func (s state) repeat(c Call, a Answer) (state, bool) {
	next, ok := s, true
	if !a.Lost && a.Outcome == "reserved" {
		next, ok = s.learn(a.Token)
		ok = ok && a.Repeated && a.Owner == c.Owner && a.Attempt == s.attempt
	} else if !a.Lost {
		ok = slices.Contains([]string{"replayed", "stale_token", "outcome_unknown"}, a.Outcome)
	}
	next.lapse = max(s.lapse, Earliest(c.Begin, c.Lease))
	return next, ok
}

func (s state) get(c Call, a Answer) (state, bool) {
	if s.over(c, a) {
		s = s.free(s.ends)
	}
	if s.phase == absent {
		return s, a.Outcome == "key_not_found"
	}
	seen := a.State == string(s.phase) || s.phase == running && !c.Retry && a.State == "unknown" && c.End >= s.lapse
	next, ok := s.learn(a.Token)
	return next, ok && a.Outcome == "ok" && seen && a.Owner == s.owner && a.Attempt == s.attempt && a.Body == s.body
}

// learn binds the token of a reservation whose answer was lost to what is told of it.
func (s state) learn(token uint64) (state, bool) {
	if s.token == 0 && token > s.last {
		s.token = token
	}
	return s, s.token == token
}
