package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"onced"
	"onced/cluster/peer"
)

// membersCommand shows and changes the membership.
type membersCommand struct {
	List   membersList   `cmd:"" help:"The members, as the first node that answers sees them."`
	Add    membersAdd    `cmd:"" help:"Add a node: a learner first, a voter once it has caught up. Start it with --join."`
	Remove membersRemove `cmd:"" help:"Remove a node; its process ends, and never comes back under its id."`
}

type membersList struct {
	clusterFlags
}

// Run prints the members.
func (c *membersList) Run(a *app) error {
	var status onced.ClusterStatus
	err := c.inTurn(a.ctx, func(r remote) error { return r.send(a.ctx, http.MethodGet, "/v1/cluster", nil, &status) })
	if err != nil {
		return err
	}
	if c.Output.json() {
		return json.NewEncoder(a.stdout).Encode(map[string][]onced.Member{"members": status.Members})
	}
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tROLE\tVOTER\tADDRESS")
	for _, m := range status.Members {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", m.ID, m.Role, yesNo(m.Voter), m.Address)
	}
	return t.Flush()
}

type membersAdd struct {
	clusterFlags
	ID      string `arg:"" help:"The new node's --node-id."`
	Address string `arg:"" help:"HOST:PORT of its cluster port, as the other nodes reach it."`
}

// Run adds a member.
func (c *membersAdd) Run(a *app) error {
	for _, err := range []error{peer.CheckNodeID(c.ID), peer.CheckAddr(c.Address)} {
		if err != nil {
			return refusal{err}
		}
	}
	var m onced.Member
	err := c.inTurn(a.ctx, func(r remote) error {
		return r.send(a.ctx, http.MethodPost, "/v1/cluster/members", map[string]string{"id": c.ID, "address": c.Address}, &m)
	})
	switch {
	case err != nil:
		return err
	case c.Output.json():
		return json.NewEncoder(a.stdout).Encode(m)
	case m.Voter:
		fmt.Fprintf(a.stdout, "%s at %s is a voter already.\n", m.ID, m.Address)
	default:
		fmt.Fprintf(a.stdout, "%s at %s is a learner. It becomes a voter once it has caught up; start it with --join and the cluster address of any member, if it does not run yet.\n", m.ID, m.Address)
	}
	return nil
}

type membersRemove struct {
	clusterFlags
	ID     string `arg:"" help:"The node to remove."`
	Force  bool   `help:"Also when no majority of the voters that remain answers: nothing can be written until one does."`
	Reason string `placeholder:"TEXT" help:"Why, for the audit line."`
}

// Run removes a member.
func (c *membersRemove) Run(a *app) error {
	if err := peer.CheckNodeID(c.ID); err != nil {
		return refusal{err}
	}
	query := url.Values{}
	if c.Force {
		query.Set("force", "true")
	}
	if c.Reason != "" {
		query.Set("reason", c.Reason)
	}
	path := "/v1/cluster/members/" + url.PathEscape(c.ID)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	tried := false
	err := c.inTurn(a.ctx, func(r remote) error {
		again := tried
		tried = true
		err := r.send(a.ctx, http.MethodDelete, path, nil, nil)
		if gone, ok := err.(answered); ok && again && gone.status == http.StatusNotFound {
			return nil // by the try before, whose answer was lost
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s is no member any more.\n", c.ID)
	return nil
}
