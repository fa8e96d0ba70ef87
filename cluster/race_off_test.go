//go:build !race

package cluster_test

import "time"

// hour is what the tests in virtual time call an hour.
const hour = time.Hour

// someSeeds is how many seeds TestSeeds tries unless it is told.
const someSeeds = 6
