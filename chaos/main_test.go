//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// TestAgain: the line that is kept with a violation says everything that decides what is done.
func TestAgain(t *testing.T) {
	parse := func(line string) (o options) {
		parser, err := kong.New(&o)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(strings.ReplaceAll(line, "'", ""))
		if _, err := parser.Parse(words[1:]); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return o
	}
	for _, line := range []string{
		"scripts/chaos --seed 7 --log-store wal",
		"scripts/chaos --seed 7 --log-store both --long",
		"scripts/chaos --seed 7 --log-store bolt --faults cut-*,kill-leader --mixed 0 --clients 2.5 --round 12s --duration 3m --plant ghost",
		"scripts/chaos --seed 7 --log-store wal --compose",
	} {
		first := parse(line)
		if again := parse(first.again()); again.again() != first.again() || again.Long != first.Long || again.Duration != first.Duration ||
			again.Compose != first.Compose || again.Plant != first.Plant || again.Mixed != first.Mixed || strings.Join(again.Faults, ",") != strings.Join(first.Faults, ",") {
			t.Errorf("%q becomes %q, which is %+v; expected %+v", line, first.again(), again, first)
		}
	}
}

// TestNoLengthIsRefused: a campaign of no length would end without a violation.
func TestNoLengthIsRefused(t *testing.T) {
	for _, o := range []options{{Round: time.Second}, {Duration: -time.Second, Round: time.Second}, {Duration: time.Second}} {
		if o.lasts() == nil {
			t.Errorf("%s in rounds of %s is let pass", o.Duration, o.Round)
		}
	}
	if err := (options{Duration: time.Second, Round: time.Minute}).lasts(); err != nil {
		t.Error(err)
	}
}
