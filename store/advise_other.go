//go:build !linux

package store

// forget does nothing here.
func forget(uintptr) {}
