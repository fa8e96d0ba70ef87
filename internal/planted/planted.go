// Package planted names bugs that can be built in on purpose, to see that scripts/chaos finds them.
//
// Invariants:
//
//   - Without the build tag planted every name here is the constant false: what hangs on it is not compiled in.
//   - With the tag, ONCED_PLANT names the one bug that is in force.
//   - Each is looked at in one place.
package planted
