package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"onced/bench/report"
	"onced/bench/system"
	"onced/bench/work"
	"onced/internal/progress"
)

// workload is one that can be asked for by its name.
type workload struct {
	name string
	run  func(ctx context.Context, c *comparison, p *probe, s system.System, l *work.Load) error // nil: it has a system of its own
}

// workloads are in the order in which they run: what kills a member comes last.
var workloads = []workload{
	{"pairs", measurePairs},
	{"replays", measureReplays},
	{"batch", measureBatches},
	{"open", measureOpen},
	{"charge", measureCharges},
	{"chores", measureChores},
	{"gap", measureGap},
	{"catchup", measureCatchUp},
	{"size", nil},
}

func workloadNames() (names []string) {
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

// probe notes what one workload measured of one system.
type probe struct {
	results *report.Results
	system  string
	servers func() []int
	said    []string // for whoever watches
}

func (p *probe) add(key string, v float64) { p.results.Add(key, p.system, v) }

func (p *probe) say(format string, args ...any) {
	p.said = append(p.said, fmt.Sprintf(format, args...))
}

// processor runs do and notes the processor time of all servers per 1,000 of what it did.
func (p *probe) processor(key string, do func() (work.Figures, error)) (work.Figures, error) {
	before, err := system.Processor(p.servers())
	if err != nil {
		return work.Figures{}, err
	}
	f, err := do()
	if err != nil {
		return f, err
	}
	after, err := system.Processor(p.servers())
	if err != nil {
		return f, err
	}
	p.add(key, (after-before).Seconds()*1000/float64(f.Count))
	return f, nil
}

func measurePairs(ctx context.Context, c *comparison, p *probe, _ system.System, l *work.Load) error {
	for _, n := range report.Levels {
		key := fmt.Sprintf("pairs%d.", n)
		f, err := p.processor(key+"cpu", func() (work.Figures, error) { return l.Pairs(ctx, n, c.during) })
		if err != nil {
			return fmt.Errorf("%d callers: %w", n, err)
		}
		p.add(key+"rate", f.PerSecond())
		p.add(key+"p50", f.Millis(0.5))
		p.add(key+"p99", f.Millis(0.99))
		p.say("%d: %s/s p50 %.1f ms", n, progress.Thousands(int(f.PerSecond())), f.Millis(0.5))
	}
	return nil
}

// many is how many callers replays have.
const many = 64

func measureReplays(ctx context.Context, c *comparison, p *probe, _ system.System, l *work.Load) error {
	f, err := p.processor("replays.cpu", func() (work.Figures, error) { return l.Replays(ctx, many, c.during) })
	if err != nil {
		return err
	}
	p.add("replays.rate", f.PerSecond())
	p.add("replays.p50", f.Millis(0.5))
	p.say("%s/s p50 %.1f ms", progress.Thousands(int(f.PerSecond())), f.Millis(0.5))
	return nil
}

const (
	batchers  = 16
	batchSize = 100
)

func measureBatches(ctx context.Context, c *comparison, p *probe, _ system.System, l *work.Load) error {
	f, err := p.processor("batch.cpu", func() (work.Figures, error) { return l.Batches(ctx, batchers, batchSize, c.during) })
	if err != nil {
		return err
	}
	p.add("batch.rate", f.PerSecond())
	p.say("%s/s", progress.Thousands(int(f.PerSecond())))
	return nil
}

const openCallers = 128

func measureOpen(ctx context.Context, c *comparison, p *probe, _ system.System, l *work.Load) error {
	f, err := l.PairsOpen(ctx, openCallers, c.rate, 2*c.during)
	if err != nil {
		return err
	}
	p.add("open.p50", f.Millis(0.5))
	p.add("open.p99", f.Millis(0.99))
	p.add("open.p999", f.Millis(0.999))
	p.say("%.0f/s: p50 %.1f ms, p99 %.1f ms, p99.9 %.1f ms", c.rate, f.Millis(0.5), f.Millis(0.99), f.Millis(0.999))
	return nil
}

func measureCharges(ctx context.Context, c *comparison, p *probe, s system.System, l *work.Load) error {
	for _, n := range report.ChargeLevels {
		got, err := l.Charge(ctx, c.keys, c.keys/2, n, nil)
		if err != nil {
			return err
		}
		if got.Unknown > 0 {
			return fmt.Errorf("%d requests ended without an answer though nothing was killed", got.Unknown)
		}
		p.add("charge.double", float64(got.Double))
		p.add(fmt.Sprintf("charge%d.unique_p50", n), millis(got.Unique.Quantile(0.5)))
		p.add(fmt.Sprintf("charge%d.repeat_p50", n), millis(got.Repeats.Quantile(0.5)))
		p.say("%d: unique %.1f ms, repeats %.1f ms, %d twice", n, millis(got.Unique.Quantile(0.5)), millis(got.Repeats.Quantile(0.5)), got.Double)
	}
	if p.system != "onced" {
		return nil
	}
	got, err := l.Charge(ctx, c.keys, c.keys/2, many, func() error { return s.KillLeader(ctx) })
	if err = errors.Join(err, s.Revive(ctx)); err != nil {
		return err
	}
	p.add("chargekill.double", float64(got.Double))
	p.add("chargekill.unknown", float64(got.Unknown))
	p.say("leader killed: %d twice, %d unknown", got.Double, got.Unknown)
	return nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// measureChores goes at half of what the closed loop has just reached.
func measureChores(ctx context.Context, c *comparison, p *probe, _ system.System, l *work.Load) error {
	if p.system != "onced" {
		return errors.ErrUnsupported
	}
	capacity, err := l.Pairs(ctx, many, c.during)
	if err != nil {
		return err
	}
	got, err := l.Chores(ctx, capacity.PerSecond()/2, 2*c.during+2*time.Second) // a node looks every 2 s whether a snapshot is due
	if err != nil {
		return err
	}
	p.add("chores.rate", got.PerSecond)
	p.add("chores.snapshots", float64(got.Snapshots))
	for when, f := range map[string]work.Figures{"without": got.Without, "with": got.With} {
		p.add("chores."+when+"_p99", f.Millis(0.99))
		p.add("chores."+when+"_p999", f.Millis(0.999))
		p.add("chores."+when+"_stall", millis(f.Stall))
	}
	p.say("%.0f/s: p99 %.1f ms without, %.1f ms with, stall %.0f ms without, %.0f ms with, %d snapshots", got.PerSecond,
		got.Without.Millis(0.99), got.With.Millis(0.99), millis(got.Without.Stall), millis(got.With.Stall), got.Snapshots)
	return nil
}

func measureGap(ctx context.Context, _ *comparison, p *probe, _ system.System, l *work.Load) error {
	took, err := l.Gap(ctx)
	if err != nil {
		return err
	}
	p.add("gap", took.Seconds())
	p.say("%.2f s", took.Seconds())
	return nil
}

// measureCatchUp runs once in a comparison: it takes long.
func measureCatchUp(ctx context.Context, c *comparison, p *probe, _ system.System, l *work.Load) error {
	if p.results.Has("catchup.even", p.system) {
		return errors.ErrUnsupported
	}
	pairs := c.missed / 2
	c.bar.Begin("writing while a member is away", "pairs")
	got, err := l.CatchUp(ctx, pairs, c.rate, 2*c.during, func(done int) { c.bar.Step(done, pairs) })
	c.bar.Finish()
	if err != nil {
		return err
	}
	p.add("catchup.writes", float64(2*pairs))
	p.add("catchup.ready", got.Ready.Seconds())
	p.add("catchup.even", got.Even.Seconds())
	for when, f := range map[string]work.Figures{"before": got.Before, "with": got.With} {
		p.add("catchup."+when+"_p50", f.Millis(0.5))
		p.add("catchup."+when+"_p99", f.Millis(0.99))
		p.add("catchup."+when+"_stall", millis(f.Stall))
	}
	p.say("missed %s writes (taken in %.0f s): ready %.1f s, even %.1f s after its start; the others p99 %.1f ms before, %.1f ms with, longest gap %.0f and %.0f ms", progress.Thousands(2*pairs),
		got.Filled.Seconds(), got.Ready.Seconds(), got.Even.Seconds(), got.Before.Millis(0.99), got.With.Millis(0.99), millis(got.Before.Stall), millis(got.With.Stall))
	return nil
}

func measureSize(ctx context.Context, c *comparison, p *probe, l *work.Load, level report.SizeLevel) error {
	c.bar.Begin("filling", "keys")
	got, err := l.Size(ctx, level.Keys, func(done int) { c.bar.Step(done, level.Keys) })
	c.bar.Finish()
	if err != nil {
		return err
	}
	if got.DiskBytes > 0 {
		p.add("size"+level.Key+".disk", got.DiskBytes)
		p.add("size"+level.Key+".table", got.TableBytes)
	}
	p.add("size"+level.Key+".memory", float64(got.MemoryBytes)/(1<<20))
	p.add("size"+level.Key+".growth", got.MemoryGrowth)
	if got.DiskBytes > 0 {
		p.add("size"+level.Key+".written", got.WrittenBytes)
	}
	p.add("size"+level.Key+".own", float64(got.OwnBytes)/(1<<20))
	p.add("size"+level.Key+".fifth", float64(got.FifthBytes)/(1<<20))
	p.say("%s keys: %.0f bytes of disk each, %.0f without the log, %.0f written, %d MiB resident, %d of them no files'", level.Title, got.DiskBytes, got.TableBytes, got.WrittenBytes, got.MemoryBytes>>20, got.OwnBytes>>20)
	took, err := l.Restart(ctx)
	if err != nil {
		return err
	}
	p.add("size"+level.Key+".restart", took.Seconds())
	p.say("restart %.2f s", took.Seconds())
	took, err = l.Replace(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	p.add("size"+level.Key+".replace", took.Seconds())
	p.say("a new member %.2f s", took.Seconds())
	return nil
}
