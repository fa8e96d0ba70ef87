//go:build !faults

package main

// diskFault is what makes a write to the disk err or stall: nothing does.
func diskFault(map[string]string) func(step string) error { return nil }
