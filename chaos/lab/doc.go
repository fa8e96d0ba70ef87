// Package lab is a cluster of three real processes that somebody can harm: each in a network namespace of its
// own where the machine allows it, on a disk of its own, with a clock of its own.
//
// Invariants:
//
//   - Everything that a lab makes is gone with the process that made it: the nodes by the kernel's word, the
//     namespaces, links and mounts with the namespaces of the process itself ([Enter]).
//   - Of containers nothing is left after [Cluster.End]. They are those of docker-compose.yml, of the shipped image.
//   - Where there are no namespaces the nodes listen on loopback, and only what can be done to processes is done.
//   - A node that ends without having been harmed is remembered: [Cluster.Odd].
//   - The addresses of the APIs and gateways belong to a seat, and stay when another node takes it. The address
//     of the cluster port does not: a vote that is meant for the old one must not reach the new one.
package lab
