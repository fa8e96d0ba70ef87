package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"onced"
)

// Backup opens a copy of the table, with every write that was answered before the call. With stale it is this node's
// table as it is, also without a leader. One is open at a time, since the files that it reads take room on the disk.
//
// Problems: unavailable.
func (n *Node) Backup(ctx context.Context, stale bool) (*onced.Backup, error) {
	if !n.copying.CompareAndSwap(false, true) {
		return nil, unavailable(errors.New("another backup of this node is under way"))
	}
	end := sync.OnceFunc(func() { n.copying.Store(false) })
	b, err := n.openBackup(ctx, stale)
	if err != nil {
		end()
		return nil, unavailable(fmt.Errorf("backing up: %w", err))
	}
	b.ReadCloser = &closing{ReadCloser: b.ReadCloser, after: end}
	return b, nil
}

func (n *Node) openBackup(ctx context.Context, stale bool) (*onced.Backup, error) {
	ctx, cancel := n.untilDecided(ctx)
	defer cancel()
	if !stale {
		if err := n.catchUp(ctx); err != nil {
			return nil, err
		}
	}
	cluster := n.table.Meta().ClusterID
	if cluster == "" {
		return nil, errors.New("the cluster has written nothing yet")
	}
	b, err := n.table.OpenBackup()
	if err != nil {
		return nil, err
	}
	return &onced.Backup{ReadCloser: b.ReadCloser, Size: b.Size, Index: b.Index, ClusterID: cluster}, nil
}

// closing does something more once it is closed.
type closing struct {
	io.ReadCloser
	after func()
}

// Close is part of io.Closer.
func (c *closing) Close() error {
	defer c.after()
	return c.ReadCloser.Close()
}
