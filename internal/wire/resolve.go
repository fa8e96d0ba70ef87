package wire

import "onced"

// DecodeResolve reads the body of a resolve of id. A reason is required, since the
// audit line is the only trace of why a record was settled by hand.
//
// Problems: invalid_request; response_too_large for headers over MaxHeaderBytes.
func DecodeResolve(data []byte, id onced.ID) (onced.ResolveRequest, error) {
	r := onced.ResolveRequest{ID: id}
	err := decodeCall(data, func(s *scanner) error {
		var outcome string
		seen, err := s.object(resolveFields, func(field string) (err error) {
			switch field {
			case "outcome":
				outcome, err = s.resolveOutcome()
			case "response":
				r.Response, err = s.response()
			case "reason":
				if r.Reason, err = s.str(); err == nil && r.Reason == "" {
					err = s.fail(`is "": expected why the record is settled by hand`)
				}
			case "force":
				r.Force, err = s.boolean()
			}
			return err
		})
		if err != nil {
			return err
		}
		return s.checkResolve(r, outcome, seen)
	})
	if err == nil {
		err = r.Validate()
	}
	return r, err
}

func (s *scanner) resolveOutcome() (string, error) {
	outcome, err := s.str()
	if err == nil && outcome != "completed" && outcome != "released" {
		err = s.fail(`is %.40q: expected "completed" or "released"`, outcome)
	}
	return outcome, err
}

func (s *scanner) checkResolve(r onced.ResolveRequest, outcome string, seen fieldSet) error {
	if err := s.missing(resolveFields, seen, "outcome", `"completed" or "released"`); err != nil {
		return err
	}
	switch {
	case outcome == "completed" && r.Response == nil:
		return s.fail(`lacks the member "response": expected the answer that the operation gave`)
	case outcome == "released" && r.Response != nil:
		return s.fail(`has a "response" with the outcome "released": expected one only with "completed"`)
	}
	return s.missing(resolveFields, seen, "reason", "why the record is settled by hand")
}

// AppendResolve appends the body of r to dst, in the form that DecodeResolve reads.
func AppendResolve(dst []byte, r onced.ResolveRequest) []byte {
	return appendObject(dst, func(o *object) {
		if r.Response != nil {
			o.str("outcome", "completed")
			o.member("response")
			o.buf = appendResponse(o.buf, r.Response)
		} else {
			o.str("outcome", "released")
		}
		o.str("reason", r.Reason)
		if r.Force {
			o.boolean("force", true)
		}
	})
}
