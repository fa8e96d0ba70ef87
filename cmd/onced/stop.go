package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// handoverWithin bounds the last step, in which the node hands its leadership over.
const handoverWithin = 10 * time.Second

// stop ends the parts in order: the requests first, then the node leaves the cluster.
func (s *server) stop(ctx context.Context) error {
	err := s.front.end(ctx, s.settings.DrainTimeout)
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoverWithin)
	defer cancel()
	if shutdownErr := s.node.Shutdown(leaving); shutdownErr != nil {
		err = errors.Join(err, fmt.Errorf("leaving the cluster: %w", shutdownErr))
	}
	if err == nil {
		s.log.Info("stopped")
	}
	return err
}
