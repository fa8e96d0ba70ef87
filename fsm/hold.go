package fsm

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"onced"
	"onced/fsm/command"
)

// The writes of a holder: each carries its token, and only the record's current
// token changes anything. (Contract §2, rules 2 and 3.)

// held returns the record for a write by token. A record whose time is over is nil,
// swept or not, so that the sweeper's pace decides nothing.
func (m machine) held(id onced.ID) (*Row, error) {
	row, err := m.Row(id)
	if err != nil || row.StateAt(m.now) == onced.StateAbsent {
		return nil, err
	}
	return row, nil
}

func (m machine) complete(c *command.Complete) (*Row, Outcome, error) {
	id := idOf(c.Id)
	row, err := m.held(id)
	switch {
	case err != nil:
		return nil, 0, err
	case row == nil || row.Token != c.Token:
		return row, OutcomeStaleToken, nil
	case row.Settled():
		return row, sameAnswer(row, c.Response), nil
	case c.Response == nil:
		return m.giveUp(id, row)
	}
	next := settled(row, c.Response, m.now)
	if c.RetentionMs != 0 {
		next.Retention = c.RetentionMs
	}
	return next, OutcomeDone, m.put(id, row, next)
}

// settled is row, completed with an answer at now. The tombstone and the fingerprint stay,
// what served the running operation goes.
func settled(row *Row, answer *command.Response, now int64) *Row {
	next := *row
	next.Phase = PhaseCompleted
	next.CompletedAt = now
	next.Response = appendResponse(nil, answer)
	next.Checkpoint, next.GaveUp = nil, false
	return &next
}

// sameAnswer is the outcome of completing a settled record again.
func sameAnswer(row *Row, answer *command.Response) Outcome {
	if answer == nil {
		return OutcomeAlreadyCompleted
	}
	encoded := appendResponse(nil, answer)
	if row.Phase == PhaseTombstone {
		encoded = checksum(encoded)
	}
	if !bytes.Equal(encoded, row.Response) {
		return OutcomeAlreadyCompleted
	}
	return OutcomeDone
}

// checksum is what a tombstone keeps of an answer.
func checksum(encoded []byte) []byte {
	return binary.BigEndian.AppendUint64(nil, xxhash.Sum64(encoded))
}

// giveUp is complete(unknown): under hold the record waits to be settled, under
// retry the lease ends at once and the next reserve, whoever's, takes over.
func (m machine) giveUp(id onced.ID, row *Row) (*Row, Outcome, error) {
	if row.GaveUp {
		return row, OutcomeDone, nil
	}
	next := *row
	next.GaveUp = true
	if row.Retry {
		next.LeaseUntil = min(row.LeaseUntil, m.now)
	} else {
		next.Phase = PhaseUnknown
	}
	return &next, OutcomeDone, m.put(id, row, &next)
}

func (m machine) release(c *command.Release) (*Row, Outcome, error) {
	id := idOf(c.Id)
	row, err := m.held(id)
	switch {
	case err != nil:
		return nil, 0, err
	case row == nil:
		return nil, OutcomeDone, nil
	case row.Token != c.Token:
		return row, OutcomeStaleToken, nil
	case row.Settled():
		return row, OutcomeAlreadyCompleted, nil
	}
	return nil, OutcomeDone, m.free(id, row, c.RememberMs)
}

// free makes the key unused, and sees to it that a late try of its last owner gets nothing.
func (m machine) free(id onced.ID, row *Row, remember int64) error {
	if err := m.remember(id, row.Owner, remember); err != nil {
		return err
	}
	return m.put(id, row, nil)
}

// remember keeps owner cancelled until remember milliseconds from now.
func (m machine) remember(id onced.ID, owner string, remember int64) error {
	old, err := m.Cancelled(id, owner)
	if err != nil {
		return err
	}
	if until := m.now + remember; until > old && remember > 0 {
		m.PutCancel(id, owner, old, until)
	}
	return nil
}

// cancel takes back whatever owner asked for. An outcome that owner declared unknown is not
// a reservation any more, and stays.
func (m machine) cancel(c *command.Cancel) (*Row, Outcome, error) {
	id := idOf(c.Id)
	row, err := m.held(id)
	if err != nil {
		return nil, 0, err
	}
	if row != nil && row.Phase == PhaseRunning && !row.GaveUp && row.Owner == c.Owner {
		return nil, OutcomeDone, m.free(id, row, c.RememberMs)
	}
	return row, OutcomeDone, m.remember(id, c.Owner, c.RememberMs)
}

func (m machine) renew(c *command.Renew) (*Row, Outcome, error) {
	id := idOf(c.Id)
	row, err := m.held(id)
	switch {
	case err != nil:
		return nil, 0, err
	case row == nil || row.Token != c.Token:
		return row, OutcomeStaleToken, nil
	case row.Settled():
		return row, OutcomeAlreadyCompleted, nil
	case row.GaveUp:
		return row, OutcomeUnknown, nil
	}
	next := *row
	if c.LeaseMs != 0 {
		next.Lease = c.LeaseMs
	}
	next.LeaseUntil = m.now + next.Lease
	if c.SetCheckpoint {
		next.Checkpoint = append([]byte{}, c.Checkpoint...)
	}
	return &next, OutcomeDone, m.put(id, row, &next)
}
