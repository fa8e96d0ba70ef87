package fsm

import (
	"fmt"

	"onced"
	"onced/fsm/command"
)

func idOf(id *command.ID) onced.ID {
	return onced.ID{Tenant: id.GetTenant(), Scope: id.GetScope(), Key: onced.Key(id.GetKey())}
}

// reserve decides in the contract's order: a tombstone, then a conflict, then
// a replay, then whose the reservation is. (Contract §2, rules 2, 3, 6.)
func (m machine) reserve(c *command.Reserve) (*Row, Outcome, error) {
	id := idOf(c.Id)
	row, err := m.Row(id)
	if err != nil {
		return nil, 0, err
	}
	state := row.StateAt(m.now)
	switch {
	case state == onced.StateAbsent && c.Takeover != 0:
		// What was to be taken over is gone, and its token with it.
		return nil, OutcomeStaleToken, nil
	case state == onced.StateAbsent:
		return m.grant(id, row, fresh(c, m.now), c)
	case state == onced.StateExpired:
		return row, OutcomeKeyExpired, nil
	case row.Fingerprint != string(c.Fingerprint):
		return row, OutcomeConflict, nil
	case state == onced.StateCompleted:
		return row, OutcomeReplayed, nil
	case row.Owner == c.Owner && c.Owner != "" && row.Phase == PhaseRunning && !row.GaveUp:
		return m.repeat(id, row, c.LeaseMs)
	case c.Takeover != 0 && c.Takeover != row.Token:
		return row, OutcomeStaleToken, nil
	case state == onced.StateInProgress && !row.Lapsed(m.now):
		return row, OutcomeInProgress, nil
	case state == onced.StateUnknown && c.Takeover == 0:
		return row, OutcomeUnknown, nil
	}
	return m.grant(id, row, takeover(row), c)
}

// fresh is the row of a key's first reservation.
func fresh(c *command.Reserve, now int64) Row {
	return Row{
		Fingerprint: string(c.Fingerprint),
		Retry:       c.Retry,
		Retention:   c.RetentionMs,
		Tombstone:   c.TombstoneMs,
		CreatedAt:   now,
	}
}

// takeover is the row of the next attempt. The policies stay those of the first reserve.
func takeover(row *Row) Row {
	next := *row
	next.GaveUp = false
	return next
}

// grant gives next to the caller, unless its owner was cancelled or the tenant is
// full. old is what the table has, present or past its time.
func (m machine) grant(id onced.ID, old *Row, next Row, c *command.Reserve) (*Row, Outcome, error) {
	until, err := m.Cancelled(id, c.Owner)
	if err != nil {
		return nil, 0, err
	}
	if until != 0 && m.now < until {
		return old, OutcomeStaleToken, nil
	}
	counts, err := m.Counts(id.Tenant)
	if err != nil {
		return nil, 0, err
	}
	if old == nil && c.MaxKeys > 0 && counts.Keys >= c.MaxKeys {
		return nil, OutcomeQuota, nil
	}
	meta := m.Meta()
	if meta.LastToken >= uint64(onced.MaxToken) {
		return nil, 0, fmt.Errorf("reserving: %w", ErrTokensExhausted)
	}
	meta.LastToken++
	next.Phase = PhaseRunning
	next.Attempt++
	next.Token, next.Owner = meta.LastToken, c.Owner
	next.Lease, next.LeaseUntil = c.LeaseMs, m.now+c.LeaseMs
	m.PutMeta(meta)
	return &next, OutcomeReserved, m.put(id, old, &next)
}

// repeat gives an owner the reservation that it has, with its lease anew.
func (m machine) repeat(id onced.ID, row *Row, lease int64) (*Row, Outcome, error) {
	next := *row
	next.Lease, next.LeaseUntil = lease, m.now+lease
	return &next, OutcomeRepeated, m.put(id, row, &next)
}

// put replaces old by row and keeps the tenant's counts.
func (m machine) put(id onced.ID, old, row *Row) error {
	keys, open := weight(row)
	oldKeys, oldOpen := weight(old)
	if keys != oldKeys || open != oldOpen {
		counts, err := m.Counts(id.Tenant)
		if err != nil {
			return err
		}
		counts.Keys += keys - oldKeys
		counts.Open += open - oldOpen
		m.PutCounts(id.Tenant, counts)
	}
	m.PutRow(id, old, row)
	return nil
}

// weight is what row adds to its tenant's counts.
func weight(row *Row) (keys, open int64) {
	switch {
	case row == nil:
		return 0, 0
	case row.Settled():
		return 1, 0
	}
	return 1, 1
}
