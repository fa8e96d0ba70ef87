package main

// garbageRoom is how much the heap of a server may grow, in bytes, beyond the rule of Go's collector (that it doubles) before it is collected.
// What a node keeps in Go's heap is small, so that doubling comes soon: at some thousand requests a second it would be
// collected many times a second.
const garbageRoom = 64 << 20

// roomForGarbage is memory that nobody writes to, which Go's collector counts as in use: as long as it is kept the next collection comes
// garbageRoom later. The kernel gives memory to pages that are written only, so it costs none itself, and a heap that has become large
// grows no more than by that room: a larger percentage would multiply it. nil where the environment says
// how to collect.
func roomForGarbage(env map[string]string) []byte {
	if env["GOGC"] != "" || env["GOMEMLIMIT"] != "" {
		return nil
	}
	return make([]byte, garbageRoom)
}
