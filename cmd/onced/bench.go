package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"onced"
	"onced/client"
	"onced/internal/load"
	"onced/internal/progress"
)

type benchCommand struct {
	clusterFlags
	Mode        benchMode     `default:"pairs" placeholder:"MODE" help:"pairs: reserve and complete new keys; replays: reserve completed ones; mixed: one after the other (${default})."`
	Duration    time.Duration `default:"10s" placeholder:"DURATION" help:"How long (${default})."`
	Concurrency int           `default:"64" placeholder:"N" help:"Callers at once (${default})."`
	BodyBytes   int           `default:"300" placeholder:"N" help:"Size of each stored answer's body (${default})."`
	Retention   time.Duration `default:"10m" placeholder:"DURATION" help:"How long the cluster keeps the keys (${default})."`
}

// benchMode is a load.Mode.
type benchMode string

func (*benchMode) choices() []string { return load.Modes }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *benchMode) UnmarshalText(text []byte) error {
	*m = benchMode(text)
	return oneOf(string(text), load.Modes)
}

// Run loads the cluster and prints what was measured, also when it is interrupted.
func (c *benchCommand) Run(a *app) error {
	o := load.Options{Mode: load.Mode(c.Mode), Duration: c.Duration, Concurrency: c.Concurrency, BodyBytes: c.BodyBytes, Retention: c.Retention}
	if err := o.Validate(); err != nil {
		return refusal{err}
	}
	// Whether there is a cluster at all is asked once, by the shortest way.
	err := c.ask(a, func(ctx context.Context, k *client.Client) error {
		_, err := k.List(ctx, onced.ListRequest{Tenant: c.Tenant, Limit: 1})
		return err
	})
	if err != nil {
		return err
	}
	clients, end, err := c.clients()
	if err != nil {
		return refusal{err}
	}
	result, err := load.Run(a.ctx, o, c.Tenant, clients, progress.New(a.stderr))
	end()
	interrupted := err != nil && a.ctx.Err() != nil && errors.Is(err, context.Canceled)
	if err != nil && !interrupted {
		return told(a, err)
	}
	if err := c.printResult(a, result); err != nil {
		return err
	}
	if interrupted {
		return fmt.Errorf("interrupted after %.1f s", result.Seconds)
	}
	return told(a, result.Err())
}

func (c *benchCommand) printResult(a *app, r load.Result) error {
	if c.Output.json() {
		return r.WriteJSON(a.stdout)
	}
	return r.WriteTable(a.stdout)
}

// clients returns one client for each node that prefers it, so that callers who take them in
// turn load all nodes alike. They share their connections.
func (c *benchCommand) clients() ([]onced.Keeper, func(), error) {
	cfg, err := c.config()
	if err != nil {
		return nil, nil, err
	}
	transport := client.NewTransport(cfg.RootCAs)
	cfg.RootCAs = nil // they are the transport's
	transport.MaxIdleConnsPerHost = max(transport.MaxIdleConnsPerHost, c.Concurrency)
	cfg.Rounds, cfg.Transport, cfg.ReturnAfter = 0, http.RoundTripper(transport), time.Second
	var all []*client.Client
	var keepers []onced.Keeper
	nodes := cfg.Nodes
	for i := range nodes {
		cfg.Nodes = append(append([]string(nil), nodes[i:]...), nodes[:i]...)
		k, err := client.New(cfg)
		if err != nil {
			return nil, nil, err
		}
		all, keepers = append(all, k), append(keepers, k)
	}
	return keepers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
		defer cancel()
		for _, k := range all {
			// A cancel that is not done in time is of a key that ends by itself.
			_ = k.Close(ctx)
		}
		transport.CloseIdleConnections()
	}, nil
}
