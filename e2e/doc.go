// Package e2e tests the binary from outside: three real processes on loopback, real signals
// and the HTTP API, as an operator's worst day would treat them.
//
// Invariants of the harness:
//
//   - The binary is built once for each run of the tests, with the tag faults. ONCED_E2E_RACE=1 builds it
//     with the race detector.
//   - A node's ports are held for as long as its test lasts, so that nobody else gets one while it is down.
//   - Nothing is asked of the machine's clock but how long something took.
//   - A call of the harness is sent once. What is to be sent again, a test sends again itself.
//   - Of three nodes one has a log of kind bolt, unless ONCED_E2E_LOG_STORE names the kind for all.
//   - The directories of a failed test stay, and the ends of its nodes' logs are printed.
//
// -short leaves out rounds, never a check. ONCED_E2E_LEADERS=200 has so many leaders killed behind a gateway under load.
package e2e
