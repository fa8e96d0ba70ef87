package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"onced/bench/system"
)

// options say what to compare.
type options struct {
	source    string // this module's directory
	systems   []string
	workloads []string
	runs      int
	during    time.Duration // each closed loop
	quick     bool
	large     bool
	logStore  string
	rate      float64 // of the open loop, the same for all
	keys      int     // of the workload of requests
	missed    int     // writes that a member misses
	out, dir  string
	from      string // a results.json: its report is written again, and nothing measured
}

// usageError is a wrong command line.
type usageError struct{ error }

// parse reads the command line.
//
// Errors: flag.ErrHelp, a usageError.
func parse(args []string) (options, error) {
	o := options{}
	var systems, works string
	f := flag.NewFlagSet("bench/run", flag.ContinueOnError)
	f.StringVar(&o.source, "source", ".", "the directory of this module")
	f.StringVar(&systems, "systems", strings.Join(system.Names, ","), "what to compare")
	f.StringVar(&works, "workloads", strings.Join(workloadNames(), ","), "what to measure")
	f.IntVar(&o.runs, "runs", 3, "interleaved runs, whose medians are told")
	f.DurationVar(&o.during, "duration", 2500*time.Millisecond, "of each closed loop")
	f.BoolVar(&o.quick, "quick", false, "onced and Redis, one run without the slow workloads: two minutes, for every day")
	f.BoolVar(&o.large, "large", false, "also size, restart and a new member with 5 million keys of onced: some 12 minutes more, and some 10 GiB of disk")
	f.StringVar(&o.logStore, "log-store", "", "onced's --log-store, bolt or wal (its default)")
	f.Float64Var(&o.rate, "rate", 300, "pairs a second of the open loop")
	f.IntVar(&o.keys, "keys", 8000, "keys of the workload of requests; half as many repeats")
	f.IntVar(&o.missed, "missed", 1_000_000, "writes that a member misses in the workload catchup (with --quick 100,000)")
	f.StringVar(&o.out, "out", "bench-results", "directory for the report: results.md, results.json, plot.svg")
	f.StringVar(&o.from, "from", "", "write the report of this results.json again, and measure nothing")
	f.StringVar(&o.dir, "dir", os.TempDir(), "where the data goes: the disk that is measured")
	if err := f.Parse(args); err != nil {
		if err == flag.ErrHelp {
			return o, err
		}
		return o, usageError{err}
	}
	if f.NArg() > 0 {
		return o, usageError{fmt.Errorf("unexpected argument %q", f.Arg(0))}
	}
	said := map[string]bool{}
	f.Visit(func(f *flag.Flag) { said[f.Name] = true })
	if o.quick {
		quicken(&o, said, &systems, &works)
	}
	o.systems, o.workloads = strings.Split(systems, ","), strings.Split(works, ",")
	return o, o.check()
}

// quicken takes what takes long out of what was not said otherwise.
func quicken(o *options, said map[string]bool, systems, works *string) {
	if !said["systems"] {
		*systems = "onced,redis"
	}
	if !said["workloads"] {
		*works = "charge,pairs,replays,batch,open,gap,catchup"
	}
	if !said["runs"] {
		o.runs = 1
	}
	if !said["missed"] {
		o.missed = 100_000
	}
}

func (o *options) check() error {
	for _, s := range o.systems {
		if !slices.Contains(system.Names, s) {
			return usageError{fmt.Errorf("--systems: %q: expected some of %s", s, strings.Join(system.Names, ","))}
		}
	}
	for _, w := range o.workloads {
		if !slices.Contains(workloadNames(), w) {
			return usageError{fmt.Errorf("--workloads: %q: expected some of %s", w, strings.Join(workloadNames(), ","))}
		}
	}
	switch {
	case o.runs < 1:
		return usageError{fmt.Errorf("--runs: is %d: expected 1 or more", o.runs)}
	case o.during < 100*time.Millisecond:
		return usageError{fmt.Errorf("--duration: is %s: expected 100ms or more", o.during)}
	case o.rate <= 0:
		return usageError{fmt.Errorf("--rate: is %g: expected more than 0", o.rate)}
	case o.keys < 2:
		return usageError{fmt.Errorf("--keys: is %d: expected 2 or more", o.keys)}
	case o.missed < 2:
		return usageError{fmt.Errorf("--missed: is %d: expected 2 or more", o.missed)}
	case !slices.Contains([]string{"", "bolt", "wal"}, o.logStore):
		return usageError{fmt.Errorf("--log-store: is %q: expected bolt or wal", o.logStore)}
	}
	var err error
	for _, path := range []*string{&o.source, &o.out, &o.dir} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

// settings are a line for the report.
func (o options) settings() string {
	store := o.logStore
	if store == "" {
		store = "its default"
	}
	return fmt.Sprintf("%d interleaved runs, closed loops of %s, open loop of %g pairs/s, answers of %d bytes, log store of onced: %s", o.runs, o.during, o.rate, answerBytes, store)
}
