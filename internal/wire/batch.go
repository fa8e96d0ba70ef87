package wire

import "onced"

// MaxOperations is how many operations a batch may have.
const MaxOperations = 1000

// Operation is one operation of a batch.
type Operation struct {
	// Request is a onced.ReserveRequest, CompleteRequest, ReleaseRequest or RenewRequest; nil
	// where Err says what is wrong with it.
	Request any
	Err     error // a problem: this operation is malformed, which is nothing to the others
}

var (
	batchFields = []string{"operations"}
	headFields  = []string{"op", "key", "scope"}

	opReserveFields  = append(headFields[:3:3], reserveFields...)
	opCompleteFields = append(headFields[:3:3], completeFields...)
	opReleaseFields  = append(headFields[:3:3], releaseFields...)
	opRenewFields    = append(headFields[:3:3], renewFields...)
)

// DecodeBatch reads the body of a batch of tenant. Its error refuses the batch as a whole: it is
// not JSON, not a batch, or has more than MaxOperations. What is wrong with one operation is that
// operation's Err.
func DecodeBatch(data []byte, tenant string) ([]Operation, error) {
	var operations []Operation
	err := decodeCall(data, func(s *scanner) error {
		seen, err := s.object(batchFields, func(string) error {
			return s.array(func(i int) error {
				if i == MaxOperations {
					s.path = s.path[:len("operations")]
					return s.fail("has more than %d elements: expected at most that many in a batch", MaxOperations)
				}
				operation, err := s.operation(tenant)
				operations = append(operations, operation)
				return err
			})
		})
		if err != nil {
			return err
		}
		return s.missing(batchFields, seen, "operations", "an array")
	})
	return operations, err
}

// operation reads one operation. Its own error means that the batch is no JSON.
func (s *scanner) operation(tenant string) (Operation, error) {
	s.peek()
	start := s.pos
	if err := s.skip(0); err != nil {
		return Operation{}, err
	}
	part := scanner{data: s.data[start:s.pos], path: append([]byte(nil), s.path...)}
	request, err := part.request(tenant)
	if err != nil {
		return Operation{Err: asInvalid(err)}, nil
	}
	return Operation{Request: request}, nil
}

// request reads the one operation that s.data is: first which it is and of which key, then,
// strictly, the members of that call.
func (s *scanner) request(tenant string) (any, error) {
	op, id, err := s.head(tenant)
	if err != nil {
		return nil, err
	}
	s.pos = 0
	switch op {
	case "reserve":
		return s.opReserve(id)
	case "complete":
		r := onced.CompleteRequest{ID: id}
		err = s.members(opCompleteFields, "token", tokenExpected, func(field string) error { return s.completeField(field, &r) })
		return r, firstError(err, r.Validate)
	case "release":
		r := onced.ReleaseRequest{ID: id}
		err = s.members(opReleaseFields, "", "", func(field string) error { return s.releaseField(field, &r) })
		return r, firstError(err, r.Validate)
	case "renew":
		r := onced.RenewRequest{ID: id}
		err = s.members(opRenewFields, "token", tokenExpected, func(field string) error { return s.renewField(field, &r) })
		return r, firstError(err, r.Validate)
	}
	s.push(".", "op")
	return nil, s.fail("is %.40q: expected reserve, complete, release or renew", op)
}

func (s *scanner) opReserve(id onced.ID) (any, error) {
	r := onced.ReserveRequest{ID: id}
	err := s.members(opReserveFields, "fingerprint", `a string, which may be ""`, func(field string) error {
		if field == "wait" {
			return s.fail("is there: expected no wait in a batch, which is answered as soon as each of its operations is")
		}
		return s.reserveField(field, &r)
	})
	return r, firstError(err, r.WithDefaults().Validate)
}

func firstError(err error, validate func() error) error {
	if err != nil {
		return err
	}
	return validate()
}

// head reads the members that every operation has, wherever they stand.
func (s *scanner) head(tenant string) (op string, id onced.ID, err error) {
	id.Tenant = tenant
	var key string
	s.lenient = true // members that only some operations have are judged later
	seen, err := s.object(headFields, func(field string) (err error) {
		switch field {
		case "op":
			op, err = s.str()
		case "key":
			key, err = s.str()
		case "scope":
			id.Scope, err = s.str()
		}
		return err
	})
	s.lenient = false
	if err != nil {
		return "", id, err
	}
	if err := s.missing(headFields, seen, "op", "reserve, complete, release or renew"); err != nil {
		return "", id, err
	}
	if !seen.has(indexOf(headFields, []byte("key"))) {
		return "", id, onced.Problemf(onced.CodeKeyRequired, "%q has no member \"key\"", s.path)
	}
	if id.Key, err = onced.KeyFromPath(key); err != nil {
		return "", id, err
	}
	return op, id, onced.CheckScope(id.Scope)
}

// members reads the operation anew, strictly. required is the member that it must have, "" for none.
func (s *scanner) members(fields []string, required, expected string, read func(field string) error) error {
	seen, err := s.object(fields, func(field string) error {
		switch field {
		case "op", "key", "scope": // read already
			return s.skip(0)
		}
		return read(field)
	})
	if err != nil || required == "" {
		return err
	}
	return s.missing(fields, seen, required, expected)
}

// AppendBatch appends the body of a batch, in the form that DecodeBatch reads. A batch does
// not wait: the Wait of a reserve is left out.
func AppendBatch(dst []byte, operations []Operation) []byte {
	return appendObject(dst, func(o *object) {
		o.member("operations")
		o.buf = append(o.buf, '[')
		for i, operation := range operations {
			if i > 0 {
				o.buf = append(o.buf, ',')
			}
			o.buf = appendOperation(o.buf, operation.Request)
		}
		o.buf = append(o.buf, ']')
	})
}

func appendOperation(dst []byte, request any) []byte {
	var op string
	var id onced.ID
	var body []byte
	switch r := request.(type) {
	case onced.ReserveRequest:
		r.Wait = 0
		op, id, body = "reserve", r.ID, AppendReserve(nil, r)
	case onced.CompleteRequest:
		op, id, body = "complete", r.ID, AppendComplete(nil, r)
	case onced.ReleaseRequest:
		op, id, body = "release", r.ID, AppendRelease(nil, r)
	case onced.RenewRequest:
		op, id, body = "renew", r.ID, AppendRenew(nil, r)
	}
	return appendObject(dst, func(o *object) {
		o.str("op", op)
		o.str("key", string(id.Key))
		if id.Scope != "" {
			o.str("scope", id.Scope)
		}
		o.buf = append(o.buf, ',')
		o.buf = append(o.buf, body[1:len(body)-1]...) // a call that is valid has at least one member
	})
}
