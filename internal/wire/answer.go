package wire

import (
	"fmt"
	"math"

	"onced"
)

var (
	reserveResultFields = []string{"outcome", "repeated", "key", "token", "owner", "attempt", "lease", "lease_expires_at",
		"checkpoint", "response", "completed_at", "expires_at"}
	renewedFields = []string{"lease_expires_at"}
	listFields    = []string{"records", "next_cursor"}
)

// decodeAnswer reads the one object that data is, leniently.
func decodeAnswer(data []byte, read func(s *scanner) error) error {
	s := scanner{data: data, lenient: true}
	err := read(&s)
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return fmt.Errorf("reading a node's answer: %w", err)
	}
	return nil
}

// AppendReserveResult appends the answer to a reserve: a reservation or a replay.
func AppendReserveResult(dst []byte, r onced.ReserveResult) []byte {
	if r.Replayed {
		return appendReplay(dst, r.Record)
	}
	return appendObject(dst, func(o *object) {
		o.str("outcome", "reserved")
		o.boolean("replayed", false)
		o.boolean("repeated", r.Repeated)
		o.str("key", string(r.Record.Key))
		o.integer("token", uint64(r.Record.Token))
		o.str("owner", r.Record.Owner)
		o.integer("attempt", uint64(r.Record.Attempt))
		o.duration("lease", r.Record.Lease)
		o.instant("lease_expires_at", r.Record.LeaseExpiresAt)
		if r.Record.Checkpoint != nil {
			o.raw("checkpoint", r.Record.Checkpoint)
		}
	})
}

func appendReplay(dst []byte, rec onced.Record) []byte {
	return appendObject(dst, func(o *object) {
		o.str("outcome", "replayed")
		o.boolean("replayed", true)
		o.member("response")
		response := rec.Response
		if response == nil {
			response = &onced.Response{}
		}
		o.buf = appendResponse(o.buf, response)
		o.instant("completed_at", rec.CompletedAt)
		o.instant("expires_at", rec.ExpiresAt)
	})
}

// DecodeReserveResult reads the answer to a reserve of id.
func DecodeReserveResult(data []byte, id onced.ID) (onced.ReserveResult, error) {
	result := onced.ReserveResult{Record: onced.Record{ID: id}}
	err := decodeAnswer(data, func(s *scanner) error {
		var outcome string
		_, err := s.object(reserveResultFields, func(field string) (err error) {
			switch field {
			case "outcome":
				outcome, err = s.str()
			case "repeated":
				result.Repeated, err = s.boolean()
			case "attempt":
				var n int64
				n, err = s.integer(1, math.MaxUint32)
				result.Record.Attempt = uint32(n)
			case "lease":
				result.Record.Lease, err = s.anyDuration()
			case "checkpoint":
				result.Record.Checkpoint, err = s.raw(onced.MaxCheckpoint)
			default:
				err = s.recordField(field, &result.Record)
			}
			return err
		})
		if err != nil {
			return err
		}
		return s.checkReserveResult(outcome, &result)
	})
	return result, err
}

// checkReserveResult sets what follows from the outcome. An answer without a token or
// without a response would be taken for a right that nobody gave, so it is refused.
func (s *scanner) checkReserveResult(outcome string, r *onced.ReserveResult) error {
	switch {
	case outcome == "reserved" && r.Record.Token != 0:
		r.Record.State = onced.StateInProgress
	case outcome == "replayed" && r.Record.Response != nil:
		r.Replayed, r.Record.State = true, onced.StateCompleted
	default:
		return s.fail("has the outcome %.40q: expected reserved with a token, or replayed with a response", outcome)
	}
	return nil
}

// AppendRenewed appends the answer to a renew.
func AppendRenewed(dst []byte, rec onced.Record) []byte {
	return appendObject(dst, func(o *object) { o.instant("lease_expires_at", rec.LeaseExpiresAt) })
}

// DecodeRenewed reads the answer to a renew: until when the lease holds.
func DecodeRenewed(data []byte) (onced.Instant, error) {
	var until onced.Instant
	err := decodeAnswer(data, func(s *scanner) error {
		seen, err := s.object(renewedFields, func(string) (err error) {
			until, err = s.instant()
			return err
		})
		if err != nil {
			return err
		}
		return s.missing(renewedFields, seen, "lease_expires_at", "a time")
	})
	return until, err
}

// AppendReleased appends the answer to a release of key.
func AppendReleased(dst []byte, key onced.Key) []byte {
	return appendObject(dst, func(o *object) {
		o.str("key", string(key))
		o.str("state", onced.StateAbsent.String())
	})
}

// AppendList appends a page of records.
func AppendList(dst []byte, page onced.ListResult) []byte {
	return appendObject(dst, func(o *object) {
		o.member("records")
		o.buf = append(o.buf, '[')
		for i, rec := range page.Records {
			if i > 0 {
				o.buf = append(o.buf, ',')
			}
			rec.Response = nil
			o.buf = AppendRecord(o.buf, rec)
		}
		o.buf = append(o.buf, ']')
		o.str("next_cursor", page.NextCursor)
	})
}

// DecodeList reads a page of records.
func DecodeList(data []byte) (onced.ListResult, error) {
	var page onced.ListResult
	err := decodeAnswer(data, func(s *scanner) error {
		seen, err := s.object(listFields, func(field string) (err error) {
			if field == "next_cursor" {
				page.NextCursor, err = s.str()
				return err
			}
			return s.array(func(int) error {
				rec, err := s.record()
				page.Records = append(page.Records, rec)
				return err
			})
		})
		if err != nil {
			return err
		}
		return s.missing(listFields, seen, "next_cursor", `a string, "" at the end`)
	})
	return page, err
}
