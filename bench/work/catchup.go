package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"onced/bench/system"
)

// CaughtUp is what it took a member to come back, and what that cost the others.
type CaughtUp struct {
	Filled       time.Duration // in which the others took the writes
	Ready        time.Duration // from the member's start until it says so
	Even         time.Duration // from the same until it has applied what the others had then
	Before, With Figures       // the open loop at the other doors: with every member there, and while the one came back
}

const (
	// catchUpWithin bounds a return, so that a member that never comes back is an error.
	catchUpWithin = 15 * time.Minute
	pollEvery     = 20 * time.Millisecond
)

// some is a system of which only some doors are used.
type some struct {
	system.System
	doors []string
}

func (s some) Doors() []string { return s.doors }

// others is the load at all doors but one.
func (l *Load) others(away int) *Load {
	all := l.sys.Doors()
	return New(some{l.sys, append(append([]string{}, all[:away]...), all[away+1:]...)}, len(l.body))
}

// CatchUp stops a member, lets the others take so many pairs by batches, and starts it again under an open loop at the others, which goes on for at least during.
//
// Errors: errors.ErrUnsupported where members cannot be away.
func (l *Load) CatchUp(ctx context.Context, pairs int, perSecond float64, during time.Duration, tell func(done int)) (got CaughtUp, err error) {
	members, ok := l.sys.(system.Members)
	if !ok {
		return got, errors.ErrUnsupported
	}
	away, err := members.Follower(ctx)
	if err != nil {
		return got, err
	}
	others := l.others(away)
	if got.Before, err = others.PairsOpen(ctx, openCallers, perSecond, during); err != nil {
		return got, fmt.Errorf("the loop with every member: %w", err)
	}
	if err := members.Stop(away); err != nil {
		return got, fmt.Errorf("stopping a member: %w", err)
	}
	begun := time.Now()
	if _, err := others.fillMany(ctx, "u", pairs, tell); err != nil {
		return got, err
	}
	got.Filled = time.Since(begun)
	err = got.bringBack(ctx, others, members, away, perSecond, during)
	return got, err
}

// bringBack starts the member while the loop goes on.
func (got *CaughtUp) bringBack(ctx context.Context, others *Load, members system.Members, away int, perSecond float64, during time.Duration) error {
	loop, end := context.WithTimeout(ctx, catchUpWithin)
	defer end()
	type looped struct {
		Figures
		err error
	}
	ended := make(chan looped, 1)
	go func() {
		f, err := others.PairsOpen(loop, openCallers, perSecond, catchUpWithin)
		ended <- looped{f, err}
	}()
	begun := time.Now()
	err := got.awaitEven(loop, members, away)
	if err == nil {
		pause(loop, during-time.Since(begun))
	}
	end()
	l := <-ended
	got.With = l.Figures
	if err != nil {
		return fmt.Errorf("the member that was away: %w", err)
	}
	return errors.Join(ctx.Err(), got.With.Err())
}

// awaitEven starts the member and waits until it has what the others have now.
func (got *CaughtUp) awaitEven(ctx context.Context, members system.Members, away int) error {
	goal, err := members.Applied(ctx, (away+1)%len(members.Doors()))
	if err != nil {
		return err
	}
	if err := members.Start(away); err != nil {
		return err
	}
	begun := time.Now()
	for got.Ready == 0 || got.Even == 0 {
		err := members.Ready(ctx, away)
		if errors.Is(err, system.ErrEnded) {
			return err
		}
		if err == nil && got.Ready == 0 {
			got.Ready = time.Since(begun)
		}
		if applied, err := members.Applied(ctx, away); err == nil && applied >= goal && got.Even == 0 {
			got.Even = time.Since(begun)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("it has not caught up after %s: %w", time.Since(begun).Round(time.Second), ctx.Err())
		}
		pause(ctx, pollEvery)
	}
	return nil
}

// Replace stops a member for good, and returns the time from the start of a new one with an empty directory in its place until that one is ready.
//
// Errors: errors.ErrUnsupported where members cannot be replaced.
func (l *Load) Replace(ctx context.Context) (time.Duration, error) {
	members, ok := l.sys.(system.Members)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	away, err := members.Follower(ctx)
	if err != nil {
		return 0, err
	}
	if err := members.Stop(away); err != nil {
		return 0, fmt.Errorf("stopping a member: %w", err)
	}
	goal, err := members.Applied(ctx, (away+1)%len(members.Doors()))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpWithin)
	defer cancel()
	begun := time.Now()
	if err := members.Replace(ctx, away); err != nil {
		return 0, fmt.Errorf("replacing a member: %w", err)
	}
	for {
		err := members.Ready(ctx, away)
		applied, err2 := members.Applied(ctx, away)
		switch {
		case err == nil && err2 == nil && applied >= goal:
			return time.Since(begun), nil
		case errors.Is(err, system.ErrEnded), ctx.Err() != nil:
			return 0, fmt.Errorf("the new member: %w", errors.Join(err, err2, ctx.Err()))
		}
		pause(ctx, pollEvery)
	}
}
