package gateway

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	sweepEvery   = time.Hour
	sweepTimeout = 30 * time.Minute
)

// sweepBlobs deletes blobs that are due, every hour or so, until the gateway ends. The gateways of one store need not
// agree: each sweeps at times of its own.
func (g *Gateway) sweepBlobs() {
	for {
		g.sweepOnce()
		select {
		case <-time.After(sweepEvery/2 + rand.N(sweepEvery)):
		case <-g.late.Done():
			return
		}
	}
}

func (g *Gateway) sweepOnce() {
	store := g.table.Load().blobs
	if store == nil {
		return // it was taken out of the configuration
	}
	ctx, cancel := context.WithTimeout(g.late, sweepTimeout)
	defer cancel()
	n, err := store.Sweep(ctx, time.Now())
	if n > 0 {
		g.meter.Blob(blobSwept, n)
	}
	if err != nil && g.late.Err() == nil {
		g.log.Warn("gateway: kept answers that are due could not be deleted; trying again", "error", err)
	}
}
