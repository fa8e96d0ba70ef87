//go:build !planted

package planted

// The bugs; see on.go.
const (
	AckBeforeCommit = false
	NoTokenCheck    = false
	LocalClock      = false
	StaleRead       = false
	IndexApart      = false
	NewOwner        = false
	Ghost           = false
	ForwardTwice    = false
)
