package system

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"onced"
)

// Members is a System whose members can be away one at a time, and be told apart by the number of their door.
type Members interface {
	System
	// Follower is a member that does not lead.
	Follower(ctx context.Context) (member int, err error)
	// Stop ends a member in good order.
	Stop(member int) error
	// Start starts a member that was stopped. It does not wait until it is ready.
	Start(member int) error
	// Ready is nil once a member says that it has caught up and serves.
	Ready(ctx context.Context, member int) error
	// Applied is how far the table of a member is, as an index of the log.
	Applied(ctx context.Context, member int) (uint64, error)
	// Replace removes a member that was stopped, and starts a new one with an empty directory in its place.
	Replace(ctx context.Context, member int) error
}

var _ Members = (*nodes)(nil)

func (s *nodes) Follower(ctx context.Context) (int, error) {
	for i := range s.members {
		var status onced.ClusterStatus
		if err := get(ctx, s.apis[i]+"/v1/cluster", &status); err != nil {
			return 0, err
		}
		if status.Leader != "" && status.Leader != status.NodeID {
			return i, nil
		}
	}
	return 0, errors.New("no node says that another one leads")
}

func (s *nodes) Stop(i int) error { return s.members[i].stop() }

func (s *nodes) Start(i int) error { return s.members[i].start() }

func (s *nodes) Ready(ctx context.Context, i int) error {
	select {
	case <-s.members[i].process().Done():
		return fmt.Errorf("%w: %s: see %s", ErrEnded, s.members[i].process().Err(), s.members[i].log)
	default:
		return get(ctx, s.apis[i]+"/readyz", nil)
	}
}

// ErrEnded says that a member is not there any more.
var ErrEnded = errors.New("the member has ended")

func (s *nodes) Applied(ctx context.Context, i int) (uint64, error) {
	var status onced.ClusterStatus
	err := get(ctx, s.apis[i]+"/v1/cluster", &status)
	return status.AppliedIndex, err
}

func (s *nodes) Replace(ctx context.Context, i int) error {
	other := (i + 1) % len(s.members)
	var status onced.ClusterStatus
	if err := get(ctx, s.apis[other]+"/v1/cluster", &status); err != nil {
		return err
	}
	if err := remove(ctx, s.apis[other]+"/v1/cluster/members/"+url.PathEscape(s.members[i].name)+"?reason=replaced"); err != nil {
		return err
	}
	join := ""
	for _, m := range status.Members {
		if m.ID == s.members[other].name {
			join = "join: " + m.Address
		}
	}
	addrs, err := freeAddrs(3)
	if err != nil {
		return err
	}
	s.added++
	if err := s.add(fmt.Sprintf("n%d", 3+s.added), join, addrs[0], addrs[1], addrs[2]); err != nil {
		return err
	}
	// The new one takes the place of the old one in every list.
	last := len(s.members) - 1
	s.members[i], s.apis[i], s.doors[i], s.data[i] = s.members[last], s.apis[last], s.doors[last], s.data[last]
	s.members, s.apis, s.doors, s.data = s.members[:last], s.apis[:last], s.doors[:last], s.data[:last]
	return s.members[i].start()
}
