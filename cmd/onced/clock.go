//go:build !faults

package main

import "time"

// wallClock is the machine's clock.
func wallClock(map[string]string) (func() time.Time, error) { return time.Now, nil }
