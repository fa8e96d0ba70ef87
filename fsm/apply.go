package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"onced"
	"onced/fsm/command"
)

// Version is the version of the log's language that this release writes, and the
// newest it reads.
const Version = 1

var (
	// ErrUnknownCommand means that a newer release wrote the entry. The node must
	// stop: skipping it would make its table drift.
	ErrUnknownCommand = errors.New("command of a newer release")
	// ErrDiverged means that this table's history is not the majority's. The node must stop.
	ErrDiverged = errors.New("this node's table differs from the majority's")
	// ErrTokensExhausted means that 2^53 tokens have been given out.
	ErrTokensExhausted = errors.New("tokens exhausted")
)

// DecodeEntry reads the data of a log entry. An entry that holds anything this
// release does not know is ErrUnknownCommand.
func DecodeEntry(data []byte) (*command.Entry, error) {
	e := new(command.Entry)
	if err := proto.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("decoding log entry: %w: %w", err, ErrCorrupt)
	}
	if e.Version > Version || len(e.ProtoReflect().GetUnknown()) > 0 {
		return nil, fmt.Errorf("decoding log entry: version %d, this release reads %d: %w", e.Version, Version, ErrUnknownCommand)
	}
	for i, c := range e.Commands {
		if c.Kind == nil || len(c.ProtoReflect().GetUnknown()) > 0 {
			return nil, fmt.Errorf("decoding log entry: command %d: %w", i, ErrUnknownCommand)
		}
	}
	return e, nil
}

// Apply runs the commands of the entry at index in their order and returns a
// result for each. On an error nothing of tx may be committed.
func Apply(tx Tx, index uint64, e *command.Entry) ([]Result, error) {
	h := &historian{Tx: tx}
	start := tx.Meta()
	h.begin(start.History, index, e.StampMs)
	meta := start
	meta.Clock = max(meta.Clock, e.StampMs)
	tx.PutMeta(meta)
	results := make([]Result, len(e.Commands))
	for i, c := range e.Commands {
		var err error
		if results[i], err = Step(h, index, c); err != nil {
			return nil, fmt.Errorf("applying command %d of entry %d: %w", i, index, err)
		}
		h.outcome(results[i].Outcome)
	}
	meta = tx.Meta()
	meta.History = h.sum()
	tx.PutMeta(meta)
	return results, nil
}

// Step decides one command at the clock of tx and writes what it changes.
func Step(tx Tx, index uint64, c *command.Command) (Result, error) {
	m := machine{Tx: tx, now: tx.Meta().Clock, index: index}
	if c.NotAfterMs != 0 && m.now > c.NotAfterMs {
		return Result{Outcome: OutcomeLate, Now: m.now}, nil
	}
	row, outcome, err := m.step(c)
	return Result{Outcome: outcome, Row: row, Now: m.now}, err
}

// machine is one Step: a transaction and the time it is decided at.
type machine struct {
	Tx
	now   int64
	index uint64
}

func (m machine) step(c *command.Command) (*Row, Outcome, error) {
	switch k := c.Kind.(type) {
	case *command.Command_Reserve:
		return m.reserve(k.Reserve)
	case *command.Command_Complete:
		return m.complete(k.Complete)
	case *command.Command_Release:
		return m.release(k.Release)
	case *command.Command_Cancel:
		return m.cancel(k.Cancel)
	case *command.Command_Renew:
		return m.renew(k.Renew)
	case *command.Command_Resolve:
		return m.resolve(k.Resolve)
	case *command.Command_Forget:
		return m.forget(k.Forget)
	case *command.Command_Expire:
		return nil, OutcomeDone, m.expire(k.Expire)
	case *command.Command_Mark:
		return nil, OutcomeDone, m.mark()
	case *command.Command_Verdict:
		return nil, OutcomeDone, m.verdict(k.Verdict)
	case *command.Command_Found:
		return nil, OutcomeDone, m.found(k.Found)
	case *command.Command_Tick:
		return nil, OutcomeDone, nil // Apply has moved the clock
	}
	return nil, 0, ErrUnknownCommand
}

// historian folds every write of an entry into the table's history, so that two
// nodes whose tables ever differed have different checksums from then on.
type historian struct {
	Tx
	digest  xxhash.Digest
	scratch []byte
}

func (h *historian) begin(history, index uint64, stamp int64) {
	h.digest.Reset()
	h.fold(func(b []byte) []byte {
		b = binary.LittleEndian.AppendUint64(b, history)
		b = binary.LittleEndian.AppendUint64(b, index)
		return binary.LittleEndian.AppendUint64(b, uint64(stamp))
	})
}

func (h *historian) fold(encode func([]byte) []byte) {
	h.scratch = encode(h.scratch[:0])
	h.digest.Write(h.scratch) // never errs
}

func (h *historian) sum() uint64 { return h.digest.Sum64() }

func (h *historian) outcome(o Outcome) {
	h.fold(func(b []byte) []byte { return append(b, 'o', byte(o)) })
}

func appendID(b []byte, id onced.ID) []byte {
	return appendBytes(appendBytes(appendBytes(b, id.Tenant), id.Scope), id.Key)
}

// PutRow is part of Tx.
func (h *historian) PutRow(id onced.ID, old, row *Row) {
	h.fold(func(b []byte) []byte {
		b = appendID(append(b, 'r'), id)
		if row == nil {
			return b
		}
		return row.Append(b)
	})
	h.Tx.PutRow(id, old, row)
}

// PutCancel is part of Tx.
func (h *historian) PutCancel(id onced.ID, owner string, old, until int64) {
	h.fold(func(b []byte) []byte {
		b = appendBytes(appendID(append(b, 'x'), id), owner)
		return binary.AppendVarint(b, until)
	})
	h.Tx.PutCancel(id, owner, old, until)
}
