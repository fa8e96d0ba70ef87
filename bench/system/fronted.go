package system

import (
	"context"
	"errors"
	"fmt"
)

// fronted is a store behind the front.
type fronted struct {
	front   *member
	url     string
	members []*member // of the store; none for the memory's
	data    []string
	table   string // below each of data: a pattern for what is no log
	killed  *member
	equal   bool         // members are equals
	start   func() error // starts members in their order
}

// startFronted starts the store and then its front, and waits until it is ready.
func startFronted(ctx context.Context, s *fronted) (System, error) {
	err := s.start()
	if err == nil {
		err = s.front.start()
	}
	if err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *fronted) ready(ctx context.Context) error {
	return await(ctx, func() error { return get(ctx, s.url+"/readyz", nil) }, append([]*member{s.front}, s.members...)...)
}

func (s *fronted) Doors() []string   { return []string{s.url} }
func (s *fronted) Charges() []string { return []string{s.url} }
func (s *fronted) Servers() []int    { return append(pids(s.members...), s.front.pid()) }
func (s *fronted) Dirs() []string    { return s.data }
func (s *fronted) Tables() []string  { return below(s.data, s.table) }

func (s *fronted) Stores() []int {
	if len(s.members) == 0 {
		return pids(s.front)
	}
	return pids(s.members...)
}

func (s *fronted) KillLeader(ctx context.Context) error {
	var said struct{ Leader string }
	if err := get(ctx, s.url+"/leader", &said); err != nil {
		return err
	}
	for _, m := range s.members {
		if m.name == said.Leader {
			s.killed = m
			m.process().Kill()
			return nil
		}
	}
	return ErrNoLeader
}

func (s *fronted) Revive(ctx context.Context) error {
	if s.killed == nil {
		return nil
	}
	if err := s.killed.start(); err != nil {
		return err
	}
	s.killed = nil
	return s.ready(ctx)
}

func (s *fronted) Restart(context.Context) error {
	if len(s.members) == 0 {
		return fmt.Errorf("a map in memory: %w", errors.ErrUnsupported)
	}
	if err := s.stop(); err != nil {
		return err
	}
	return s.start()
}

func (s *fronted) Counted(ctx context.Context) (charges, keys int, err error) {
	return counted(ctx, s.url)
}

func (s *fronted) Close() error {
	var errs []error
	for _, m := range append([]*member{s.front}, s.members...) {
		errs = append(errs, m.discard())
	}
	return errors.Join(errs...)
}

// stop ends the store: equal members at the same time, else each in its turn, as a primary hands the rest to its replica before it ends.
func (s *fronted) stop() error {
	if s.equal {
		return stopAll(s.members...)
	}
	var errs []error
	for _, m := range s.members {
		errs = append(errs, m.stop())
	}
	return errors.Join(errs...)
}

// startEach starts members one after the other, without waiting.
func startEach(members []*member) error {
	for _, m := range members {
		if err := m.start(); err != nil {
			return err
		}
	}
	return nil
}
