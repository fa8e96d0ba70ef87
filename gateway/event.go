package gateway

import (
	"time"

	"onced"
)

// Outcome is what became of a request, as Deps.Observe is told.
type Outcome string

const (
	Passed     Outcome = "passed"      // not protected
	Executed   Outcome = "executed"    // forwarded, and its answer recorded
	Replayed   Outcome = "replayed"    // answered from the record
	InProgress Outcome = "in_progress" // refused: the first one is running
	Conflict   Outcome = "conflict"    // refused: another request had this key
	Released   Outcome = "released"    // forwarded, nothing was done there, the key is free
	Unknown    Outcome = "unknown"     // it may have happened; also a duplicate of such a one
	Accepted   Outcome = "accepted"    // begun, and answered before its end, which is told once more
	Refused    Outcome = "refused"     // any other refusal; nothing was started
)

// Event is one request that was answered.
type Event struct {
	Route    string // the route's match; "" where none matched or it is not protected
	Outcome  Outcome
	Took     time.Duration // until its answer was decided; 0 where it was passed on
	Sighting Sighting      // what the look-up of this duplicate told; "" where none was asked
}

// outcomeOf returns how a refusal of the Keeper counts.
func outcomeOf(code onced.Code) Outcome {
	switch code {
	case onced.CodeRequestInProgress:
		return InProgress
	case onced.CodeConflict:
		return Conflict
	case onced.CodeOutcomeUnknown:
		return Unknown
	}
	return Refused
}
