package wire

import (
	"errors"

	"onced"
)

// The members that each call takes.
var (
	reserveFields  = []string{"fingerprint", "owner", "lease", "retention", "tombstone", "on_lapse", "wait", "takeover"}
	completeFields = []string{"token", "response", "outcome", "retention"}
	releaseFields  = []string{"token", "owner"}
	renewFields    = []string{"token", "lease", "checkpoint"}
	resolveFields  = []string{"outcome", "response", "reason", "force"}
)

const tokenExpected = "the integer that reserve gave"

// decodeCall reads the one object that data is, strictly. Its errors are problems: those
// of the members as they are, anything else as invalid_request.
func decodeCall(data []byte, read func(s *scanner) error) error {
	s := scanner{data: data}
	if s.peek(); s.pos == len(s.data) {
		return onced.Problemf(onced.CodeInvalidRequest, "the body is empty: expected a JSON object")
	}
	err := read(&s)
	if err == nil {
		err = s.end()
	}
	return asInvalid(err)
}

// asInvalid turns the fault of a member into a problem, and leaves other errors as they are.
func asInvalid(err error) error {
	var shape *shapeError
	if errors.As(err, &shape) {
		return onced.Problemf(onced.CodeInvalidRequest, "%s", shape.text)
	}
	return err
}

// DecodeReserve reads the body of a reserve of id. Durations that it does not name are 0.
//
// Problems: invalid_request, which names the member and what is expected.
func DecodeReserve(data []byte, id onced.ID) (onced.ReserveRequest, error) {
	r := onced.ReserveRequest{ID: id}
	err := decodeCall(data, func(s *scanner) error {
		seen, err := s.object(reserveFields, func(field string) error { return s.reserveField(field, &r) })
		if err != nil {
			return err
		}
		return s.missing(reserveFields, seen, "fingerprint", `a string, which may be ""`)
	})
	if err == nil {
		err = r.WithDefaults().Validate()
	}
	return r, err
}

func (s *scanner) reserveField(field string, r *onced.ReserveRequest) (err error) {
	switch field {
	case "fingerprint":
		r.Fingerprint, err = s.str()
	case "owner":
		r.Owner, err = s.str()
	case "lease":
		r.Lease, err = s.duration(onced.MinLease, onced.MaxLease)
	case "retention":
		r.Retention, err = s.duration(onced.MinRetention, onced.MaxRetention)
	case "tombstone":
		r.Tombstone, err = s.duration(0, onced.MaxTombstone)
	case "on_lapse":
		r.OnLapse, err = s.onLapse()
	case "wait":
		r.Wait, err = s.duration(0, onced.MaxWait)
	case "takeover":
		r.Takeover, err = s.token()
	}
	return err
}

// onLapse reads the name of a policy, which is never "".
func (s *scanner) onLapse() (onced.OnLapse, error) {
	name, err := s.str()
	if err != nil {
		return 0, err
	}
	policy, err := onced.ParseOnLapse(name)
	if err != nil || name == "" {
		return 0, s.fail("is %.40q: expected hold or retry", name)
	}
	return policy, nil
}

// AppendReserve appends the body of r to dst, in the form that DecodeReserve reads.
func AppendReserve(dst []byte, r onced.ReserveRequest) []byte {
	return appendObject(dst, func(o *object) {
		o.str("fingerprint", r.Fingerprint)
		if r.Owner != "" {
			o.str("owner", r.Owner)
		}
		if r.Lease != 0 {
			o.duration("lease", r.Lease)
		}
		if r.Retention != 0 {
			o.duration("retention", r.Retention)
		}
		if r.Tombstone != 0 {
			o.duration("tombstone", r.Tombstone)
		}
		if r.OnLapse != onced.Hold {
			o.str("on_lapse", r.OnLapse.String())
		}
		if r.Wait != 0 {
			o.duration("wait", r.Wait)
		}
		if r.Takeover != 0 {
			o.integer("takeover", uint64(r.Takeover))
		}
	})
}

// DecodeComplete reads the body of a complete of id.
//
// Problems: invalid_request; response_too_large for headers over MaxHeaderBytes. The size of
// the response's body is for the caller to judge.
func DecodeComplete(data []byte, id onced.ID) (onced.CompleteRequest, error) {
	r := onced.CompleteRequest{ID: id}
	err := decodeCall(data, func(s *scanner) error {
		seen, err := s.object(completeFields, func(field string) error { return s.completeField(field, &r) })
		if err != nil {
			return err
		}
		return s.missing(completeFields, seen, "token", tokenExpected)
	})
	if err == nil {
		err = r.Validate()
	}
	return r, err
}

func (s *scanner) completeField(field string, r *onced.CompleteRequest) (err error) {
	switch field {
	case "token":
		r.Token, err = s.token()
	case "response":
		r.Response, err = s.response()
	case "outcome":
		var outcome string
		if outcome, err = s.str(); err == nil && outcome != "unknown" {
			err = s.fail(`is %.40q: expected "unknown", or a "response" instead`, outcome)
		}
		r.Unknown = true
	case "retention":
		r.Retention, err = s.duration(onced.MinRetention, onced.MaxRetention)
	}
	return err
}

// AppendComplete appends the body of r to dst, in the form that DecodeComplete reads.
func AppendComplete(dst []byte, r onced.CompleteRequest) []byte {
	return appendObject(dst, func(o *object) {
		o.integer("token", uint64(r.Token))
		if r.Unknown {
			o.str("outcome", "unknown")
		}
		if r.Response != nil {
			o.member("response")
			o.buf = appendResponse(o.buf, r.Response)
		}
		if r.Retention != 0 {
			o.duration("retention", r.Retention)
		}
	})
}

// DecodeRelease reads the body of a release of id.
//
// Problems: invalid_request.
func DecodeRelease(data []byte, id onced.ID) (onced.ReleaseRequest, error) {
	r := onced.ReleaseRequest{ID: id}
	err := decodeCall(data, func(s *scanner) error {
		_, err := s.object(releaseFields, func(field string) error { return s.releaseField(field, &r) })
		return err
	})
	if err == nil {
		err = r.Validate()
	}
	return r, err
}

func (s *scanner) releaseField(field string, r *onced.ReleaseRequest) (err error) {
	switch field {
	case "token":
		r.Token, err = s.token()
	case "owner":
		if r.Owner, err = s.str(); err == nil && r.Owner == "" {
			err = s.fail(`is "": expected the owner whose reserve is cancelled`)
		}
	}
	return err
}

// AppendRelease appends the body of r to dst, in the form that DecodeRelease reads.
func AppendRelease(dst []byte, r onced.ReleaseRequest) []byte {
	return appendObject(dst, func(o *object) {
		if r.Token != 0 {
			o.integer("token", uint64(r.Token))
		}
		if r.Owner != "" {
			o.str("owner", r.Owner)
		}
	})
}

// DecodeRenew reads the body of a renew of id. The checkpoint keeps its bytes as they were written.
//
// Problems: invalid_request.
func DecodeRenew(data []byte, id onced.ID) (onced.RenewRequest, error) {
	r := onced.RenewRequest{ID: id}
	err := decodeCall(data, func(s *scanner) error {
		seen, err := s.object(renewFields, func(field string) error { return s.renewField(field, &r) })
		if err != nil {
			return err
		}
		return s.missing(renewFields, seen, "token", tokenExpected)
	})
	if err == nil {
		err = r.Validate()
	}
	return r, err
}

func (s *scanner) renewField(field string, r *onced.RenewRequest) (err error) {
	switch field {
	case "token":
		r.Token, err = s.token()
	case "lease":
		r.Lease, err = s.duration(onced.MinLease, onced.MaxLease)
	case "checkpoint":
		r.Checkpoint, err = s.raw(onced.MaxCheckpoint)
	}
	return err
}

// AppendRenew appends the body of r to dst, in the form that DecodeRenew reads.
func AppendRenew(dst []byte, r onced.RenewRequest) []byte {
	return appendObject(dst, func(o *object) {
		o.integer("token", uint64(r.Token))
		if r.Lease != 0 {
			o.duration("lease", r.Lease)
		}
		if r.Checkpoint != nil {
			o.raw("checkpoint", r.Checkpoint)
		}
	})
}
