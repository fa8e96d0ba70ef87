//go:build faults

package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// wallClock is a clock that is wrong by ONCED_FAULT_CLOCK_OFFSET, or as the file says that ONCED_FAULT_CLOCK names, in
// builds for tests of wrong clocks only.
func wallClock(env map[string]string) (func() time.Time, error) {
	if file, ok := env["ONCED_FAULT_CLOCK"]; ok {
		return (&wrongClock{file: file}).now, nil
	}
	said, ok := env["ONCED_FAULT_CLOCK_OFFSET"]
	if !ok {
		return time.Now, nil
	}
	offset, err := time.ParseDuration(said)
	if err != nil {
		return nil, fmt.Errorf("ONCED_FAULT_CLOCK_OFFSET: %w", err)
	}
	return func() time.Time { return time.Now().Add(offset) }, nil
}

// wrongClock reads how wrong it is out of a file while the node runs: an offset, by which share it is fast, and
// since when, in nanoseconds since the Unix epoch. Without the file it is right.
type wrongClock struct {
	file string

	mu     sync.Mutex
	looked time.Time
	offset time.Duration
	drift  float64
	since  time.Time
}

// lookEvery is how often the file is read.
const lookEvery = 20 * time.Millisecond

func (c *wrongClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) > lookEvery {
		c.looked = now
		c.look()
	}
	return now.Add(c.offset + time.Duration(c.drift*float64(now.Sub(c.since))))
}

func (c *wrongClock) look() {
	c.offset, c.drift = 0, 0
	raw, err := os.ReadFile(c.file)
	if err != nil {
		return
	}
	var offset string
	var drift float64
	var since int64
	if _, err := fmt.Fscan(strings.NewReader(string(raw)), &offset, &drift, &since); err != nil {
		return
	}
	if d, err := time.ParseDuration(offset); err == nil {
		c.offset, c.drift, c.since = d, drift, time.Unix(0, since)
	}
}
