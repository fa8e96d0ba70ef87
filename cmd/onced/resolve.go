package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"onced"
	"onced/client"
	"onced/internal/wire"
)

type keysResolve struct {
	keyArgument
	clusterFlags
	Outcome  resolveOutcome `required:"" placeholder:"OUTCOME" help:"completed: it happened, repeats get the response. released: it did not, the key is unused."`
	Reason   string         `required:"" placeholder:"TEXT" help:"Why, for the audit line."`
	Force    bool           `help:"Also a record that is in progress. Its holder may still be at work."`
	Response string         `placeholder:"FILE" help:"For completed: the response as the API has it, {\"status\":201,\"headers\":[[\"Name\",\"value\"]],\"body\":\"...\"}."`
	Status   int            `placeholder:"N" help:"Instead of --response: the response's status, 100 to 599."`
	Header   []string       `sep:"none" placeholder:"'NAME: VALUE'" help:"With --status: a header of the response; may be repeated."`
	Body     string         `placeholder:"TEXT" help:"With --status: the body of the response."`
}

// resolveOutcome is completed or released.
type resolveOutcome string

func (*resolveOutcome) choices() []string { return []string{"completed", "released"} }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *resolveOutcome) UnmarshalText(text []byte) error {
	*o = resolveOutcome(text)
	return oneOf(string(text), o.choices())
}

// Run settles one record.
func (c *keysResolve) Run(a *app) error {
	id, err := c.id(c.Tenant)
	if err != nil {
		return err
	}
	r := onced.ResolveRequest{ID: id, Reason: c.Reason, Force: c.Force}
	if r.Response, err = c.response(); err != nil {
		return refusal{err}
	}
	switch {
	case c.Reason == "":
		return refusal{errors.New("--reason: is empty: expected why the record is settled by hand")}
	case len(c.Reason) > onced.MaxReason:
		return refusal{fmt.Errorf("--reason: has %d bytes: expected at most %d", len(c.Reason), onced.MaxReason)}
	}
	return c.ask(a, func(ctx context.Context, k *client.Client) error {
		rec, err := k.Resolve(ctx, r)
		if err != nil {
			return hint(err, "--force")
		}
		return c.print(a, rec)
	})
}

// response is what repeats will get, nil for released.
func (c *keysResolve) response() (*onced.Response, error) {
	byParts := c.Status != 0 || len(c.Header) > 0 || c.Body != ""
	switch {
	case c.Outcome == "released" && (byParts || c.Response != ""):
		return nil, errors.New("--outcome: is released, but there is a response: expected one only with completed")
	case c.Outcome == "released":
		return nil, nil
	case c.Response != "" && byParts:
		return nil, errors.New("--response: expected either the response's file, or --status with --header and --body")
	case c.Response != "":
		return readResponse(c.Response)
	case c.Status == 0:
		return nil, errors.New("--outcome: is completed without a response: expected --response FILE, or --status N with --header and --body")
	case c.Status < 100 || c.Status > 599:
		return nil, fmt.Errorf("--status: is %d: expected 100 to 599", c.Status)
	}
	r := &onced.Response{Status: c.Status, Body: []byte(c.Body)}
	for _, line := range c.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--header: is %.80q: expected 'NAME: VALUE'", line)
		}
		r.Headers = append(r.Headers, onced.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	return r, nil
}

// readResponse reads a response from a file.
func readResponse(path string) (*onced.Response, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--response: %w", err)
	}
	r, err := wire.DecodeResponse(data)
	if err != nil {
		return nil, fmt.Errorf("--response: %s: %s", path, onced.AsProblem(err).Detail)
	}
	return r, nil
}
