package fsm

import "fmt"

// Outcome is what a command came to. The numbers travel between nodes and never change.
type Outcome uint32

const (
	OutcomeReserved Outcome = 1 // a new reservation; the row is its
	OutcomeRepeated Outcome = 2 // this owner had the reservation already
	OutcomeReplayed Outcome = 3 // completed; the row carries the answer
	OutcomeDone     Outcome = 4 // the write took effect, or had taken effect before

	OutcomeInProgress       Outcome = 10
	OutcomeConflict         Outcome = 11
	OutcomeUnknown          Outcome = 12
	OutcomeKeyExpired       Outcome = 13
	OutcomeStaleToken       Outcome = 14
	OutcomeAlreadyCompleted Outcome = 15
	OutcomeKeyNotFound      Outcome = 16
	OutcomeQuota            Outcome = 17
	OutcomeLate             Outcome = 18 // its caller had given up before it was written
)

var outcomeNames = map[Outcome]string{
	OutcomeReserved: "reserved", OutcomeRepeated: "repeated", OutcomeReplayed: "replayed", OutcomeDone: "done",
	OutcomeInProgress: "request_in_progress", OutcomeConflict: "idempotency_conflict", OutcomeUnknown: "outcome_unknown",
	OutcomeKeyExpired: "key_expired", OutcomeStaleToken: "stale_token", OutcomeAlreadyCompleted: "already_completed",
	OutcomeKeyNotFound: "key_not_found", OutcomeQuota: "quota_exceeded", OutcomeLate: "late",
}

// String returns the outcome's name, the problem code where it is a refusal.
func (o Outcome) String() string {
	if name, ok := outcomeNames[o]; ok {
		return name
	}
	return fmt.Sprintf("outcome(%d)", uint32(o))
}

// Result is what one command came to.
type Result struct {
	Outcome Outcome
	Row     *Row  // the record as the command left or found it; nil = there is none
	Now     int64 // the clock it was decided at
}
