package client

import (
	"context"
	"time"

	"onced"
	"onced/internal/wire"
)

const (
	// cancelFor is how long a cancel is tried. Later a reservation that nobody holds has lapsed by the
	// default lease, and a try of the reserve can hardly be under way any more.
	cancelFor = time.Minute
	// maxOwed bounds the cancels under way.
	maxOwed = 1024
)

// cancelLater releases whatever owner asked for, in the background. Nobody waits for it: the
// caller was told that nothing may be started.
func (c *Client) cancelLater(id onced.ID, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.owed >= maxOwed {
		c.Logger.Warn("client: a reserve that was given up is not cancelled; its reservation ends with its lease", "tenant", id.Tenant, "owner", owner, "cancels_under_way", c.owed)
		return
	}
	c.owed++
	go c.cancel(id, owner)
}

func (c *Client) cancel(id onced.ID, owner string) {
	defer c.cancelled()
	ctx, stop := context.WithTimeout(c.life, cancelFor)
	defer stop()
	q := c.post(id, "release", wire.AppendRelease(nil, onced.ReleaseRequest{Owner: owner}))
	q.insist = true
	if _, err := c.do(ctx, q); err != nil {
		c.Logger.Warn("client: cancelling a reserve that was given up; its reservation ends with its lease", "tenant", id.Tenant, "owner", owner, "error", err)
	}
}

// cancelled notes that a cancel is over.
func (c *Client) cancelled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed--
	if c.closed && c.owed == 0 {
		close(c.settled)
	}
}
