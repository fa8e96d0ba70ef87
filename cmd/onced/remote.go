package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"onced"
	"onced/client"
	"onced/internal/certificate"
)

const (
	// answerWithin is how long one node has to answer a command.
	answerWithin = 3 * time.Second
	// decideWithin is how long a command on a key may take: longer than a node takes to give up.
	decideWithin = 15 * time.Second
)

// clusterFlags are those of every command on a running cluster.
type clusterFlags struct {
	Nodes  string       `default:"http://127.0.0.1:8480" placeholder:"URL,..." group:"The cluster" help:"The nodes' API addresses, asked in turn (${default})."`
	CA     string       `name:"ca" placeholder:"FILE" group:"The cluster" help:"The authorities that the certificates of https:// nodes are of, in PEM (the system's)."`
	Token  string       `placeholder:"TOKEN" group:"The cluster" help:"Credential for the API. Rather put it into ONCED_TOKEN: other users of the machine see a command's flags."`
	Tenant string       `placeholder:"NAME" group:"The cluster" help:"Tenant to act for, where the credential leaves that open."`
	Output outputFormat `default:"table" placeholder:"FORMAT" group:"The cluster" help:"table, for people; or json, as the API has it (${default})."`
}

// outputFormat is table or json.
type outputFormat string

func (*outputFormat) choices() []string { return []string{"table", "json"} }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *outputFormat) UnmarshalText(text []byte) error {
	*o = outputFormat(text)
	return oneOf(string(text), o.choices())
}

func (o outputFormat) json() bool { return o == "json" }

// oneOf returns an error unless value is one of choices.
func oneOf(value string, choices []string) error {
	for _, choice := range choices {
		if value == choice {
			return nil
		}
	}
	last := len(choices) - 1
	return fmt.Errorf("is %.40q: expected %s or %s", value, strings.Join(choices[:last], ", "), choices[last])
}

// addresses are the base URLs of --nodes.
func (c *clusterFlags) addresses() ([]string, error) {
	nodes, err := client.ParseNodes(c.Nodes)
	if err != nil {
		return nil, fmt.Errorf("--nodes: %w", err)
	}
	return nodes, nil
}

// roots are the authorities of --ca.
func (c *clusterFlags) roots() (*x509.CertPool, error) {
	roots, err := certificate.Roots(c.CA)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	return roots, nil
}

// config is that of a client for one command: every node is asked once.
func (c *clusterFlags) config() (client.Config, error) {
	nodes, err := c.addresses()
	if err != nil {
		return client.Config{}, err
	}
	roots, err := c.roots()
	if err != nil {
		return client.Config{}, err
	}
	return client.Config{Nodes: nodes, Token: c.Token, RootCAs: roots, Tenant: c.Tenant, Rounds: 1, Timeout: decideWithin}, nil
}

// ask runs do with a client of the cluster. Its error is one line.
func (c *clusterFlags) ask(a *app, do func(ctx context.Context, k *client.Client) error) error {
	cfg, err := c.config()
	if err != nil {
		return refusal{err}
	}
	k, err := client.New(cfg)
	if err != nil {
		return refusal{err}
	}
	err = do(a.ctx, k)
	// Only a reserve would leave something to do, and no command makes one.
	if closeErr := k.Close(a.ctx); err == nil && a.ctx.Err() == nil {
		err = closeErr
	}
	return told(a, err)
}

// told returns err as it is told: in one line, and an interrupt by its name.
func told(a *app, err error) error {
	var refused refusal
	switch {
	case err == nil || errors.As(err, &refused):
		return err
	case a.ctx.Err() != nil:
		return errors.New("interrupted; a change that was asked for may have been made")
	}
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// keyArgument names one key.
type keyArgument struct {
	Key   string `arg:"" help:"The key, as it is: unquoted and not percent-encoded."`
	Scope string `placeholder:"NAME" help:"The scope that the key belongs to, such as 'POST /charge' (none)."`
}

// id returns the record's name, or a refusal.
func (k *keyArgument) id(tenant string) (onced.ID, error) {
	key, err := onced.KeyFromPath(k.Key)
	if err == nil {
		err = onced.CheckScope(k.Scope)
	}
	if err != nil {
		return onced.ID{}, refusal{errors.New(onced.AsProblem(err).Detail)}
	}
	return onced.ID{Tenant: tenant, Scope: k.Scope, Key: key}, nil
}

// remotes returns one remote for each URL of --nodes.
func (c *clusterFlags) remotes() ([]remote, error) {
	nodes, err := c.addresses()
	if err != nil {
		return nil, err
	}
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	var all []remote
	sender := &http.Client{Transport: client.NewTransport(roots), CheckRedirect: notFollowed}
	for _, base := range nodes {
		all = append(all, remote{base: base, token: c.Token, tenant: c.Tenant, http: sender})
	}
	return all, nil
}

// notFollowed has a redirect stand as the answer that it is: the credential is for the nodes that were named.
func notFollowed(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// remote is the API of one node.
type remote struct {
	base, token, tenant string
	http                *http.Client
}

// get reads the JSON of path into v.
func (r remote) get(ctx context.Context, path string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	request, err := r.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	response, err := r.http.Do(request)
	if err != nil {
		return err // names the method and the URL
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", r.base, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s", r.base, path, complaint(response.StatusCode, body))
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", r.base, err)
	}
	return nil
}

// complaint is a refusal in one line: the problem's words if it has some.
func complaint(status int, body []byte) string {
	var p struct{ Code, Detail string }
	if json.Unmarshal(body, &p) == nil && p.Code != "" {
		return fmt.Sprintf("%s: %s", p.Code, p.Detail)
	}
	return fmt.Sprintf("status %d", status)
}
