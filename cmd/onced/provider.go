package main

import (
	"fmt"
	"time"

	"onced/internal/demo"
)

type providerCommand struct {
	Addr   string        `default:"127.0.0.1:3000" placeholder:"HOST:PORT" help:"Listens here (${default})."`
	Charge time.Duration `default:"30ms" placeholder:"DURATION" help:"How long a charge takes (${default})."`
}

// Run charges whoever asks, until a signal.
func (c *providerCommand) Run(a *app) error {
	p, err := demo.NewProvider(c.Addr, c.Charge)
	if err != nil {
		return refusal{err}
	}
	defer p.Close()
	fmt.Fprintf(a.stdout, "charging at %s/charge; GET %s/charges counts\n", p.URL(), p.URL())
	<-a.ctx.Done()
	return nil
}
