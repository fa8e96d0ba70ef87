//go:build race

package cluster_test

import "time"

// hour is what the tests in virtual time call an hour: under the race detector it is short, as it makes what
// happens in one ten times as slow.
const hour = 20 * time.Minute

// someSeeds is how many seeds TestSeeds tries unless it is told.
const someSeeds = 2
