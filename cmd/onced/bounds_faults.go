//go:build faults

package main

import (
	"fmt"
	"strconv"
)

// logBounds are small bounds by ONCED_FAULT_SNAPSHOT_BYTES and ONCED_FAULT_TRAILING_BYTES, in
// builds for tests in which a node that was away needs a snapshot.
func logBounds(env map[string]string) (b bounds, err error) {
	for name, bound := range map[string]*int64{"ONCED_FAULT_SNAPSHOT_BYTES": &b.snapshot, "ONCED_FAULT_TRAILING_BYTES": &b.trailing} {
		if said, ok := env[name]; ok {
			if *bound, err = strconv.ParseInt(said, 10, 64); err != nil {
				return bounds{}, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return b, nil
}
