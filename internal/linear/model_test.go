package linear

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// at is a call of key k from one millisecond to another.
func at(begin, end int, c Call, a Answer) porcupine.Operation {
	c.Key, c.Begin, c.End = "k", int64(begin)*int64(time.Millisecond), int64(end)*int64(time.Millisecond)
	return Operation(0, c, a)
}

func reserve(owner string) Call             { return Call{Verb: Reserve, Owner: owner} }
func by(v Verb, token uint64) Call          { return Call{Verb: v, Token: token} }
func say(outcome string) Answer             { return Answer{Outcome: outcome} }
func got(owner string, token uint64) Answer { return attempt(owner, token, 1) }
func seen(state, owner string, t uint64) Answer {
	return Answer{Outcome: "ok", State: state, Owner: owner, Token: t, Attempt: 1}
}
func attempt(owner string, t uint64, n int) Answer {
	return Answer{Outcome: "reserved", Owner: owner, Token: t, Attempt: n}
}

// brief has the call's key end its leases after 300 ms and its retentions after 1 s.
func brief(c Call) Call {
	c.Lease, c.Retention = 300*time.Millisecond, time.Second
	return c
}

// again has the call's key be taken over when the lease of 300 ms is over.
func again(c Call) Call {
	c.Lease, c.Retry = 300*time.Millisecond, true
	return c
}

// tried is a reserve that takes until end and has the key as the third attempt, though nobody knows of the first; another
// is granted the second one at taken.
func tried(taken, end int) []porcupine.Operation {
	first := again(reserve("a"))
	first.Key, first.End = "k", int64(end)*int64(time.Millisecond)
	return append([]porcupine.Operation{Operation(1, first, attempt("a", 3, 3))},
		at(10, 20, again(reserve("b")), say("request_in_progress")), at(taken, taken+10, again(reserve("b")), attempt("b", 2, 2)))
}

// ended is a reserve that takes until end and has the key by its second token, though nobody was told the first but others, who see
// it, settle it and, where that has not ended it, take over and release.
func ended(policy func(Call) Call, settle Call, end int) []porcupine.Operation {
	ops := []porcupine.Operation{
		at(0, end, policy(reserve("a")), got("a", 3)),
		at(5, 6, policy(Call{Verb: Get}), seen("in_progress", "a", 1)), at(7, 8, policy(settle), say("ok"))}
	if settle.Verb != Complete {
		ops = append(ops, at(10, 11, policy(reserve("b")), attempt("b", 2, 2)), at(12, 13, policy(by(Release, 2)), say("ok")))
	}
	return ops
}

// twice is a reserve that is given up at end. Another takes over, and is taken over, though nobody else reserves.
func twice(end int) []porcupine.Operation {
	return []porcupine.Operation{
		at(0, end, again(reserve("a")), Answer{Lost: true}),
		at(310, 311, again(reserve("b")), attempt("b", 2, 2)), at(312, 313, again(by(Unknown, 2)), say("ok")), at(330, 331, again(by(Renew, 2)), say("stale_token"))}
}

func TestHistories(t *testing.T) {
	complete := Call{Verb: Complete, Token: 1, Body: "b"}
	done := Answer{Outcome: "replayed", Body: "b"}
	lost := Answer{Lost: true}
	for _, h := range []struct {
		name  string
		legal bool
		ops   []porcupine.Operation
	}{
		{"one after the other", true, []porcupine.Operation{at(0, 1, reserve("a"), got("a", 1)), at(2, 3, reserve("b"), say("request_in_progress")), at(4, 5, complete, say("ok")), at(6, 7, reserve("b"), done)}},
		{"two owners hold it", false, []porcupine.Operation{at(0, 1, reserve("a"), got("a", 1)), at(2, 3, reserve("b"), got("b", 2))}},
		{"a token that is not larger", false, []porcupine.Operation{at(0, 1, reserve("a"), got("a", 5)), at(2, 3, by(Release, 5), say("ok")), at(4, 5, reserve("b"), got("b", 4))}},
		{"an acknowledged complete is gone", false, []porcupine.Operation{at(0, 1, reserve("a"), got("a", 1)), at(2, 3, complete, say("ok")), at(4, 5, Call{Verb: Get}, seen("in_progress", "a", 1))}},
		{"a lost complete may be seen later", true, []porcupine.Operation{at(0, 1, reserve("a"), got("a", 1)), at(2, 3, complete, lost), at(4, 5, Call{Verb: Get}, seen("in_progress", "a", 1)), at(6, 7, reserve("b"), done)}},
		{"and not go away again", false, []porcupine.Operation{at(0, 1, reserve("a"), got("a", 1)), at(2, 3, complete, lost), at(6, 7, reserve("b"), done), at(8, 9, Call{Verb: Get}, seen("in_progress", "a", 1))}},
		{"a stale token writes", false, []porcupine.Operation{at(0, 1, reserve("a"), got("a", 1)), at(2, 3, by(Release, 1), say("ok")), at(4, 5, reserve("b"), got("b", 2)), at(6, 7, complete, say("ok"))}},
		{"a stale read", false, []porcupine.Operation{at(0, 1, reserve("a"), got("a", 1)), at(2, 3, by(Release, 1), say("ok")), at(4, 5, Call{Verb: Get}, seen("in_progress", "a", 1))}},
		{"a retried release is told that it is stale", true, []porcupine.Operation{at(0, 1, reserve("a"), got("a", 1)), at(2, 9, by(Release, 1), say("stale_token")), at(3, 4, reserve("b"), got("b", 2))}},
		{"a cancelled owner gets it", false, []porcupine.Operation{at(0, 1, Call{Verb: Cancel, Owner: "a"}, say("ok")), at(2, 3, reserve("a"), got("a", 1))}},
		{"another owner than was asked for", false, []porcupine.Operation{at(0, 1, reserve("a"), got("z", 1))}},
		{"another attempt", false, []porcupine.Operation{at(0, 1, reserve("a"), attempt("a", 1, 2))}},

		{"a lease ends", true, []porcupine.Operation{at(0, 1, brief(reserve("a")), got("a", 1)), at(320, 321, brief(reserve("b")), say("outcome_unknown"))}},
		{"a lease ends too early", false, []porcupine.Operation{at(0, 1, brief(reserve("a")), got("a", 1)), at(200, 201, brief(reserve("b")), say("outcome_unknown"))}},
		{"a renewed lease ends too early", false, []porcupine.Operation{at(0, 1, brief(reserve("a")), got("a", 1)), at(250, 251, brief(by(Renew, 1)), say("ok")), at(320, 321, brief(Call{Verb: Get}), seen("unknown", "a", 1))}},
		{"a late complete", true, []porcupine.Operation{at(0, 1, brief(reserve("a")), got("a", 1)), at(320, 321, brief(Call{Verb: Get}), seen("unknown", "a", 1)), at(322, 323, brief(complete), say("ok")), at(324, 325, brief(reserve("b")), done)}},
		{"a retention ends", true, []porcupine.Operation{at(0, 1, brief(reserve("a")), got("a", 1)), at(2, 3, brief(complete), say("ok")), at(1100, 1101, brief(reserve("b")), got("b", 2))}},
		{"a retention ends too early", false, []porcupine.Operation{at(0, 1, brief(reserve("a")), got("a", 1)), at(2, 3, brief(complete), say("ok")), at(800, 801, brief(reserve("b")), got("b", 2))}},
		{"a node that lags replays what has ended", true, []porcupine.Operation{at(0, 1, brief(reserve("a")), got("a", 1)), at(2, 3, brief(complete), say("ok")), at(1100, 1101, brief(reserve("b")), got("b", 2)), at(1102, 1103, brief(reserve("c")), done)}},
		{"but nothing else", false, []porcupine.Operation{at(0, 1, brief(reserve("a")), got("a", 1)), at(2, 3, brief(complete), say("ok")), at(1100, 1101, brief(reserve("b")), got("b", 2)), at(1102, 1103, brief(reserve("c")), Answer{Outcome: "replayed", Body: "x"})}},

		{"a takeover", true, []porcupine.Operation{at(0, 1, again(reserve("a")), got("a", 1)), at(320, 321, again(reserve("b")), attempt("b", 2, 2)), at(322, 323, again(by(Renew, 1)), say("stale_token"))}},
		{"a takeover too early", false, []porcupine.Operation{at(0, 1, again(reserve("a")), got("a", 1)), at(100, 101, again(reserve("b")), attempt("b", 2, 2))}},
		{"a lost takeover too early", false, []porcupine.Operation{at(0, 1, again(reserve("a")), got("a", 1)), at(100, 101, again(reserve("b")), lost), at(150, 151, again(Call{Verb: Get}), Answer{Outcome: "ok", State: "in_progress", Owner: "b", Token: 2, Attempt: 2})}},
		{"unknown ends the lease", true, []porcupine.Operation{at(0, 1, again(reserve("a")), got("a", 1)), at(2, 3, again(by(Unknown, 1)), say("ok")), at(4, 5, again(reserve("b")), attempt("b", 2, 2))}},
		{"a reserve is tried again after others had the key", true, tried(300, 900)},
		{"but not before its first lease is over", false, tried(100, 900)},
		{"nor before that of the others", false, tried(300, 500)},
		{"or after its first was completed and had ended", true, ended(brief, by(Complete, 1), 1200)},
		{"but not before it can have", false, ended(brief, by(Complete, 1), 900)},
		{"or after its first became unknown and was taken over", true, ended(again, by(Unknown, 1), 100)},
		{"twice by a call whose answer is lost", true, twice(2000)},
		{"but once only within one lease", false, twice(250)},
		{"or nothing of the kind", false, ended(again, by(Renew, 1), 100)},
	} {
		t.Run(h.name, func(t *testing.T) {
			if legal := porcupine.CheckOperations(Model, h.ops); legal != h.legal {
				t.Errorf("legal is %v, expected %v", legal, h.legal)
			}
		})
	}
}
