package propose

import (
	"errors"
	"fmt"
)

var (
	// ErrNotApplied means that this try is not in the log and never will be. The Log and the
	// Forwarder wrap it for what they know was not taken.
	ErrNotApplied = errors.New("the command was not applied")
	// ErrUnknown means that this try may be in the log, or may come to be. Asking again with the
	// same owner or token tells.
	ErrUnknown = errors.New("the command's fate is not known")

	// ErrOverloaded means that the queue, here or on the leader, is full.
	ErrOverloaded = fmt.Errorf("too many commands are waiting: %w", ErrNotApplied)
	// ErrNoLeader means that no leader is known, or that leadership went elsewhere.
	ErrNoLeader = fmt.Errorf("there is no leader to take it: %w", ErrNotApplied)
	// ErrTooLate means that the caller's time was over before the command was written.
	ErrTooLate = fmt.Errorf("its time was over before it was written: %w", ErrNotApplied)
	// ErrClosed means that this node is shutting down.
	ErrClosed = fmt.Errorf("%w: %w", errShutdown, ErrNotApplied)
	// ErrBadCommand means that the command can never be applied as it is.
	ErrBadCommand = errors.New("the command is malformed")

	// errShutdown says nothing of the fate.
	errShutdown = errors.New("this node is shutting down")
	// errUnderWay ends a command that was under way when the node shut down.
	errUnderWay = fmt.Errorf("%w: %w", ErrUnknown, errShutdown)
	// errRefusedLater ends a reserve of which a later try was refused: the refusal says nothing of the earlier one.
	errRefusedLater = fmt.Errorf("%w: a later try was refused", ErrUnknown)
	// errCancelsPending refuses reserves while what earlier ones left is not cleared away.
	errCancelsPending = fmt.Errorf("too many owners wait to be cancelled: %w", ErrOverloaded)
)

// classified is err as one of the first two sentinels: what nobody vouches for is unknown.
func classified(err error) error {
	if errors.Is(err, ErrNotApplied) != errors.Is(err, ErrUnknown) {
		return err
	}
	return fmt.Errorf("%w: %v", ErrUnknown, err)
}

// GaveUp is the end of a Submit without a result.
type GaveUp struct {
	// Unknown tells that a try may have been applied, or may yet be.
	Unknown bool
	// Last is what the last try came to.
	Last error
	// Cause is the context's error, or nil when the queue was full.
	Cause error
}

// Error says how far it came.
func (g *GaveUp) Error() string {
	fate := "nothing was applied"
	if g.Unknown {
		fate = "it may have been applied"
	}
	if g.Cause == nil {
		return fmt.Sprintf("gave up, %s: %v", fate, g.Last)
	}
	return fmt.Sprintf("gave up, %s: %v (last try: %v)", fate, g.Cause, g.Last)
}

// Unwrap lets errors.Is see the last try and the context's error.
func (g *GaveUp) Unwrap() []error {
	if g.Cause == nil {
		return []error{g.Last}
	}
	return []error{g.Last, g.Cause}
}
