package onced

import (
	"errors"
	"fmt"
	"time"
)

// Code is the machine-readable name of a problem, the `code` member of its JSON.
type Code string

// The codes of contract §4.
const (
	CodeKeyRequired       Code = "idempotency_key_required"
	CodeKeyInvalid        Code = "idempotency_key_invalid"
	CodeInvalidRequest    Code = "invalid_request"
	CodeUnauthenticated   Code = "unauthenticated"
	CodeForbidden         Code = "forbidden"
	CodeKeyNotFound       Code = "key_not_found"
	CodeRequestInProgress Code = "request_in_progress"
	CodeConflict          Code = "idempotency_conflict"
	CodeOutcomeUnknown    Code = "outcome_unknown"
	CodeKeyExpired        Code = "key_expired"
	CodeStaleToken        Code = "stale_token"
	CodeAlreadyCompleted  Code = "already_completed"
	CodeResponseTooLarge  Code = "response_too_large"
	CodeRequestTooLarge   Code = "request_too_large"
	CodeRateLimited       Code = "rate_limited"
	CodeQuotaExceeded     Code = "quota_exceeded"
	CodeResponseNotKept   Code = "response_not_kept"
	CodeUnavailable       Code = "unavailable"
)

// Advice is what the caller should do next, the `retry` member of a problem.
type Advice string

const (
	RetryFix     Advice = "fix"      // the request is wrong; mend it
	RetrySameKey Advice = "same_key" // send the same request again, later
	RetryNewKey  Advice = "new_key"  // another operation needs another key
	RetryStop    Advice = "stop"     // do not send it again
)

// CodeInfo is one row of the table of problems.
type CodeInfo struct {
	Code   Code
	Status int // HTTP status under the default contract
	Retry  Advice
	Title  string // one line for a person, the `title` member
}

// Codes is the one table from codes to status, advice and title, in the
// contract's order. It is not to be changed.
var Codes = []CodeInfo{
	{CodeKeyRequired, 400, RetryFix, "An idempotency key is required"},
	{CodeKeyInvalid, 400, RetryFix, "The idempotency key is malformed"},
	{CodeInvalidRequest, 400, RetryFix, "The request is malformed"},
	{CodeUnauthenticated, 401, RetryFix, "Credentials are missing or not known"},
	{CodeForbidden, 403, RetryFix, "These credentials may not do this"},
	{CodeKeyNotFound, 404, RetryFix, "There is no record of this key"},
	{CodeRequestInProgress, 409, RetrySameKey, "The first request with this key is still running"},
	{CodeConflict, 409, RetryNewKey, "This key was used for another request"},
	{CodeOutcomeUnknown, 409, RetrySameKey, "The operation may have happened"},
	{CodeKeyExpired, 409, RetryNewKey, "This key is past its retention"},
	{CodeStaleToken, 409, RetryStop, "This token no longer holds the reservation"},
	{CodeAlreadyCompleted, 409, RetryStop, "The record is completed already"},
	{CodeResponseTooLarge, 413, RetryFix, "The response is too large to be stored"},
	{CodeRequestTooLarge, 413, RetryFix, "The request is too large"},
	{CodeRateLimited, 429, RetrySameKey, "Too many reserves for this tenant"},
	{CodeQuotaExceeded, 429, RetrySameKey, "The tenant's table is full"},
	{CodeResponseNotKept, 409, RetryStop, "The operation is done, but its answer was not kept"},
	{CodeUnavailable, 503, RetrySameKey, "The cluster cannot decide now; nothing was started"},
}

// Info returns the table's row of c. An unknown code gets that of CodeUnavailable.
func (c Code) Info() CodeInfo {
	for _, info := range Codes {
		if info.Code == c {
			return info
		}
	}
	return CodeUnavailable.Info()
}

// Problem is a refusal: an error with a code out of Codes.
type Problem struct {
	Code       Code
	Detail     string        // a sentence for a person: what is wrong, what is expected
	RetryAfter time.Duration // 0 = none; when it makes sense to send the request again
	Record     *Record       // the record that the refusal is about, without its response; or nil
}

// Problemf returns a *Problem of code whose detail is formatted.
func Problemf(code Code, format string, args ...any) *Problem {
	return &Problem{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Error returns code and detail.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// Is lets errors.Is match on the code alone: errors.Is(err, &Problem{Code: …}).
func (p *Problem) Is(target error) bool {
	other, ok := target.(*Problem)
	return ok && other.Code == p.Code && other.Detail == ""
}

// RetryAfterSeconds is the figure for Retry-After: whole seconds, rounded up,
// at least 1; 0 when there is none.
func (p *Problem) RetryAfterSeconds() int {
	if p.RetryAfter <= 0 {
		return 0
	}
	return int((p.RetryAfter + time.Second - 1) / time.Second)
}

// AsProblem returns the Problem in err's chain. Any other error becomes
// CodeUnavailable, since an unclassified failure must never look like a "no".
func AsProblem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return &Problem{Code: CodeUnavailable, Detail: err.Error(), RetryAfter: time.Second}
}

// CodeOf returns the code of err, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsProblem(err).Code
}
