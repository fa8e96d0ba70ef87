package front

import (
	"bytes"
	"context"
	"errors"
	"strconv"
)

// Reservation is what a reserve came to: a token, or the stored answer.
type Reservation struct {
	Token  int64
	Answer []byte // the JSON of the stored response; nil = reserved
}

// Refusals of a Store.
var (
	// ErrInProgress says that somebody else holds the key.
	ErrInProgress = errors.New("request_in_progress")
	// ErrConflict says that the key was used for another request.
	ErrConflict = errors.New("idempotency_conflict")
	// ErrStaleToken says that the token is not the key's.
	ErrStaleToken = errors.New("stale_token")
)

// Store keeps the keys. It is safe for concurrent use.
//
// Errors: the refusals above; any other means that nobody knows.
type Store interface {
	// Reserve makes the key the caller's if it is not there, in one atomic step.
	Reserve(ctx context.Context, key, fingerprint string) (Reservation, error)
	// Complete stores the answer if the token still holds the key, in one atomic step.
	Complete(ctx context.Context, key string, token int64, answer []byte) error
	// Fill stores completed keys by the fastest way that the store has, leaving on its disk what a reserve and a complete of
	// each would have left.
	Fill(ctx context.Context, keys []string, fingerprint string, answer []byte) error
	// Tidy does the housekeeping that the store's operator would have it do from time to time, so that its size is
	// measured at its best.
	Tidy(ctx context.Context) error
	// Leader names the member that decides, "" where there is no such thing.
	Leader(ctx context.Context) (string, error)
	// Ready returns nil once the store answers.
	Ready(ctx context.Context) error
	Close() error
}

// A record of a store that knows only keys and values is R TOKEN \n FINGERPRINT while it is reserved, and
// C TOKEN \n FINGERPRINT \n ANSWER once it is completed.

// Held is the value of a reserved key up to its fingerprint: what a complete has to find.
func Held(token int64) string { return "R" + strconv.FormatInt(token, 10) + "\n" }

// Reserved is the value of a reserved key.
func Reserved(token int64, fingerprint string) string { return Held(token) + fingerprint }

// Completed is the value of a completed key.
func Completed(token int64, fingerprint string, answer []byte) string {
	return "C" + strconv.FormatInt(token, 10) + "\n" + fingerprint + "\n" + string(answer)
}

// Found turns the value that a reserve met into what the reserve came to.
func Found(value []byte, fingerprint string) (Reservation, error) {
	head, rest, ok := bytes.Cut(value, []byte("\n"))
	if !ok || len(head) == 0 {
		return Reservation{}, errors.New("a value that is no record")
	}
	of, answer, _ := bytes.Cut(rest, []byte("\n"))
	switch {
	case string(of) != fingerprint:
		return Reservation{}, ErrConflict
	case head[0] == 'R':
		return Reservation{}, ErrInProgress
	}
	return Reservation{Answer: answer}, nil
}
