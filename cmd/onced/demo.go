package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"onced/internal/demo"
)

type demoCommand struct {
	Keys        int           `default:"8000" placeholder:"N" help:"Operations (${default})."`
	Repeats     int           `default:"4000" placeholder:"N" help:"Requests beyond the first of each key (${default})."`
	Charge      time.Duration `default:"30ms" placeholder:"DURATION" help:"How long the provider takes for a charge (${default})."`
	Concurrency int           `default:"64" placeholder:"N" help:"Clients at once (${default})."`
	Kill        bool          `help:"SIGKILL the leader half-way and start it again."`
	Keep        bool          `help:"Leave the cluster running at the end, until Ctrl-C."`
}

// Run runs the demo with this very binary as the nodes.
func (c *demoCommand) Run(a *app) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this binary: %w", err)
	}
	o := demo.Options{
		Binary: binary, Keys: c.Keys, Repeats: c.Repeats, Charge: c.Charge,
		Concurrency: c.Concurrency, Kill: c.Kill, Keep: c.Keep,
	}
	if err := o.Validate(); err != nil {
		return refusal{err}
	}
	ctx, stop := signal.NotifyContext(a.ctx, syscall.SIGHUP) // a closed terminal ends the nodes too
	defer stop()
	err = demo.Run(ctx, o, a.stdout, a.stderr)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return errors.New("interrupted; the nodes are stopped")
	}
	return err
}
