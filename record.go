package onced

import (
	"fmt"
	"time"
)

// Instant is a point in cluster time: milliseconds since the Unix epoch, as
// stamped by a leader on a log entry. Zero means "none".
type Instant int64

// Time returns i in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add returns i moved by d, which is cut to whole milliseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Sub returns i-j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i-j) * time.Millisecond }

// InstantOf returns t as an Instant, cut to whole milliseconds.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Token is a fencing token: larger for every later reservation in the cluster,
// and below 2^53 so that it survives a JSON number. Zero is no token.
type Token uint64

// MaxToken is the largest token.
const MaxToken Token = 1<<53 - 1

// State is what a record is at some cluster time.
type State uint8

// The states of contract §2. Absent is the state of a key that has no record.
const (
	StateAbsent State = iota
	StateInProgress
	StateCompleted
	StateUnknown
	StateExpired // past its retention, under its tombstone
)

var stateNames = [...]string{"absent", "in_progress", "completed", "unknown", "expired"}

// String returns the state's name in the API.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseState is the inverse of State.String.
func ParseState(name string) (State, error) {
	for i, n := range stateNames {
		if n == name {
			return State(i), nil
		}
	}
	return 0, Problemf(CodeInvalidRequest, "%.40q is no state: expected in_progress, completed, unknown or expired", name)
}

// OnLapse says what becomes of a reservation whose lease is over.
type OnLapse uint8

const (
	// Hold makes the record unknown: at most once. The default.
	Hold OnLapse = iota
	// Retry lets the next reserve take over: at least once.
	Retry
)

// String returns the policy's name in the API.
func (o OnLapse) String() string {
	if o == Retry {
		return "retry"
	}
	return "hold"
}

// ParseOnLapse is the inverse of OnLapse.String; "" is Hold.
func ParseOnLapse(name string) (OnLapse, error) {
	switch name {
	case "", "hold":
		return Hold, nil
	case "retry":
		return Retry, nil
	}
	return 0, Problemf(CodeInvalidRequest, "on_lapse is %.40q: expected hold or retry", name)
}

// Record is what the table holds of one (tenant, scope, key), seen at one
// cluster time.
type Record struct {
	ID
	State       State
	Fingerprint string
	Attempt     uint32
	Token       Token
	Owner       string

	OnLapse   OnLapse
	Lease     time.Duration // as last granted
	Retention time.Duration
	Tombstone time.Duration

	CreatedAt      Instant // of the first reservation
	LeaseExpiresAt Instant // while in_progress or unknown
	CompletedAt    Instant // once completed
	ExpiresAt      Instant // end of retention, once completed

	Checkpoint []byte    // JSON, or nil
	Response   *Response // once completed, where the call asked for it
}

// Response is the stored answer of an operation.
type Response struct {
	Status      int      // HTTP status, 100–599
	Headers     []Header // in their order, one element per line
	Body        []byte
	BodyOmitted bool   // the operation is done but its body is not kept
	Reference   string // where an omitted body is kept, or ""
}

// Header is one header line.
type Header struct{ Name, Value string }

// Bytes is the size of r that the limit on responses counts: its body.
func (r *Response) Bytes() int {
	if r == nil {
		return 0
	}
	return len(r.Body)
}

// Equal tells whether r and o are the same answer.
func (r *Response) Equal(o *Response) bool {
	if r == nil || o == nil {
		return r == o
	}
	if r.Status != o.Status || r.BodyOmitted != o.BodyOmitted || r.Reference != o.Reference ||
		string(r.Body) != string(o.Body) || len(r.Headers) != len(o.Headers) {
		return false
	}
	for i := range r.Headers {
		if r.Headers[i] != o.Headers[i] {
			return false
		}
	}
	return true
}
