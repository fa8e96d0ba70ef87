//go:build linux

package main

import (
	"fmt"

	"onced/chaos/check"
)

// plant is a bug that can be built in: see package planted.
type plant struct {
	name   string
	about  string
	faults string // that bring it out
	checks []string
}

// plants are the known bugs, each with the checks that may find it.
var plants = []plant{
	{"ack-before-commit", "a complete is acknowledged before a majority has it", "cut-leader,freeze-followers,kill-leader", []string{check.Records, check.Linearizability, check.Executions}},
	{"no-token-check", "a complete is taken with any token", "kill-leader", []string{check.Linearizability}},
	{"local-clock", "a lease is judged on the leader's own clock", "clock-jump,term-leader", []string{check.Linearizability}},
	{"stale-read", "a read shows this node's own table", "freeze-follower,wire-slow", []string{check.Linearizability}},
	{"index-apart", "the applied index is written apart from its data", "kill-*", []string{check.Records, check.Linearizability, check.Tables, check.Nodes}},
	{"new-owner", "a reserve that is tried again has a new owner", "kill-leader,freeze-leader,cut-leader", []string{check.Linearizability, check.Committed}},
	{"ghost", "what a reserve left that ended in 503 is not taken back", "freeze-followers,disk-stall,cut-leader", []string{check.Ghosts}},
	{"forward-twice", "the gateway sends an operation twice", "kill-leader", []string{check.Charges}},
}

func plantNamed(name string) (plant, error) {
	names := ""
	for _, p := range plants {
		if p.name == name {
			return p, nil
		}
		names += " " + p.name
	}
	return plant{}, fmt.Errorf("%q is no bug that can be planted: expected one of%s", name, names)
}
