package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"onced/internal/progress"
)

// Options say how large the demo is.
type Options struct {
	Binary      string        // the onced binary that is started as nodes
	Keys        int           // operations
	Repeats     int           // requests beyond the first of each key
	Charge      time.Duration // how long the provider takes for a charge
	Concurrency int           // clients at once
	Kill        bool          // SIGKILL the leader half-way and start it again
	Keep        bool          // leave the cluster running at the end, until ctx ends
}

// Validate returns an error of one line that names the first option out of its bounds.
func (o Options) Validate() error {
	for _, n := range []struct {
		name            string
		value, min, max int
	}{
		{"keys", o.Keys, 1, 1_000_000},
		{"repeats", o.Repeats, 0, 10_000_000},
		{"concurrency", o.Concurrency, 1, 4096},
	} {
		if n.value < n.min || n.value > n.max {
			return fmt.Errorf("--%s: is %d: expected %d to %d", n.name, n.value, n.min, n.max)
		}
	}
	if o.Charge < 0 || o.Charge > 10*time.Second {
		return fmt.Errorf("--charge: is %s: expected 0s to 10s", o.Charge)
	}
	return nil
}

// ErrFaults says that the judgement found a key charged twice, lost, or answered in two ways.
var ErrFaults = errors.New("the demo found faults")

// nodeCount is the size of the demo's cluster.
const nodeCount = 3

// seed makes every demo the same shuffle, so that two runs can be compared.
const seed = 1

// Run runs the demo: its progress goes to tell, its table to out. Every process
// that it started has ended when it returns.
//
// Errors: ErrFaults; ctx's when it was interrupted; what kept the nodes from starting.
func Run(ctx context.Context, o Options, out, tell io.Writer) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "onced-demo-")
	if err != nil {
		return fmt.Errorf("making the run directory: %w", err)
	}
	d := &demo{Options: o, dir: dir, out: out, tell: progress.New(tell)}
	defer func() { err = d.close(ctx, err) }()
	return d.run(ctx)
}

// demo is one run.
type demo struct {
	Options
	dir      string
	out      io.Writer
	tell     *progress.Bar
	cluster  *cluster  // nil until it is laid out
	provider *Provider // behind the gateways
}

func (d *demo) run(ctx context.Context) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	r := &report{options: d.Options}
	if err := d.withOnced(ctx, r); err != nil {
		return err
	}
	if err := d.withoutOnced(ctx, r); err != nil {
		return err
	}
	if err := r.write(d.out); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	if d.Keep {
		d.keep(ctx)
	}
	if len(r.with.verdict.faults) > 0 {
		return ErrFaults
	}
	return nil
}

// start starts the provider and the nodes.
func (d *demo) start(ctx context.Context) (err error) {
	if d.provider, err = NewProvider(freePort, d.Charge); err != nil {
		return err
	}
	if d.cluster, err = newCluster(d.Binary, d.dir, d.provider.URL(), nodeCount); err != nil {
		return err
	}
	begun := time.Now()
	d.tell.Say("starting %d nodes in %s", nodeCount, d.dir)
	if err := d.cluster.start(ctx); err != nil {
		return err
	}
	leader, err := d.cluster.leader(ctx, nil)
	if err != nil {
		return err
	}
	d.tell.Say("ready after %s; %s leads", time.Since(begun).Round(time.Millisecond), leader.id)
	return nil
}

// withOnced runs the workload through the gateways and judges it.
func (d *demo) withOnced(ctx context.Context, r *report) error {
	p := newPlan(d.Keys, d.Repeats, fmt.Sprintf("demo-%x", time.Now().UnixMilli()), seed)
	var half func(int)
	if d.Kill {
		r.kill = &failover{cluster: d.cluster, tell: d.tell}
		half = func(sent int) { r.kill.begin(ctx, sent) }
	}
	e := d.execute(ctx, "with onced", p, d.cluster.gateways(), half)
	if d.Kill {
		if err := r.kill.wait(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.cluster.ready(ctx); err != nil {
		return err
	}
	reused := d.execute(ctx, "keys reused", p.reuse(), d.cluster.gateways(), nil)
	if err := ctx.Err(); err != nil {
		return err
	}
	d.tell.Say("reading every key back")
	transport := newTransport(d.Concurrency)
	defer transport.CloseIdleConnections()
	held := readBack(ctx, &http.Client{Transport: transport, Timeout: readyWithin}, d.cluster.apis(), p, d.Concurrency)
	if err := ctx.Err(); err != nil {
		return err
	}
	r.with = outcome{newTally(p, e.results, e.took), judge(p, e.results, d.provider, held)}
	r.with.verdict.judgeReuse(p.reuse(), reused.results)
	return nil
}

// withoutOnced runs the same workload straight against a provider of its own.
func (d *demo) withoutOnced(ctx context.Context, r *report) error {
	provider, err := NewProvider(freePort, d.Charge)
	if err != nil {
		return err
	}
	defer provider.Close()
	p := newPlan(d.Keys, d.Repeats, "bare", seed)
	e := d.execute(ctx, "without", p, []string{provider.URL()}, nil)
	if err := ctx.Err(); err != nil {
		return err
	}
	r.without = outcome{newTally(p, e.results, e.took), judge(p, e.results, provider, nil)}
	return nil
}

func (d *demo) execute(ctx context.Context, name string, p plan, doors []string, half func(int)) *execution {
	transport := newTransport(d.Concurrency)
	defer transport.CloseIdleConnections()
	e := &execution{
		client:      &client{plan: p, doors: doors, http: &http.Client{Transport: transport}, charge: d.Charge},
		concurrency: d.Concurrency,
		half:        half,
		progress:    d.tell.Step,
	}
	d.tell.Begin(name, "requests")
	e.run(ctx)
	return e
}

// close stops everything and removes the run directory. After a failure of the nodes
// the directory stays, and the error says where.
func (d *demo) close(ctx context.Context, err error) error {
	if d.cluster != nil {
		if stopErr := d.cluster.stop(); stopErr != nil && err == nil {
			err = stopErr
		}
	}
	if d.provider != nil {
		d.provider.Close()
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w; the nodes' logs are in %s", err, d.dir)
	}
	if removeErr := os.RemoveAll(d.dir); removeErr != nil && err == nil {
		err = fmt.Errorf("removing the run directory: %w", removeErr)
	}
	return err
}

// keep leaves the cluster running until ctx ends, and says how to talk to it.
func (d *demo) keep(ctx context.Context) {
	gateways, apis := d.cluster.gateways(), d.cluster.apis()
	fmt.Fprintf(d.out, `
The cluster runs until Ctrl-C. Charge twice, and be charged once:

  curl -i %s/charge -H 'Idempotency-Key: abc-1' -H '%s: %s' -d '{"order":"o-1","amount":1299}'
  curl -i %s/charge -H 'Idempotency-Key: abc-1' -H '%s: %s' -d '{"order":"o-1","amount":1299}'

What the table holds of it, and the cluster:

  curl %s/v1/keys/abc-1 -H 'Onced-Tenant: %s'
  onced status --nodes %s,%s,%s

Settings, data and logs of the nodes are in %s.
`, gateways[0], AccountHeader, Account, gateways[1], AccountHeader, Account, apis[2], Account, apis[0], apis[1], apis[2], d.dir)
	<-ctx.Done()
}
