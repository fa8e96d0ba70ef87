package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"onced/cluster"
	"onced/store"
)

// offlineFlags are those of a command on a data directory that no node runs on.
type offlineFlags struct {
	DataDir string `required:"" placeholder:"DIR" help:"The node's data directory."`
	NodeID  string `required:"" placeholder:"NAME" help:"The node's name."`
	Address string `name:"cluster-advertise" default:"127.0.0.1:8481" placeholder:"HOST:PORT" help:"Where other nodes will reach it; it corrects that itself when it first leads (${default})."`
}

func (f offlineFlags) config(a *app) cluster.OfflineConfig {
	return cluster.OfflineConfig{
		NodeID: f.NodeID, DataDir: f.DataDir, Address: f.Address,
		Logger: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// unlessRefused makes an error that stops the start exit with its code.
func unlessRefused(err error) error {
	if cluster.Refused(err) || errors.Is(err, store.ErrNotEmpty) || errors.Is(err, store.ErrLocked) {
		return refusal{err}
	}
	return err
}

type restoreCommand struct {
	offlineFlags
	File string `arg:"" help:"A backup that onced backup has written."`
}

// Run makes the data directory of a new cluster's first node.
func (c *restoreCommand) Run(a *app) error {
	file, err := os.Open(c.File)
	if err != nil {
		return refusal{err}
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return refusal{err}
	}
	bar := newTransfer(a.stderr, "restore", info.Size())
	id, out, err := cluster.Restore(c.config(a), io.TeeReader(&interruptible{a.ctx, file}, bar))
	bar.end()
	switch {
	case errors.Is(err, store.ErrDamaged):
		return fmt.Errorf("%s is no whole backup: %w", c.File, err)
	case err != nil:
		return unlessRefused(err)
	}
	fmt.Fprintf(a.stdout, `%s is the data directory of node %s, the first of the new cluster %s.
It has the records of cluster %s up to log entry %d, at %s. Tokens go on above %d.

What was done after the backup is not in it: the repeat of such a request would run again.

Start it:                 onced serve --node-id %s --data-dir %s ...
then every other node,
on an empty directory:    onced serve --node-id NAME --join HOST:PORT ...
`, c.DataDir, c.NodeID, id, out.From, out.Index, time.UnixMilli(out.Clock).UTC().Format(time.RFC3339), out.First, c.NodeID, c.DataDir)
	return nil
}

// interruptible is a reader that ends with an error once ctx is over.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	if i.ctx.Err() != nil {
		return 0, errors.New("interrupted")
	}
	return i.r.Read(p)
}

type recoverCommand struct {
	offlineFlags
	Yes string `placeholder:"CLUSTER_ID" help:"Confirm with the id of the cluster instead of being asked."`
}

// Run shows what it is about to do, asks, and does it.
func (c *recoverCommand) Run(a *app) error {
	r, err := cluster.PlanRecovery(c.config(a))
	if err != nil {
		return unlessRefused(err)
	}
	id, out, err := c.decide(a, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "\nNode %s is the only member of the new cluster %s. Tokens go on above %d.\nStart it as before, then every other node on an empty directory with --join.\n",
		c.NodeID, id, out.First)
	return nil
}

func (c *recoverCommand) decide(a *app, r *cluster.Recovery) (id string, out store.Refounded, err error) {
	fmt.Fprint(a.stdout, planText(r.Plan))
	said := c.Yes
	if said == "" {
		fmt.Fprintf(a.stdout, "\nType the cluster's id to go on: ")
		if said = a.readLine(); said == "" {
			return "", out, refusal{errors.New("nothing was changed: the cluster's id was not confirmed")}
		}
	}
	if said != r.Plan.ClusterID {
		return "", out, refusal{fmt.Errorf("nothing was changed: %.80q is not the cluster's id, which is %s", said, r.Plan.ClusterID)}
	}
	return r.Run()
}

// readLine reads one line of what is typed, "" at its end or after an interrupt.
func (a *app) readLine() string {
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.stdin).ReadString('\n') // without an end it is the last one
		typed <- strings.TrimSpace(line)
	}()
	select {
	case line := <-typed:
		return line
	case <-a.ctx.Done():
		return ""
	}
}

// planText is what a person has to know before the last resort.
func planText(p cluster.RecoveryPlan) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	var members []string
	for _, m := range p.Members {
		members = append(members, m.ID+" at "+m.Address)
	}
	fmt.Fprintf(t, "cluster\t%s\n", p.ClusterID)
	fmt.Fprintf(t, "this node\t%s\n", p.NodeID)
	fmt.Fprintf(t, "members, as it last knew\t%s\n", orElse(strings.Join(members, ", "), "none"))
	fmt.Fprintf(t, "its log ends at\tterm %d, entry %d, of %s\n", p.LastTerm, p.LastIndex, p.LastStamp.Format(time.RFC3339))
	fmt.Fprintf(t, "its table on disk is at\tentry %d\n", p.Applied)
	t.Flush()
	if p.Removed {
		b.WriteString("\nTHIS NODE WAS REMOVED from the cluster: what was written afterwards is not here.\n")
	}
	fmt.Fprintf(&b, `
This is the last resort, for when a majority of the members is lost for good.

  - Whatever the others had acknowledged and this node does not have is LOST: those
    requests would run again. Choose the node whose log ends at the highest term and entry.
  - %d entries of its log come after its table. Nothing here tells which of them were
    acknowledged; all of them take effect, also those that their callers were never told of.
  - It becomes a NEW cluster of this node alone, with a new id and with tokens larger by %d.
  - The other members must never start again on their directories: two that come back
    would go on as the old cluster.
`, p.Undecided, int64(store.TokenGap))
	return b.String()
}
