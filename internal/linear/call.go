package linear

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verb is what a call asks for.
type Verb string

// The verbs. Unknown is a complete with the outcome unknown, Cancel a release by owner.
const (
	Reserve  Verb = "reserve"
	Complete Verb = "complete"
	Unknown  Verb = "unknown"
	Release  Verb = "release"
	Cancel   Verb = "cancel"
	Renew    Verb = "renew"
	Get      Verb = "get"
)

// Call is one call, sent once. Begin and End are when it was sent and when its answer came, in nanoseconds of
// one monotonic clock.
type Call struct {
	Verb  Verb   `json:"verb"`
	Key   string `json:"key"`
	Owner string `json:"owner,omitempty"` // of reserve and cancel
	Token uint64 `json:"token,omitempty"` // of the others but get
	Body  string `json:"body,omitempty"`  // of complete

	// The key's policies, the same in each of its calls. 0 = does not end within the history.
	Lease     time.Duration `json:"lease,omitempty"`
	Retention time.Duration `json:"retention,omitempty"` // under hold only
	Retry     bool          `json:"retry,omitempty"`     // on_lapse

	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
}

// Answer is what a call was told. Members that the verb's answer does not have are zero.
type Answer struct {
	Lost     bool   `json:"lost,omitempty"` // no answer, or 503
	Outcome  string `json:"outcome"`        // ok, reserved, replayed, or a problem code
	State    string `json:"state,omitempty"`
	Token    uint64 `json:"token,omitempty"`
	Owner    string `json:"owner,omitempty"`
	Attempt  int    `json:"attempt,omitempty"`
	Repeated bool   `json:"repeated,omitempty"`
	Body     string `json:"body,omitempty"`
}

// never is a time that does not come within a history, and the end of a call whose answer was lost.
const never = math.MaxInt64

// Operation is a call with its answer, by client, in porcupine's form.
func Operation(client int, c Call, a Answer) porcupine.Operation {
	op := porcupine.Operation{ClientId: client, Input: c, Output: a, Call: c.Begin, Return: c.End}
	if a.Lost {
		op.Return = never
	}
	return op
}

// Earliest is when something of a length that began at begin or later may be over: the cluster's time may run
// at 101 %, and is cut to milliseconds. 0 = never.
func Earliest(begin int64, length time.Duration) int64 {
	if length == 0 {
		return never
	}
	return begin + int64(length-length/50-20*time.Millisecond)
}

// Model judges the histories of any number of keys, each by itself.
var Model = func() porcupine.Model {
	m := ofOneKey
	m.Partition = byKey
	return m
}()

// ofOneKey judges one of the histories that byKey returns.
var ofOneKey = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) {
		c, a := in.(Call), out.(Answer)
		next, ok := s.(state).step(c, a)
		return ok || a.Lost, next
	},
	Equal:             func(a, b any) bool { return a.(state) == b.(state) },
	DescribeOperation: func(in, out any) string { return Describe(in.(Call), out.(Answer)) },
	DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
}

// Judge has porcupine order the calls of each key, with so much time for each. It returns the histories of the keys whose calls
// have no order that explains what they were told, and of those that it could not decide in time.
func Judge(history []porcupine.Operation, perKey time.Duration) (illegal, undecided [][]porcupine.Operation) {
	for _, part := range byKey(history) {
		switch porcupine.CheckOperationsTimeout(ofOneKey, part, perKey) {
		case porcupine.Illegal:
			illegal = append(illegal, part)
		case porcupine.Unknown:
			undecided = append(undecided, part)
		}
	}
	return illegal, undecided
}

// byKey parts a history by its calls' keys, each of which is judged by itself, and adds what nobody was told of: a try of a
// reserve that had the key and lost it to others before its call got it again, or its end. That try is a call of its
// own, whose answer was lost.
func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	at := map[string]int{}
	var parts [][]porcupine.Operation
	for _, op := range history {
		key := op.Input.(Call).Key
		i, ok := at[key]
		if !ok {
			i = len(parts)
			at[key], parts = i, append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	for i, part := range parts {
		for _, op := range part {
			if c := op.Input.(Call); triedBefore(c, op.Output.(Answer), part) {
				parts[i] = append(parts[i], Operation(op.ClientId, c, Answer{Lost: true}))
			}
		}
	}
	return parts
}

// triedBefore tells whether a reserve that was granted, or whose answer was lost, may have been granted by an earlier try that
// ended so that the same owner may get the key again: by its lease or an unknown outcome under retry, or by a retention. (A
// release ends its owner.)
func triedBefore(c Call, a Answer, ofKey []porcupine.Operation) bool {
	if c.Verb != Reserve || a.Outcome != "reserved" && !a.Lost {
		return false
	}
	if !c.Retry {
		return c.End >= Earliest(c.Begin, c.Retention)
	}
	return c.End >= Earliest(c.Begin, c.Lease) || slices.ContainsFunc(ofKey, func(op porcupine.Operation) bool {
		other := op.Input.(Call)
		return other.Verb == Unknown && other.Begin > c.Begin && other.Begin < c.End
	})
}

// Describe is a call and its answer on one line, for people.
func Describe(c Call, a Answer) string {
	asked := string(c.Verb)
	if c.Owner != "" {
		asked += " owner " + c.Owner
	}
	if c.Token != 0 {
		asked += fmt.Sprintf(" token %d", c.Token)
	}
	if c.Body != "" {
		asked += fmt.Sprintf(" %q", c.Body)
	}
	if a.Lost {
		return asked + " → lost"
	}
	told := a.Outcome
	if a.State != "" {
		told += " " + a.State
	}
	if a.Token != 0 {
		told += fmt.Sprintf(" token %d owner %s attempt %d", a.Token, a.Owner, a.Attempt)
	}
	if a.Repeated {
		told += " repeated"
	}
	if a.Body != "" {
		told += fmt.Sprintf(" %q", a.Body)
	}
	return asked + " → " + told
}

// History is calls with their answers for people, a line each, in the order they began: from when to when in seconds
// since the first, who called, what it asked and what it was told.
func History(ops []porcupine.Operation) string {
	sorted := slices.SortedStableFunc(slices.Values(ops), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, op := range sorted {
		c, first := op.Input.(Call), sorted[0].Call
		seconds := func(t int64) float64 { return time.Duration(t - first).Seconds() }
		fmt.Fprintf(&b, "%13.9f to %13.9f  %2d  %s\n", seconds(c.Begin), seconds(c.End), op.ClientId, Describe(c, op.Output.(Answer)))
	}
	return b.String()
}
