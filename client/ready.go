package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"onced"
)

// readyWithin is how long a node has to say whether it is ready.
const readyWithin = 2 * time.Second

// otherTenant is the tenant of nobody. Credentials that may act for it may act for any.
const otherTenant = "-"

// Ready asks all nodes at once whether they are ready and take these credentials, and returns nil as soon as one
// does. With everyTenant the credentials have to be such that may act for any tenant.
//
// Problems: unauthenticated and forbidden, where a node that is ready does not take the credentials; else unavailable.
func (c *Client) Ready(ctx context.Context, everyTenant bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	answers := make(chan *onced.Problem, len(c.nodes))
	for _, n := range c.nodes {
		go func() { answers <- c.nodeReady(ctx, n, everyTenant) }()
	}
	var refused *onced.Problem
	var said []string
	for range c.nodes {
		switch p := <-answers; {
		case p == nil:
			return nil
		case p.Code == onced.CodeUnavailable:
			said = append(said, p.Detail)
		default:
			refused = p
		}
	}
	if refused != nil {
		return refused
	}
	return unavailable("no node is ready: %s", strings.Join(said, "; "))
}

// nodeReady asks one node.
func (c *Client) nodeReady(ctx context.Context, n *node, everyTenant bool) *onced.Problem {
	who := &request{method: http.MethodGet, path: "/v1/cluster", tenant: c.Tenant}
	if everyTenant {
		who.tenant = otherTenant
	}
	for _, r := range []*request{{method: http.MethodGet, path: "/readyz"}, who} {
		f := c.send(ctx, n, r, readyWithin, 0)
		switch {
		case f == nil:
		case f.problem.Code == onced.CodeUnauthenticated, f.problem.Code == onced.CodeForbidden:
			return onced.Problemf(f.problem.Code, "%s: %s", n.base, f.problem.Detail)
		default:
			return unavailable("%s", said(n, f.problem))
		}
	}
	return nil
}

// said is what a node said, with its name.
func said(n *node, p *onced.Problem) string {
	if strings.Contains(p.Detail, n.base) {
		return p.Detail
	}
	return fmt.Sprintf("%s: %s", n.base, p.Detail)
}
