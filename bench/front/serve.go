package front

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Serve serves the front of store on addr until ctx ends, and closes the store.
func Serve(ctx context.Context, addr string, store Store, charge time.Duration) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("opening the front's port: %w", err)
	}
	s := &http.Server{Handler: Handler(store, charge), ReadHeaderTimeout: within}
	end := context.AfterFunc(ctx, func() { s.Close() })
	defer end()
	if err := s.Serve(ln); ctx.Err() == nil {
		return err
	}
	return store.Close()
}
