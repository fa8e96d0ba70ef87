package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"onced/bench/report"
	"onced/bench/system"
	"onced/bench/work"
	"onced/internal/progress"
)

const (
	answerBytes = 300
	charge      = 30 * time.Millisecond
	warmUp      = time.Second
)

// comparison is one under way.
type comparison struct {
	options
	results  *report.Results
	bar      *progress.Bar
	programs system.Options // what is the same at each start
	scratch  string
	done     int // sessions, of total
	total    int
}

// compare measures, and writes the report of whatever was measured, also when it is interrupted.
func compare(ctx context.Context, o options) error {
	c := &comparison{options: o, results: report.New(), bar: progress.New(os.Stderr)}
	var err error
	if c.scratch, err = os.MkdirTemp(o.dir, "onced-bench-"); err != nil {
		return fmt.Errorf("making a directory for the data: %w", err)
	}
	defer os.RemoveAll(c.scratch)
	if err := os.Chmod(c.scratch, 0o755); err != nil { // PostgreSQL runs as another user
		return err
	}
	if err := c.build(ctx); err != nil {
		return err
	}
	c.results.Machine, c.results.Settings = report.ThisMachine(c.scratch), o.settings()
	c.results.Systems = slices.DeleteFunc(slices.Clone(system.Names), func(s string) bool { return !slices.Contains(o.systems, s) })
	c.measure(ctx)
	c.bar.Finish()
	c.results.Took = time.Since(c.results.Begun)
	if err := c.write(); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted; what was measured up to then is in the report")
	case c.results.Faults():
		return errors.New("a key was charged twice: see the table")
	case len(c.results.Failures) > 0:
		return fmt.Errorf("%d measurements failed: see the end of the report", len(c.results.Failures))
	}
	return nil
}

// again writes the report of a comparison that was made before, as this program would write it now.
func again(o options) error {
	data, err := os.ReadFile(o.from)
	if err != nil {
		return fmt.Errorf("reading what was measured: %w", err)
	}
	c := &comparison{options: o}
	if c.results, err = report.Read(data); err != nil {
		return fmt.Errorf("reading %s: %w", o.from, err)
	}
	return c.write()
}

// build builds the programs that are not this one.
func (c *comparison) build(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program: %w", err)
	}
	c.programs = system.Options{Self: self, Charge: charge, LogStore: c.logStore, Onced: filepath.Join(c.scratch, "onced"), Etcd: filepath.Join(c.scratch, "etcd")}
	for name, p := range map[string][3]string{"onced": {filepath.Dir(c.source), c.programs.Onced, "./cmd/onced"}, "etcd": {c.source, c.programs.Etcd, "./etcd"}} {
		if !slices.Contains(c.systems, name) {
			continue
		}
		c.bar.Say("building %s", name)
		said, err := exec.CommandContext(ctx, "go", "build", "-C", p[0], "-o", p[1], p[2]).CombinedOutput()
		if err != nil && name == "etcd" && ctx.Err() == nil {
			c.skip(name, fmt.Sprintf("it could not be built: %v: %s", err, said))
			continue
		}
		if err != nil {
			return fmt.Errorf("building %s: %w\n%s", name, err, said)
		}
	}
	return nil
}

func (c *comparison) skip(name, why string) {
	why = strings.Join(strings.Fields(why), " ")
	c.results.Skipped[name] = why
	c.bar.Say("SKIPPED %s: %s", name, why)
}

func (c *comparison) failed(what string, err error) {
	c.results.Failures = append(c.results.Failures, fmt.Sprintf("%s: %v", what, err))
	c.bar.Say("FAILED %s: %v", what, err)
}

// measure lets the systems take turns.
func (c *comparison) measure(ctx context.Context) {
	c.total = c.runs * len(c.results.Systems)
	for run := range c.runs {
		c.results.Machine.Load = append(c.results.Machine.Load, report.Load())
		for _, name := range c.results.Systems {
			// The ceiling is there for orientation: once is enough.
			if ctx.Err() == nil && c.results.Skipped[name] == "" && (run == 0 || name != "memory") {
				c.session(ctx, name, run)
			}
			c.done++
		}
	}
	if c.large && ctx.Err() == nil && slices.Contains(c.results.Systems, "onced") {
		c.sized(ctx, "onced", report.Sizes[1])
	}
}

// session starts a system, measures everything once, and ends it.
func (c *comparison) session(ctx context.Context, name string, run int) {
	c.bar.Say("run %d of %d, %s (%d of %d)", run+1, c.runs, name, c.done+1, c.total)
	sized := run == 0 && slices.Contains(c.workloads, "size")
	if !c.with(ctx, name, func(s system.System) {
		c.results.Versions[name] = c.version(name)
		l := work.New(s, answerBytes)
		if err := l.Warm(ctx, warmUp); err != nil && ctx.Err() == nil {
			c.failed(name+": warming up", err)
			return
		}
		for _, w := range workloads {
			if w.run == nil || !slices.Contains(c.workloads, w.name) || ctx.Err() != nil {
				continue
			}
			c.step(ctx, name, w, s, l)
		}
	}) {
		return
	}
	if sized && ctx.Err() == nil {
		c.sized(ctx, name, report.Sizes[0])
	}
}

// with starts a system with an empty directory, hands it over, and ends it. It tells whether it could be started.
func (c *comparison) with(ctx context.Context, name string, do func(system.System)) bool {
	o := c.programs
	var err error
	if o.Dir, err = os.MkdirTemp(c.scratch, name+"-"); err == nil {
		err = os.Chmod(o.Dir, 0o755)
	}
	defer os.RemoveAll(o.Dir)
	var s system.System
	if err == nil {
		s, err = system.Start(ctx, name, o)
	}
	if missing := (system.Unavailable{}); errors.As(err, &missing) {
		c.skip(name, missing.Why)
		return false
	}
	if err != nil {
		if ctx.Err() == nil {
			c.failed(name+": starting", err)
		}
		return false
	}
	do(s)
	if err := s.Close(); err != nil {
		c.failed(name+": ending", err)
	}
	return true
}

// step does one workload, and says what came of it.
func (c *comparison) step(ctx context.Context, name string, w workload, s system.System, l *work.Load) {
	p := &probe{results: c.results, system: name, servers: s.Servers}
	begun := time.Now()
	err := w.run(ctx, c, p, s, l)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, system.ErrNoLeader):
	case err != nil:
		c.failed(name+": "+w.name, err)
	default:
		c.bar.Say("  %-8s %s (%.1f s)", w.name, strings.Join(p.said, ", "), time.Since(begun).Seconds())
	}
}

// sized measures sizes and the restart of a system of its own, which has nothing else in it.
func (c *comparison) sized(ctx context.Context, name string, level report.SizeLevel) {
	c.with(ctx, name, func(s system.System) {
		c.step(ctx, name, workload{"size", func(ctx context.Context, c *comparison, p *probe, s system.System, l *work.Load) error {
			return measureSize(ctx, c, p, l, level)
		}}, s, work.New(s, answerBytes))
	})
}

// version is what the program of a system says of itself.
func (c *comparison) version(name string) string {
	switch name {
	case "onced":
		out, _ := exec.Command("git", "-C", c.source, "rev-parse", "--short", "HEAD").Output() // not everybody has the history
		dirty, _ := exec.Command("git", "-C", c.source, "status", "--porcelain", "--untracked-files=no").Output()
		if len(dirty) > 0 {
			return strings.TrimSpace(string(out)) + " with changes"
		}
		return strings.TrimSpace(string(out))
	case "redis":
		out, _ := exec.Command("redis-server", "--version").Output() // it was started, so it is there
		if _, rest, ok := strings.Cut(string(out), "v="); ok {
			return strings.Fields(rest)[0]
		}
	case "etcd":
		out, _ := exec.Command("go", "list", "-C", c.source, "-m", "-f", "{{.Version}}", "go.etcd.io/etcd/server/v3").Output()
		return strings.TrimSpace(string(out))
	case "postgres":
		return system.PostgresVersion()
	}
	return ""
}

// write writes the report, and prints it.
func (c *comparison) write() error {
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return fmt.Errorf("making the directory of the report: %w", err)
	}
	raw, err := c.results.JSON()
	if err != nil {
		return fmt.Errorf("writing the results as JSON: %w", err)
	}
	table := c.results.Markdown()
	for name, content := range map[string]string{"results.md": table, "results.json": string(raw), "plot.svg": c.results.Plot()} {
		if content == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(c.out, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	fmt.Printf("%s\nThe report is in %s.\n", table, c.out)
	return nil
}
