package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"

	"onced"
)

type statusCommand struct {
	Ready bool `help:"Only whether each of --nodes is ready; exit code 1 unless all are. Needs no token."`
	clusterFlags
}

// Run asks every node of --nodes and prints the view of the first that answers.
func (c *statusCommand) Run(a *app) error {
	if c.Ready {
		return c.ready(a)
	}
	nodes, err := c.remotes()
	if err != nil {
		return refusal{err}
	}
	answers := make([]onced.ClusterStatus, len(nodes))
	errs := make([]error, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() { errs[i] = node.get(a.ctx, "/v1/cluster", &answers[i]) })
	}
	asking.Wait()
	view := newView(answers, errs)
	if view == nil {
		return fmt.Errorf("no node tells how the cluster is: %w", oneLine(errs))
	}
	if c.Output.json() {
		return json.NewEncoder(a.stdout).Encode(view.first)
	}
	_, err = fmt.Fprint(a.stdout, view.table())
	return err
}

// oneLine joins errs with semicolons.
func oneLine(errs []error) error {
	var said []string
	for _, err := range errs {
		said = append(said, err.Error())
	}
	return errors.New(strings.Join(said, "; "))
}

// view is the cluster as the first node that answered sees it, with the figures
// of the others that answered.
type view struct {
	first   onced.ClusterStatus
	byNode  map[string]onced.ClusterStatus
	silent  []error
	foreign []string // ids of nodes that answered for another cluster
}

// newView returns nil when nobody answered.
func newView(answers []onced.ClusterStatus, errs []error) *view {
	var v *view
	var silent []error
	for i, s := range answers {
		switch {
		case errs[i] != nil:
			silent = append(silent, errs[i])
		case v == nil:
			v = &view{first: s, byNode: map[string]onced.ClusterStatus{s.NodeID: s}}
		case s.ClusterID != v.first.ClusterID:
			v.foreign = append(v.foreign, s.NodeID)
		default:
			v.byNode[s.NodeID] = s
		}
	}
	if v != nil {
		v.silent = silent
	}
	return v
}

// table writes one line for the cluster and one for each member. A member that
// was not asked, or did not answer, has no figures of its own.
func (v *view) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s · leader %s · term %d · seen by %s\n\n", orElse(v.first.ClusterID, "not founded yet"),
		orElse(v.first.Leader, "none"), v.first.Term, v.first.NodeID)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tROLE\tVOTER\tADDRESS\tCOMMITTED\tAPPLIED\tLAG\tSNAPSHOT")
	for _, m := range v.members() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", m.ID, m.Role, yesNo(m.Voter), m.Address, v.figures(m.ID))
	}
	t.Flush()
	for _, err := range v.silent {
		fmt.Fprintf(&b, "\nno answer: %v\n", err)
	}
	for _, id := range v.foreign {
		fmt.Fprintf(&b, "\n%s belongs to another cluster, or to none yet\n", id)
	}
	return b.String()
}

// members are those of the configuration, or the answering node while there is none.
func (v *view) members() []onced.Member {
	if len(v.first.Members) > 0 {
		return v.first.Members
	}
	return []onced.Member{{ID: v.first.NodeID, Role: v.first.Role}}
}

// figures are a node's indexes and how many committed entries, by the farthest of
// those that were asked, it has still to apply.
func (v *view) figures(id string) string {
	s, ok := v.byNode[id]
	if !ok {
		return "-\t-\t-\t-"
	}
	var committed uint64
	for _, other := range v.byNode {
		committed = max(committed, other.CommitIndex)
	}
	lag := committed - min(committed, s.AppliedIndex)
	return fmt.Sprintf("%d\t%d\t%d\t%d", s.CommitIndex, s.AppliedIndex, lag, s.LastSnapshotIndex)
}

func yesNo(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }
