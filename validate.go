package onced

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// WithDefaults returns r with its zero durations replaced by the defaults.
func (r ReserveRequest) WithDefaults() ReserveRequest {
	if r.Lease == 0 {
		r.Lease = DefaultLease
	}
	if r.Retention == 0 {
		r.Retention = DefaultRetention
	}
	return r
}

// Validate returns a CodeInvalidRequest problem that names the first argument
// out of its bounds. It judges r after WithDefaults.
func (r ReserveRequest) Validate() error {
	return firstProblem(
		checkID(r.ID),
		checkText("fingerprint", r.Fingerprint, MaxFingerprint),
		checkText("owner", r.Owner, MaxOwner),
		checkDuration("lease", r.Lease, MinLease, MaxLease),
		checkDuration("retention", r.Retention, MinRetention, MaxRetention),
		checkDuration("tombstone", r.Tombstone, 0, MaxTombstone),
		checkDuration("wait", r.Wait, 0, MaxWait),
		checkToken("takeover", r.Takeover, true),
	)
}

// Validate returns a CodeInvalidRequest problem for the first argument that is wrong.
func (r CompleteRequest) Validate() error {
	if r.Unknown == (r.Response != nil) {
		return Problemf(CodeInvalidRequest, `a complete needs either "response" or "outcome":"unknown", not both`)
	}
	return firstProblem(checkID(r.ID), checkToken("token", r.Token, false), r.Response.validate(),
		checkOptional("retention", r.Retention, MinRetention, MaxRetention))
}

// Validate returns a CodeInvalidRequest problem for the first argument that is wrong.
func (r ReleaseRequest) Validate() error {
	if (r.Token == 0) == (r.Owner == "") {
		return Problemf(CodeInvalidRequest, `a release needs either "token" or "owner", not both`)
	}
	return firstProblem(checkID(r.ID), checkToken("token", r.Token, true), checkText("owner", r.Owner, MaxOwner))
}

// Validate returns a CodeInvalidRequest problem for the first argument that is wrong.
func (r RenewRequest) Validate() error {
	if len(r.Checkpoint) > MaxCheckpoint {
		return Problemf(CodeInvalidRequest, "checkpoint has %d bytes; at most %d are taken", len(r.Checkpoint), MaxCheckpoint)
	}
	if r.Checkpoint != nil && !json.Valid(r.Checkpoint) {
		return Problemf(CodeInvalidRequest, "checkpoint is not JSON")
	}
	return firstProblem(checkID(r.ID), checkToken("token", r.Token, false), checkOptional("lease", r.Lease, MinLease, MaxLease))
}

// Validate returns a CodeInvalidRequest problem for the first argument that is wrong.
func (r ResolveRequest) Validate() error {
	return firstProblem(checkID(r.ID), checkText("reason", r.Reason, MaxReason), r.Response.validate())
}

func (r *Response) validate() error {
	switch {
	case r == nil:
		return nil
	case r.Status < 100 || r.Status > 599:
		return Problemf(CodeInvalidRequest, "the response's status is %d: expected 100 to 599", r.Status)
	case r.BodyOmitted && len(r.Body) > 0:
		return Problemf(CodeInvalidRequest, `the response has a body and "body_omitted":true`)
	case r.Reference != "" && !r.BodyOmitted:
		return Problemf(CodeInvalidRequest, `the response has a "reference" without "body_omitted":true`)
	}
	return nil
}

func checkID(id ID) error {
	_, err := KeyFromPath(string(id.Key))
	return firstProblem(CheckTenant(id.Tenant), CheckScope(id.Scope), err)
}

func checkText(name, value string, max int) error {
	if len(value) > max {
		return Problemf(CodeInvalidRequest, "%s has %d bytes; at most %d are taken", name, len(value), max)
	}
	if !utf8.ValidString(value) {
		return Problemf(CodeInvalidRequest, "%s is not valid UTF-8", name)
	}
	return nil
}

func checkDuration(name string, d, min, max time.Duration) error {
	if d < min || d > max {
		return Problemf(CodeInvalidRequest, "%s is %s: expected %s to %s", name, d, min, max)
	}
	return nil
}

func checkOptional(name string, d, min, max time.Duration) error {
	if d == 0 {
		return nil
	}
	return checkDuration(name, d, min, max)
}

func checkToken(name string, t Token, optional bool) error {
	if t > MaxToken || t == 0 && !optional {
		return Problemf(CodeInvalidRequest, "%s is %d: expected an integer from 1 to 2^53-1", name, t)
	}
	return nil
}

func firstProblem(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
