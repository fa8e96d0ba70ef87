// Command onced runs a node of an onced cluster, shows what it is for, and asks
// a running cluster how it is.
//
// Invariants:
//
//   - Exit code 0: done. 1: it was tried and failed. 2: refused before anything was
//     started, by bad settings or an unsafe state, with one line on stderr.
//   - Everything a command reads of its surroundings comes through [run]'s arguments.
//   - The first SIGINT or SIGTERM asks a command to end in order; a second one ends it at once.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	first, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, end := context.WithCancel(context.Background())
	context.AfterFunc(first, func() {
		stop() // from here on a signal has its usual effect
		end()  // and only then does the command hear of the first
	})
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
