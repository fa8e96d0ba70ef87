package fsm

import (
	"fmt"

	"onced"
	"onced/fsm/command"
)

// The verbs of an operator and of the cluster itself.

// seen returns the record for an operator's verb, and OutcomeDone when it is still
// the one that the operator saw.
func (m machine) seen(id onced.ID, token uint64) (*Row, Outcome, error) {
	row, err := m.held(id)
	switch {
	case err != nil:
		return nil, 0, err
	case row == nil:
		return nil, OutcomeKeyNotFound, nil
	case row.Token != token:
		return row, OutcomeStaleToken, nil
	}
	return row, OutcomeDone, nil
}

// CancelMemoryMs is how long a cancelled owner is remembered, in milliseconds of
// cluster time: far beyond any deadline of a request (10 s, and a wait of 60 s), so that no late try of
// the owner can still be under way. Commands that cancel carry it; what an operator
// releases or deletes cancels its owner for as long.
const CancelMemoryMs = 3_600_000

func (m machine) resolve(c *command.Resolve) (*Row, Outcome, error) {
	id := idOf(c.Id)
	row, outcome, err := m.seen(id, c.SawToken)
	switch {
	case err != nil || outcome != OutcomeDone:
		return row, outcome, err
	case row.Settled():
		return row, sameAnswer(row, c.Response), nil
	case row.StateAt(m.now) == onced.StateInProgress && !c.Force:
		return row, OutcomeInProgress, nil
	case c.Response == nil:
		return nil, OutcomeDone, m.free(id, row, CancelMemoryMs)
	}
	next := settled(row, c.Response, m.now)
	return next, OutcomeDone, m.put(id, row, next)
}

func (m machine) forget(c *command.Forget) (*Row, Outcome, error) {
	id := idOf(c.Id)
	row, outcome, err := m.seen(id, c.SawToken)
	switch {
	case err != nil || outcome != OutcomeDone:
		return row, outcome, err
	case row.Settled():
		return nil, OutcomeDone, m.put(id, row, nil)
	case !c.Force && row.StateAt(m.now) == onced.StateInProgress:
		return row, OutcomeInProgress, nil
	case !c.Force:
		return row, OutcomeUnknown, nil
	}
	return nil, OutcomeDone, m.free(id, row, CancelMemoryMs)
}

// expire removes up to c.Limit things whose time is over. What a record is at a
// given time never depends on it: it only frees room.
func (m machine) expire(c *command.Expire) error {
	items, err := m.Due(m.now, int(c.Limit))
	if err != nil {
		return err
	}
	for _, item := range items {
		if item.Owner != "" {
			m.PutCancel(item.ID, item.Owner, item.At, 0)
			continue
		}
		row, err := m.Row(item.ID)
		if err != nil {
			return err
		}
		if row == nil || row.Due() != item.At {
			return fmt.Errorf("expiring: the due index names a record that is not due then: %w", ErrCorrupt)
		}
		if err := m.put(item.ID, row, m.remains(row)); err != nil {
			return err
		}
	}
	return nil
}

// remains is what is left of a due row: its tombstone, or nothing.
func (m machine) remains(row *Row) *Row {
	if row.Phase != PhaseCompleted || m.now >= row.ExpiresAt()+row.Tombstone {
		return nil
	}
	next := *row
	next.Phase = PhaseTombstone
	next.Response = checksum(row.Response)
	return &next
}

func (m machine) mark() error {
	meta := m.Meta()
	meta.MarkIndex, meta.MarkHistory = m.index, meta.History
	m.PutMeta(meta)
	return nil
}

// verdict stops a node whose history at the mark is not the majority's. A mark that
// this table has forgotten (it came by a snapshot, or a newer mark has been made) says nothing.
func (m machine) verdict(c *command.Verdict) error {
	meta := m.Meta()
	if meta.MarkIndex == c.MarkIndex && meta.MarkHistory != c.History {
		return fmt.Errorf("checksum at entry %d is %016x, the majority has %016x: %w",
			c.MarkIndex, meta.MarkHistory, c.History, ErrDiverged)
	}
	return nil
}

func (m machine) found(c *command.Found) error {
	meta := m.Meta()
	switch meta.ClusterID {
	case "":
		meta.ClusterID = c.ClusterId
		meta.LastToken = max(meta.LastToken, c.FirstToken)
		m.PutMeta(meta)
		return nil
	case c.ClusterId:
		return nil
	}
	return fmt.Errorf("founding: this is the table of cluster %s, not of %s: %w", meta.ClusterID, c.ClusterId, ErrCorrupt)
}
