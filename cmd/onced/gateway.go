package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/alecthomas/kong"

	"onced"
	"onced/client"
	"onced/httpapi"
	"onced/internal/certificate"
	"onced/internal/config"
	"onced/metrics"
)

type gatewayCommand struct {
	config.Gateway
}

// Run protects an upstream until a signal.
func (c *gatewayCommand) Run(a *app, parsed *kong.Context) error {
	hangups := serveThrough()
	isSet := flagsSet(parsed)
	settings, err := config.LoadGateway(c.Gateway, isSet)
	if err != nil {
		return refusal{err}
	}
	log := newLogger(a.stderr, settings.LogLevel, settings.LogFormat)
	keeper, err := clientOf(settings, log)
	if err != nil {
		return refusal{err}
	}
	g := &companion{
		settings: settings,
		reload:   func() (config.Gateway, error) { return config.LoadGateway(c.Gateway, isSet) },
		keeper:   keeper,
		front:    front{log: log, apiName: "health", hangups: hangups},
	}
	defer runtime.KeepAlive(roomForGarbage(a.env))
	return g.run(a.ctx)
}

// returnAfter is how long after a failover the first node is tried again, by one request.
const returnAfter = 30 * time.Second

// clientOf makes the way to the nodes. Each of three has a third of a request's time before the next is asked.
func clientOf(c config.Gateway, log *slog.Logger) (*client.Client, error) {
	token, err := c.ReadToken()
	if err != nil {
		return nil, err
	}
	roots, err := certificate.Roots(c.CA)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	return client.New(client.Config{
		Nodes: c.NodeList, Token: token, RootCAs: roots,
		Timeout: c.RequestTimeout, TryTimeout: c.RequestTimeout / 3, ReturnAfter: returnAfter, Logger: log,
	})
}

// companion is one running `onced gateway`: a gateway beside the application, before a remote cluster.
type companion struct {
	settings config.Gateway
	reload   func() (config.Gateway, error) // reads the settings anew
	keeper   *client.Client
	nodes    nodesReadiness
	front
}

// run serves until ctx ends or something breaks. An error of type refusal means that
// nothing was served.
func (g *companion) run(ctx context.Context) error {
	if err := g.start(); err != nil {
		g.closePorts()
		return refusal{err}
	}
	stopHangups := watchHangups(g.hangups, g.reloadToken, g.reloadRoutes)
	defer stopHangups()
	g.announce()
	var cause error
	select {
	case <-ctx.Done():
		g.log.Info("stopping", "drain_timeout", g.settings.DrainTimeout)
	case cause = <-g.failed:
		g.log.Error("stopping after a fault", "err", cause)
	}
	return errors.Join(cause, g.stop(ctx))
}

func (g *companion) start() error {
	if err := g.bind(g.settings.HTTPAddr, g.settings.GatewayAddr); err != nil {
		return err
	}
	counters := metrics.New(metrics.Options{Registry: newRegistry(), ByTenant: g.settings.MetricsByTenant})
	g.apiServer = httpapi.NewServer(httpapi.ServerConfig{
		Addr: g.settings.HTTPAddr, RequestTimeout: g.settings.RequestTimeout, Logger: g.log,
		Handler: g.lettingGo(httpapi.NewCompanion(httpapi.CompanionConfig{Ready: g.ready, Metrics: counters, Logger: g.log})),
	})
	keeper := &remoteKeeper{Keeper: g.keeper, log: g.log}
	if err := g.openDoor(*g.settings.Gateway, doorDeps(g.log, counters, keeper, keeper, g.settings.Secret, g.settings.RequestTimeout)); err != nil {
		return err
	}
	g.begin()
	return nil
}

func (g *companion) announce() {
	g.log.Info("serving", "health", g.url(), "gateway", "http://"+g.doorPort.Addr().String(), "upstream", g.settings.Gateway.Upstream, "nodes", g.settings.Nodes)
	if g.settings.Secret == nil {
		g.log.Warn("gateway_secret_file: is not set: to a gateway that has a secret, such as a node's own, a repeat of this one's requests is another request")
	}
	if g.settings.TokenInClear() {
		g.log.Warn("the token travels in clear: a node is not on loopback and its address is not https", "nodes", g.settings.Nodes)
	}
	go g.tellNodes()
}

// tellNodes says once when no node could be asked for anything.
func (g *companion) tellNodes() {
	switch err := g.keeper.Ready(context.Background(), true); onced.CodeOf(err) {
	case "":
		g.log.Info("a node is ready, and takes this gateway's credentials")
	case onced.CodeUnavailable:
		g.log.Warn("no node is ready yet: protected requests are refused until one is", "err", err)
	default:
		g.log.Error(refusedCredentials, "err", err)
	}
}

// ready tells /readyz whether requests are wanted here: not while stopping, else what the nodes say.
func (g *companion) ready() error {
	if g.stopping.Load() {
		return errStopping
	}
	return g.nodes.ask(func(ctx context.Context) error { return g.keeper.Ready(ctx, true) })
}

// closeWithin bounds the last step, in which what the client owes the cluster is done.
const closeWithin = 10 * time.Second

// stop ends the parts in order: the requests first, then the way to the nodes.
func (g *companion) stop(ctx context.Context) error {
	err := g.end(ctx, g.settings.DrainTimeout)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if closeErr := g.keeper.Close(closing); closeErr != nil {
		g.log.Warn("owners are left without their cancel", "err", closeErr)
	}
	if err == nil {
		g.log.Info("stopped")
	}
	return err
}

// reloadToken puts the token of its file in force, whatever becomes of the other settings. A broken file
// leaves the old one in force.
func (g *companion) reloadToken() {
	if g.settings.TokenFile == "" {
		return
	}
	token, err := g.settings.ReadToken()
	if err == nil {
		err = g.keeper.UseToken(token)
	}
	if err != nil {
		g.log.Error("reload: the old token stays in force", "err", err)
		return
	}
	g.log.Info("reload: the token is in force")
	g.tellNodes()
}

// reloadRoutes puts the file's routes in force. A broken file leaves the old ones.
func (g *companion) reloadRoutes() {
	next, err := g.reload()
	if err != nil {
		g.log.Error("reload: the old settings stay in force", "err", err)
		return
	}
	g.useRoutes(next.Gateway, needRestart(g.settings, next))
}
