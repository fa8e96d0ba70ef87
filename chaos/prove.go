//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// proveFor is how long a bug may stay unseen, and proveRound how long a round is.
const (
	proveFor   = 5 * time.Minute
	proveRound = 12 * time.Second
)

// verdict is what a campaign says of itself to who started it.
type verdict struct {
	Checks  []string // that found something; none = no violation
	First   string   // finding
	Seconds float64  // since the load began
	Dir     string
}

// prove builds one bug in after the other and runs this program until each is caught.
func prove(ctx context.Context, o options, dir string) error {
	defer remove(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PLANTED\tCAUGHT BY\tAFTER\tFIRST FINDING")
	missed := 0
	for _, p := range plants {
		fmt.Fprintf(os.Stderr, "planting %s: %s\n", p.name, p.about)
		v, err := proveOne(ctx, o, p, self, dir)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("with %s planted: %w", p.name, err)
		case len(v.Checks) == 0:
			missed++
			fmt.Fprintf(t, "%s\tNOBODY\t%.0f s\t\n", p.name, v.Seconds)
		case !slices.ContainsFunc(v.Checks, func(name string) bool { return slices.Contains(p.checks, name) }):
			missed++
			fmt.Fprintf(t, "%s\tNOT BY %s, but %s\t%.0f s\t%s\n", p.name, strings.Join(p.checks, ", "), strings.Join(v.Checks, ", "), v.Seconds, v.First)
		default:
			fmt.Fprintf(t, "%s\t%s\t%.0f s\t%.120s\n", p.name, strings.Join(v.Checks, ", "), v.Seconds, v.First)
		}
	}
	t.Flush()
	if missed > 0 {
		fmt.Printf("%d of %d planted bugs were not caught.\n", missed, len(plants))
		return errViolation
	}
	fmt.Printf("All %d planted bugs were caught.\n", len(plants))
	return nil
}

func proveOne(ctx context.Context, o options, p plant, self, dir string) (v verdict, err error) {
	file := filepath.Join(dir, p.name+".json")
	out, err := os.Create(filepath.Join(dir, p.name+".txt"))
	if err != nil {
		return v, err
	}
	defer out.Close()
	args := []string{"--plant", p.name, "--faults", p.faults, "--binary", o.Binary, "--verdict", file,
		"--duration", proveFor.String(), "--round", proveRound.String(), "--mixed", "0", "--log-store", o.LogStore, "--clients", fmt.Sprint(o.Clients)}
	if o.Seed != 0 {
		args = append(args, "--seed", fmt.Sprint(o.Seed))
	}
	c := exec.CommandContext(ctx, self, args...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.Stdout, c.Stderr = out, out
	ran := c.Run()
	raw, err := os.ReadFile(file)
	if err != nil {
		said, _ := os.ReadFile(out.Name())
		return v, fmt.Errorf("the campaign did not come to a verdict: %w\n%s", ran, said)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, err
	}
	if !o.Keep {
		remove(v.Dir)
	}
	return v, nil
}

// tellVerdict writes the verdict of a campaign.
func (c *campaign) tellVerdict() error {
	v := verdict{Seconds: time.Since(c.begun).Seconds(), Dir: c.dir}
	for i, f := range c.found {
		if i == 0 {
			v.First = f.String()
		}
		if !slices.Contains(v.Checks, f.Check) {
			v.Checks = append(v.Checks, f.Check)
		}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(c.Verdict, raw, 0o600)
}
