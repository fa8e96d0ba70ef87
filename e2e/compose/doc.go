// Package compose tests the containers of docker-compose.yml as their users have them: by the project's scripts,
// with requests through the published ports of all gateways while containers are killed and cut off.
//
// Invariants:
//
//   - It runs only where scripts/compose-test starts it, which gives the containers, the image, the networks and the volumes names of
//     their own and removes them, also after a failure.
//   - The provider's ledger is the judge: it counts each request that reaches it as a charge.
//   - Load is sent until what was done to the containers is over, however long that takes on a slow machine.
package compose
