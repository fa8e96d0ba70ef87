// Command etcd is what the comparison needs of etcd, built from its Go module: a member, and the front before three of them. It is a
// program of its own so that nothing else of the comparison is built with etcd's modules.
//
//	etcd node NAME CLIENT-ADDR PEER-ADDR NAME=PEER-ADDR,... DIR
//	etcd front ADDR CHARGE NAME=CLIENT-ADDR,...
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"onced/bench/front"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 6 && args[0] == "node":
		return node(ctx, args[1], args[2], args[3], args[4], args[5])
	case len(args) == 4 && args[0] == "front":
		charge, err := time.ParseDuration(args[2])
		if err != nil {
			return err
		}
		store, err := open(strings.Split(args[3], ","))
		if err != nil {
			return err
		}
		return front.Serve(ctx, args[1], store, charge)
	}
	return fmt.Errorf("expected node or front with its arguments, not %q", args)
}

// node runs one member, with etcd's own settings, until ctx ends.
func node(ctx context.Context, name, client, peer, members, dir string) error {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.LogLevel = name, dir, "warn"
	listen := func(addr string) []url.URL { return []url.URL{{Scheme: "http", Host: addr}} }
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = listen(client), listen(client)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = listen(peer), listen(peer)
	cfg.InitialCluster = strings.NewReplacer("=", "=http://").Replace(members)
	cfg.QuotaBackendBytes = 16 << 30 // five million keys are more than its default
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting the member: %w", err)
	}
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return err
	}
}
