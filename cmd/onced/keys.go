package main

import (
	"context"
	"fmt"
	"time"

	"onced"
	"onced/client"
	"onced/internal/wire"
)

// keysCommand is an operator's view of the table.
type keysCommand struct {
	Get     keysGet     `cmd:"" help:"One record, with its response."`
	List    keysList    `cmd:"" help:"A tenant's records, in the order of scope and key."`
	Resolve keysResolve `cmd:"" help:"Settle a record whose outcome is unknown, after looking at what happened."`
	Forget  keysForget  `cmd:"" help:"Delete a record, so that its key is unused."`
}

type keysGet struct {
	keyArgument
	clusterFlags
	Stale bool          `help:"Take it from the first node that answers, as it has it, also while it is cut off."`
	Wait  time.Duration `placeholder:"DURATION" help:"Wait up to 60s for the end of an operation that is in progress (0s)."`
}

// Run prints one record.
func (c *keysGet) Run(a *app) error {
	id, err := c.id(c.Tenant)
	if err != nil {
		return err
	}
	if c.Wait < 0 || c.Wait > onced.MaxWait {
		return refusal{fmt.Errorf("--wait: is %s: expected 0s to %s", c.Wait, wire.FormatDuration(onced.MaxWait))}
	}
	return c.ask(a, func(ctx context.Context, k *client.Client) error {
		rec, err := k.Get(ctx, onced.GetRequest{ID: id, Wait: c.Wait, Stale: c.Stale})
		if err != nil {
			return err
		}
		return c.print(a, rec)
	})
}

// print prints rec in the format that was asked for.
func (c *clusterFlags) print(a *app, rec onced.Record) error {
	var err error
	if c.Output.json() {
		_, err = fmt.Fprintf(a.stdout, "%s\n", wire.AppendRecord(nil, rec))
	} else {
		_, err = fmt.Fprint(a.stdout, recordTable(rec, time.Now()))
	}
	return err
}

type keysForget struct {
	keyArgument
	clusterFlags
	Reason string `placeholder:"TEXT" help:"Why, for the audit line."`
	Force  bool   `help:"Also a record that is in progress or unknown. Its operation may then run a second time."`
}

// Run deletes one record.
func (c *keysForget) Run(a *app) error {
	id, err := c.id(c.Tenant)
	if err != nil {
		return err
	}
	if len(c.Reason) > onced.MaxReason {
		return refusal{fmt.Errorf("--reason: has %d bytes: expected at most %d", len(c.Reason), onced.MaxReason)}
	}
	return c.ask(a, func(ctx context.Context, k *client.Client) error {
		if err := k.Forget(ctx, onced.ForgetRequest{ID: id, Force: c.Force, Reason: c.Reason}); err != nil {
			return hint(err, "--force")
		}
		return c.print(a, onced.Record{ID: id, State: onced.StateAbsent})
	})
}

// hint names the flag that would make a refusal go away.
func hint(err error, flag string) error {
	switch onced.CodeOf(err) {
	case onced.CodeRequestInProgress, onced.CodeOutcomeUnknown:
		return fmt.Errorf("%w (%s does it all the same)", err, flag)
	}
	return err
}

type keysList struct {
	clusterFlags
	State  stateName `placeholder:"STATE" help:"Only in_progress, completed, unknown or expired ones."`
	Prefix string    `placeholder:"TEXT" help:"Only keys that begin with it."`
	Scope  *string   `placeholder:"NAME" help:"Only keys of this scope; --scope= for those without one."`
	Limit  int       `default:"100" placeholder:"N" help:"Records to print, 1 to 1000; with --all, to ask for at a time (${default})."`
	All    bool      `help:"Every record, page by page."`
	Cursor string    `placeholder:"CURSOR" help:"Go on where an earlier list ended."`
}

// stateName is the name of a state that a record can be listed by.
type stateName string

func (*stateName) choices() []string {
	return []string{"in_progress", "completed", "unknown", "expired"}
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *stateName) UnmarshalText(text []byte) error {
	*s = stateName(text)
	return oneOf(string(text), s.choices())
}

func (c *keysList) request() (onced.ListRequest, error) {
	r := onced.ListRequest{Tenant: c.Tenant, Scope: c.Scope, Prefix: c.Prefix, Limit: c.Limit, Cursor: c.Cursor}
	if c.Limit < 1 || c.Limit > onced.MaxListLimit {
		return r, fmt.Errorf("--limit: is %d: expected 1 to %d", c.Limit, onced.MaxListLimit)
	}
	if c.Scope != nil {
		if err := onced.CheckScope(*c.Scope); err != nil {
			return r, fmt.Errorf("--scope: %s", onced.AsProblem(err).Detail)
		}
	}
	var err error
	if c.State != "" {
		r.State, err = onced.ParseState(string(c.State))
	}
	return r, err
}

// Run prints one page, or all of them.
func (c *keysList) Run(a *app) error {
	r, err := c.request()
	if err != nil {
		return refusal{err}
	}
	var out listing = &tablePages{w: a.stdout, filtered: c.State != "" || c.Prefix != "" || c.Scope != nil}
	if c.Output.json() {
		out = &jsonPages{w: a.stdout}
	}
	return c.ask(a, func(ctx context.Context, k *client.Client) error {
		return c.run(ctx, k, r, out)
	})
}

// run asks for pages until there are enough. A page may be short, and even empty, before the end.
func (c *keysList) run(ctx context.Context, k onced.Keeper, r onced.ListRequest, out listing) error {
	for left := c.Limit; ; {
		page, err := k.List(ctx, r)
		if err != nil {
			return err
		}
		if err := out.page(page.Records); err != nil {
			return err
		}
		left -= len(page.Records)
		r.Cursor = page.NextCursor
		if r.Cursor == "" || !c.All && left <= 0 {
			return out.end(r.Cursor)
		}
		if !c.All {
			r.Limit = left
		}
	}
}
