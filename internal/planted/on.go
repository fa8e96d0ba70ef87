//go:build planted

package planted

import "os"

var plant = os.Getenv("ONCED_PLANT")

// The bugs.
var (
	AckBeforeCommit = plant == "ack-before-commit" // a complete is acknowledged before a majority has it
	NoTokenCheck    = plant == "no-token-check"    // a complete is taken with any token
	LocalClock      = plant == "local-clock"       // a leader's own clock is the cluster's time
	StaleRead       = plant == "stale-read"        // a read does not ask the leader how far it is
	IndexApart      = plant == "index-apart"       // the applied index is written apart from its data
	NewOwner        = plant == "new-owner"         // a reserve that is tried again has another owner
	Ghost           = plant == "ghost"             // what a reserve that was given up may have got is not taken back
	ForwardTwice    = plant == "forward-twice"     // the gateway sends some operations twice
)
