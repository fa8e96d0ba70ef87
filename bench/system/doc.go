// Package system runs what is compared, each as processes of its own on loopback, with all its data below one directory.
//
// Invariants:
//
//   - Every port is one that was free a moment before.
//   - A process ends with the comparison, also when that is killed (on Linux), and is ended by its id.
//   - What cannot be had on this machine is an [Unavailable], never a system that is quietly something else.
package system
