package verbs

import (
	"time"

	"onced"
	"onced/fsm"
)

// Record returns row, nil for none, as the record that it is at now, without its response.
func Record(id onced.ID, r *fsm.Row, now int64) onced.Record {
	rec := onced.Record{ID: id, State: r.StateAt(now)}
	if r == nil || rec.State == onced.StateAbsent {
		return rec
	}
	rec.Fingerprint, rec.Attempt, rec.Token, rec.Owner = r.Fingerprint, r.Attempt, onced.Token(r.Token), r.Owner
	if r.Retry {
		rec.OnLapse = onced.Retry
	}
	rec.Lease, rec.Retention, rec.Tombstone = millis(r.Lease), millis(r.Retention), millis(r.Tombstone)
	rec.CreatedAt = onced.Instant(r.CreatedAt)
	rec.Checkpoint = r.Checkpoint
	if r.Settled() {
		rec.CompletedAt, rec.ExpiresAt = onced.Instant(r.CompletedAt), onced.Instant(r.ExpiresAt())
	} else {
		rec.LeaseExpiresAt = onced.Instant(r.LeaseUntil)
	}
	return rec
}

// FullRecord is Record with its response, where there is one.
func FullRecord(id onced.ID, r *fsm.Row, now int64) (onced.Record, error) {
	rec := Record(id, r, now)
	if rec.State != onced.StateCompleted {
		return rec, nil
	}
	response, err := fsm.DecodeResponse(r.Response)
	if err != nil {
		return rec, err
	}
	rec.Response = response
	return rec, nil
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// ReserveAnswer is the Keeper's answer to a reserve.
func ReserveAnswer(id onced.ID, r fsm.Result) (onced.ReserveResult, error) {
	switch r.Outcome {
	case fsm.OutcomeReserved, fsm.OutcomeRepeated:
		return onced.ReserveResult{Repeated: r.Outcome == fsm.OutcomeRepeated, Record: Record(id, r.Row, r.Now)}, nil
	case fsm.OutcomeReplayed:
		rec, err := FullRecord(id, r.Row, r.Now)
		if err != nil {
			return onced.ReserveResult{}, onced.AsProblem(err)
		}
		return onced.ReserveResult{Replayed: true, Record: rec}, nil
	}
	return onced.ReserveResult{}, Refusal(id, r)
}

// RecordAnswer is the Keeper's answer to a complete, renew or resolve: the
// record without its response.
func RecordAnswer(id onced.ID, r fsm.Result) (onced.Record, error) {
	if r.Outcome == fsm.OutcomeDone {
		return Record(id, r.Row, r.Now), nil
	}
	return onced.Record{}, Refusal(id, r)
}

// EmptyAnswer is the Keeper's answer to a release or forget.
func EmptyAnswer(id onced.ID, r fsm.Result) error {
	if r.Outcome == fsm.OutcomeDone {
		return nil
	}
	return Refusal(id, r)
}

// Pauses that a refusal advises. A running operation may end at any moment; an unknown one
// waits for a person or a probe.
const (
	pauseRunning = time.Second
	pauseUnknown = 5 * time.Second
	pauseQuota   = 60 * time.Second
)

// Refusal is the problem that a refusing outcome stands for.
func Refusal(id onced.ID, r fsm.Result) *onced.Problem {
	rec := Record(id, r.Row, r.Now)
	var p *onced.Problem
	switch r.Outcome {
	case fsm.OutcomeInProgress:
		p = onced.Problemf(onced.CodeRequestInProgress, "attempt %d is running; its lease ends at %s",
			rec.Attempt, rec.LeaseExpiresAt.Time().Format(timeForm))
		p.RetryAfter = pauseRunning
		if left := rec.LeaseExpiresAt.Sub(onced.Instant(r.Now)); left > 0 {
			p.RetryAfter = min(left, pauseRunning)
		}
	case fsm.OutcomeConflict:
		p = onced.Problemf(onced.CodeConflict, "the key was first used for a request with another fingerprint; another operation needs another key")
	case fsm.OutcomeUnknown:
		p = onced.Problemf(onced.CodeOutcomeUnknown, "attempt %d was sent and its outcome is not known; it is never run again until its holder, a look-up or an operator settles it", rec.Attempt)
		p.RetryAfter = pauseUnknown
	case fsm.OutcomeKeyExpired:
		p = onced.Problemf(onced.CodeKeyExpired, "the key was used, and its answer was kept until %s; it is not run again", rec.ExpiresAt.Time().Format(timeForm))
	case fsm.OutcomeStaleToken:
		p = onced.Problemf(onced.CodeStaleToken, "the token or owner of this call holds the reservation no more; an earlier try of the same call may have had its effect")
	case fsm.OutcomeAlreadyCompleted:
		p = onced.Problemf(onced.CodeAlreadyCompleted, "the record was completed at %s, and what it was completed with stays", rec.CompletedAt.Time().Format(timeForm))
	case fsm.OutcomeKeyNotFound:
		p = onced.Problemf(onced.CodeKeyNotFound, "there is no record of this key")
	case fsm.OutcomeQuota:
		p = onced.Problemf(onced.CodeQuotaExceeded, "the tenant has as many records as it may have; the key is unused")
		p.RetryAfter = pauseQuota
	case fsm.OutcomeLate:
		p = onced.Problemf(onced.CodeUnavailable, "the cluster could not decide within the request's deadline; nothing was started")
		p.RetryAfter = pauseRunning
	default:
		p = onced.Problemf(onced.CodeUnavailable, "%v is no outcome of this call", r.Outcome)
		p.RetryAfter = pauseRunning
	}
	if rec.State != onced.StateAbsent {
		p.Record = &rec
	}
	return p
}

// timeForm is RFC 3339 in UTC with milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z07:00"
