package fsm

import (
	"onced"
)

// Phase is what was written of a record. Its state follows from the phase and the clock.
type Phase uint8

// Phases; the numbers are on disk.
const (
	PhaseRunning   Phase = 1 // reserved, not settled
	PhaseUnknown   Phase = 2 // complete(unknown) was said under hold
	PhaseCompleted Phase = 3
	PhaseTombstone Phase = 4 // past its retention; the response is gone
)

// Row is a record as the table holds it. All times are cluster milliseconds, all
// durations milliseconds. A Row that is in a table is never changed, only replaced.
type Row struct {
	Phase       Phase
	Fingerprint string
	Attempt     uint32
	Token       uint64
	Owner       string

	Retry     bool // on_lapse
	Lease     int64
	Retention int64
	Tombstone int64

	CreatedAt   int64
	LeaseUntil  int64 // running and unknown
	GaveUp      bool  // complete(unknown) was said: its owner does not get it back
	CompletedAt int64 // completed and tombstone

	Checkpoint []byte // JSON
	Response   []byte // completed: the answer, for DecodeResponse; tombstone: its checksum
}

// StateAt returns the record's state at now. A record whose retention and
// tombstone are over is absent, whether it has been swept or not.
func (r *Row) StateAt(now int64) onced.State {
	switch {
	case r == nil:
		return onced.StateAbsent
	case r.Phase == PhaseUnknown:
		return onced.StateUnknown
	case r.Phase == PhaseRunning && now < r.LeaseUntil:
		return onced.StateInProgress
	case r.Phase == PhaseRunning && !r.Retry:
		return onced.StateUnknown
	case r.Phase == PhaseRunning && now < r.LeaseUntil+r.Retention:
		return onced.StateInProgress // lapsed: the next reserve takes over
	case r.Phase == PhaseRunning:
		return onced.StateAbsent // nobody took over within the retention
	case now < r.ExpiresAt() && r.Phase == PhaseCompleted:
		return onced.StateCompleted
	case now < r.ExpiresAt()+r.Tombstone:
		return onced.StateExpired
	}
	return onced.StateAbsent
}

// ExpiresAt is the end of a completed record's retention.
func (r *Row) ExpiresAt() int64 { return r.CompletedAt + r.Retention }

// Lapsed tells whether the lease of a running record is over at now.
func (r *Row) Lapsed(now int64) bool { return r.Phase == PhaseRunning && now >= r.LeaseUntil }

// Settled tells whether the record is completed, or was.
func (r *Row) Settled() bool { return r.Phase == PhaseCompleted || r.Phase == PhaseTombstone }

// Due is when the sweeper has to look at the record; 0 = never, as a record on hold stays
// until it is settled.
func (r *Row) Due() int64 {
	switch {
	case r.Phase == PhaseCompleted:
		return r.ExpiresAt()
	case r.Phase == PhaseTombstone:
		return r.ExpiresAt() + r.Tombstone
	case r.Phase == PhaseRunning && r.Retry:
		return r.LeaseUntil + r.Retention
	}
	return 0
}
