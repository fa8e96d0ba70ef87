package wire

import (
	"math"

	"onced"
)

var recordFields = []string{"key", "scope", "tenant", "state", "fingerprint", "attempt", "token", "owner",
	"created_at", "lease_expires_at", "completed_at", "expires_at", "response"}

// AppendRecord appends rec to dst, with its response if it carries one. Of a record
// that is absent only its name and its state are there.
func AppendRecord(dst []byte, rec onced.Record) []byte {
	return appendObject(dst, func(o *object) {
		o.str("key", string(rec.Key))
		o.str("scope", rec.Scope)
		o.str("tenant", rec.Tenant)
		o.str("state", rec.State.String())
		if rec.State == onced.StateAbsent {
			return
		}
		o.str("fingerprint", rec.Fingerprint)
		o.integer("attempt", uint64(rec.Attempt))
		o.integer("token", uint64(rec.Token))
		o.str("owner", rec.Owner)
		o.instant("created_at", rec.CreatedAt)
		switch rec.State {
		case onced.StateCompleted, onced.StateExpired:
			o.instant("completed_at", rec.CompletedAt)
			o.instant("expires_at", rec.ExpiresAt)
		default:
			o.instant("lease_expires_at", rec.LeaseExpiresAt)
		}
		if rec.Response != nil {
			o.member("response")
			o.buf = appendResponse(o.buf, rec.Response)
		}
	})
}

// DecodeRecord reads a record out of an answer. What the API does not tell of it is zero.
func DecodeRecord(data []byte) (onced.Record, error) {
	var rec onced.Record
	err := decodeAnswer(data, func(s *scanner) (err error) {
		rec, err = s.record()
		return err
	})
	return rec, err
}

func (s *scanner) record() (onced.Record, error) {
	var rec onced.Record
	seen, err := s.object(recordFields, func(field string) error { return s.recordField(field, &rec) })
	if err != nil {
		return rec, err
	}
	if err := s.missing(recordFields, seen, "key", "the record's key"); err != nil {
		return rec, err
	}
	return rec, s.missing(recordFields, seen, "state", "the record's state")
}

func (s *scanner) recordField(field string, rec *onced.Record) (err error) {
	switch field {
	case "key":
		var key string
		key, err = s.str()
		rec.Key = onced.Key(key)
	case "scope":
		rec.Scope, err = s.str()
	case "tenant":
		rec.Tenant, err = s.str()
	case "state":
		var name string
		if name, err = s.str(); err == nil {
			rec.State, err = onced.ParseState(name)
		}
	case "fingerprint":
		rec.Fingerprint, err = s.str()
	case "attempt":
		var n int64
		n, err = s.integer(0, math.MaxUint32)
		rec.Attempt = uint32(n)
	case "token":
		rec.Token, err = s.token()
	case "owner":
		rec.Owner, err = s.str()
	case "created_at":
		rec.CreatedAt, err = s.instant()
	case "lease_expires_at":
		rec.LeaseExpiresAt, err = s.instant()
	case "completed_at":
		rec.CompletedAt, err = s.instant()
	case "expires_at":
		rec.ExpiresAt, err = s.instant()
	case "response":
		rec.Response, err = s.response()
	}
	return err
}
