package fsm

import (
	"fmt"

	"onced/fsm/command"
)

// EncodeResult is r as it travels between nodes. The answer of a completed record
// travels only where it is the point: in a replay.
func EncodeResult(r Result) *command.Result {
	m := &command.Result{Outcome: uint32(r.Outcome), NowMs: r.Now}
	if row := r.Row; row != nil {
		if row.Response != nil && r.Outcome != OutcomeReplayed {
			bare := *row
			bare.Response = nil
			row = &bare
		}
		m.Row = row.Append(nil)
	}
	return m
}

// DecodeResult is the inverse of EncodeResult. Errors wrap ErrCorrupt.
func DecodeResult(m *command.Result) (Result, error) {
	r := Result{Outcome: Outcome(m.GetOutcome()), Now: m.GetNowMs()}
	if len(m.GetRow()) == 0 {
		return r, nil
	}
	row, err := DecodeRow(m.GetRow())
	if err != nil {
		return r, fmt.Errorf("decoding result: %w", err)
	}
	r.Row = row
	return r, nil
}
