// Package demo shows what onced is for: it starts three real nodes and a payment
// provider that counts its charges, sends the same keyed requests more than once
// through all three gateways, and holds what the clients were told against what
// the provider did. Then it does the same without onced.
//
// Invariants:
//
//   - The provider's count is the judge. It counts a charge whatever becomes of
//     the connection, and it never looks for duplicates.
//   - Clients do what the contract asks of them and no more: the same key, the
//     advice of the `retry` member, the pause of Retry-After.
//   - A key that is charged twice, lost, or answered in two ways makes [Run] fail. An
//     outcome that nobody can know is counted and explained, never guessed.
//   - Every process that Run started has ended when Run returns.
package demo
