// Command bench compares onced with what users run today: etcd, Redis and PostgreSQL behind the same thin HTTP front, on one
// machine, in one run. README.md says how, and what each figure means.
//
// Invariants:
//
//   - The systems run one at a time, on the same disk, and take turns: what the machine does meanwhile meets all alike.
//   - What could not be run or went wrong is said, in the report too, and never left out of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"onced/bench/front"
	"onced/bench/front/postgres"
	"onced/bench/front/redis"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(usageError)):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "front" {
		return serveFront(ctx, args[1:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.from != "" {
		return again(o)
	}
	return compare(ctx, o)
}

// connections is how many the front keeps to its store at most.
const connections = 64

// serveFront is the front as a process of its own: KIND ADDR CHARGE TARGET.
func serveFront(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("front: expected KIND ADDR CHARGE TARGET, not %q", args)
	}
	charge, err := time.ParseDuration(args[2])
	if err != nil {
		return fmt.Errorf("front: %w", err)
	}
	var store front.Store
	switch args[0] {
	case "memory":
		store = front.NewMemory()
	case "redis":
		store = redis.Open(args[3], connections)
	case "postgres":
		if store, err = postgres.Open(ctx, args[3], connections); err != nil {
			return err
		}
	default:
		return fmt.Errorf("front: no store %q", args[0])
	}
	return front.Serve(ctx, args[1], store, charge)
}
