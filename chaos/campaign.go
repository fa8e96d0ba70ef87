//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"onced/chaos/check"
	"onced/chaos/history"
	"onced/chaos/lab"
	"onced/chaos/load"
	"onced/chaos/nemesis"
	"onced/internal/demo"
	"onced/internal/progress"
)

// requestTimeout is how long a node tries to have a call decided: shorter than most faults, so that giving up is
// tried too.
const requestTimeout = 2 * time.Second

// mostRounds is how many rounds a cluster lives where the kinds of log take turns: long enough for logs and snapshots
// to grow.
const mostRounds = 4

// campaign is rounds of load and harm, each followed by every check. It is on one cluster or, where the kinds of log take turns, on one
// after the other.
type campaign struct {
	options
	faults []nemesis.Fault
	dir    string

	cluster  *lab.Cluster
	clusters int
	provider *demo.Provider              // nil with containers, which have their own
	nemeses  map[string]*nemesis.Nemesis // by kind of log: each does every fault
	tell     *progress.Bar
	begun    time.Time
	usable   []string // faults
	leftOut  []string // faults

	rounds  int
	calls   int
	harmed  int
	sums    map[string]*sum // by kind of log
	past    []string        // remarks on clusters of before
	remarks []string        // on this one
	found   []check.Finding
}

// run runs the campaign and reports.
func (c *campaign) run(ctx context.Context) error {
	defer c.close()
	if err := c.start(ctx); err != nil {
		if c.cluster != nil && !errors.Is(err, errImpossible) {
			c.Keep = true
			return fmt.Errorf("starting the cluster: %w; the logs are in %s", err, c.dir)
		}
		return err
	}
	for c.left() > 0 && ctx.Err() == nil && len(c.found) == 0 {
		if err := c.turn(ctx); err != nil {
			return err
		}
		if err := c.round(ctx); err != nil {
			return err
		}
		if err := c.out(); err != nil {
			return err
		}
	}
	c.tell.Finish()
	c.report(os.Stdout, c.result())
	if c.Verdict != "" {
		if err := c.tellVerdict(); err != nil {
			return err
		}
	}
	if len(c.found) > 0 {
		return errViolation
	}
	return nil
}

// out writes what is known by now to where it is asked for.
func (c *campaign) out() error {
	if c.Out == "" {
		return nil
	}
	return c.result().write(c.Out)
}

// kinds are the kinds of log that take turns.
func (c *campaign) kinds() []string {
	if c.LogStore == "both" {
		return []string{"bolt", "wal"}
	}
	return []string{c.LogStore}
}

// clusterDir makes the next cluster's directory.
func (c *campaign) clusterDir() (string, error) {
	c.clusters++
	dir := filepath.Join(c.dir, fmt.Sprintf("cluster-%d", c.clusters))
	return dir, os.Mkdir(dir, 0o700)
}

// lives is for how many rounds a cluster lives, such that each kind has its turn in a short run too.
func lives(duration, round time.Duration) int { return min(max(1, int(duration/round)/4), mostRounds) }

// turn goes on with a new cluster of the other kind of log, where its turn has come.
func (c *campaign) turn(ctx context.Context) error {
	kinds := c.kinds()
	if len(kinds) < 2 || c.rounds == 0 || c.rounds%lives(c.Duration, c.Round) != 0 {
		return nil
	}
	dir, err := c.clusterDir()
	if err != nil {
		return err
	}
	old := c.cluster
	c.past, c.remarks = append(c.past, c.remarks...), nil
	if c.cluster, err = old.Next(dir, kinds[(c.clusters-1)%len(kinds)]); err == nil {
		err = c.ready(ctx)
	}
	if err != nil {
		c.Keep = true
		return fmt.Errorf("starting the next cluster: %w; the logs are in %s", err, dir)
	}
	if !c.Keep && !c.Compose {
		return os.RemoveAll(old.Dir)
	}
	return nil
}

// ready starts the cluster.
func (c *campaign) ready(ctx context.Context) error {
	if err := c.cluster.Start(); err != nil {
		return err
	}
	return c.cluster.Ready(ctx, time.Minute)
}

func (c *campaign) left() time.Duration { return c.Duration - time.Since(c.begun) }

// start starts the provider and the cluster.
func (c *campaign) start(ctx context.Context) (err error) {
	c.tell = progress.New(os.Stderr)
	if c.Long {
		c.tell.Slowly(longEvery)
	}
	if err := c.layOut(); err != nil {
		return err
	}
	usable, not := nemesis.Usable(c.cluster, c.faults)
	if len(usable) == 0 {
		return fmt.Errorf("%w: none of these faults", errImpossible)
	}
	fmt.Printf("seed %d, %d faults, log %s, in %s\n", c.Seed, len(usable), strings.Join(c.kinds(), " and "), c.dir)
	cannot := "this machine cannot do it"
	if c.Compose {
		cannot = "it is not done to containers"
	}
	for _, f := range not {
		fmt.Printf("LEFT OUT, %s: %s (%s)\n", cannot, f.Name, f.About)
		c.leftOut = append(c.leftOut, f.Name)
	}
	for _, f := range usable {
		c.usable = append(c.usable, f.Name)
	}
	if err := c.ready(ctx); err != nil {
		return err
	}
	c.begun = time.Now()
	c.nemeses, c.sums = map[string]*nemesis.Nemesis{}, map[string]*sum{}
	for _, kind := range c.kinds() {
		c.sums[kind] = &sum{}
		c.nemeses[kind] = &nemesis.Nemesis{Faults: usable, Seed: c.Seed, Mixed: c.Mixed, AloneFirst: c.Long, Say: c.say}
	}
	return nil
}

// layOut lays the first cluster out, and the service behind it.
func (c *campaign) layOut() error {
	dir, err := c.clusterDir()
	if err != nil {
		return err
	}
	o := lab.Options{Binary: c.Binary, Dir: dir, RequestTimeout: requestTimeout, Seed: c.Seed, LogStore: c.kinds()[0]}
	if c.Plant != "" {
		o.Env = append(o.Env, "ONCED_PLANT="+c.Plant)
	}
	if c.Compose {
		fmt.Println("building the image, and starting its containers")
		c.cluster, err = lab.NewContained(o)
		return err
	}
	if c.cluster, err = lab.New(o); err != nil {
		return err
	}
	c.provider, err = demo.NewProvider(net.JoinHostPort(lab.HostIP(), "3000"), 15*time.Millisecond)
	return err
}

// longEvery is how long it is from one line to the next in an hour's run, which tells no faults one by one.
const longEvery = 10 * time.Second

// say tells a fault.
func (c *campaign) say(text string) {
	if !c.Long {
		c.tell.Say("%8s  %s", c.at(), text)
	}
}

// at is how far the campaign is, for people.
func (c *campaign) at() string { return time.Since(c.begun).Round(100 * time.Millisecond).String() }

// close ends the nodes. What was found stays.
func (c *campaign) close() {
	if c.cluster != nil {
		c.cluster.End()
	}
	if c.provider != nil {
		c.provider.Close()
	}
	if len(c.found) == 0 && !c.Keep {
		remove(c.dir)
	}
}

// round harms the cluster under load, heals it, and checks everything.
func (c *campaign) round(ctx context.Context) error {
	c.rounds++
	began, kind := time.Now(), c.cluster.LogStore
	book, nemesis, sum := history.NewBook(c.begun), c.nemeses[kind], c.sums[kind]
	nemesis.Book, nemesis.Cluster = book, c.cluster
	round, end := context.WithTimeout(ctx, min(c.Round, max(c.left(), 5*time.Second)))
	defer end()
	// The clients work until the last fault is healed: else nobody would see how long its pause was.
	work, rest := context.WithCancel(context.WithoutCancel(ctx))
	defer rest()
	clients := &load.Load{
		Book: book, Round: fmt.Sprintf("r%d", c.rounds), Seed: c.Seed*1000 + uint64(c.rounds), Scale: c.Clients,
		Doors: load.Doors{APIs: c.cluster.APIs(), Gates: c.cluster.Gates(), Who: c.who},
	}
	var found []check.Finding
	var working sync.WaitGroup
	working.Go(func() { clients.Run(work) })
	working.Go(func() {
		defer rest()
		found = nemesis.Run(round)
		sum.stops = append(sum.stops, book.Now())
	})
	c.watch(round, book)
	working.Wait()
	c.tell.Finish()
	found = append(found, c.judge(context.WithoutCancel(ctx), clients)...)
	c.calls += book.Count()
	c.harmed += len(book.Windows)
	sum.rounds++
	sum.lasted += time.Since(began)
	sum.calls += book.Count()
	sum.writes = append(sum.writes, book.Writes...)
	sum.windows = append(sum.windows, book.Windows...)
	sum.violations += len(found)
	if !c.Long || len(found) > 0 {
		c.tell.Say("%8s  round %d, log %s, is checked: %d violations", c.at(), c.rounds, kind, len(found))
	}
	if len(found) > 0 {
		return c.keep(book, found)
	}
	return nil
}

// who has a seat, and how often it was started.
func (c *campaign) who(seat int) (string, int) {
	n := c.cluster.Nodes()[seat]
	return n.ID, n.Lives()
}

// watch tells how far it is until the round ends.
func (c *campaign) watch(round context.Context, book *history.Book) {
	c.tell.Begin(fmt.Sprintf("round %d", c.rounds), "calls")
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-round.Done():
			return
		case <-tick.C:
		}
		part := 1 - float64(c.left())/float64(c.Duration)
		c.tell.Tell(min(part, 0.999), fmt.Sprintf("%s of %s, log %s, %s calls, %d times harmed, no violation", time.Since(c.begun).Round(time.Second),
			c.Duration, c.cluster.LogStore, progress.Thousands(c.calls+book.Count()), c.harmed+book.Harmed()))
	}
}

// keep writes down what is known of a round that failed, and draws the keys in question.
func (c *campaign) keep(book *history.Book, found []check.Finding) error {
	c.found = append(c.found, found...)
	dir := filepath.Join(c.dir, "violation")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := book.Keep(dir); err != nil {
		return err
	}
	seed := fmt.Sprintf("seed %d, round %d\n%s\n", c.Seed, c.rounds, c.again())
	for _, f := range found {
		seed += f.String() + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "findings.txt"), []byte(seed), 0o600); err != nil {
		return err
	}
	return c.draw(dir, book, found)
}
