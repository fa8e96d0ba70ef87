package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Chores is the open loop without and with a snapshot and a purge.
type Chores struct {
	PerSecond     float64
	Without, With Figures
	Snapshots     int // nodes that took one meanwhile
}

const (
	openCallers = 256
	// purged keys fall due while the second loop runs.
	purged       = 20_000
	purgedBytes  = purged * 900 // of log, about
	purgedAfter  = 5 * time.Second
	snapshotsAt  = 64 << 20 // bytes of log since the last snapshot, as docs/decisions.md has them
	snapshotRoom = 1 << 20  // left to the loop itself
	topUpBytes   = 64 << 10 // of each answer that brings the log there
)

// Chores measures nodes of onced at a rate twice: at rest, and while each takes a snapshot and removes keys whose retention is over.
func (l *Load) Chores(ctx context.Context, perSecond float64, during time.Duration) (Chores, error) {
	got := Chores{PerSecond: perSecond}
	var err error
	if got.Without, err = l.PairsOpen(ctx, openCallers, perSecond, during); err != nil {
		return got, fmt.Errorf("without: %w", err)
	}
	before, err := l.prime(ctx)
	if err != nil {
		return got, fmt.Errorf("preparing a snapshot: %w", err)
	}
	if got.With, err = l.PairsOpen(ctx, openCallers, perSecond, during); err != nil {
		return got, fmt.Errorf("with: %w", err)
	}
	for i, door := range l.sys.Doors() {
		now, err := metric(ctx, door, "onced_last_snapshot_index")
		if err != nil {
			return got, err
		}
		if now > before[i] {
			got.Snapshots++
		}
	}
	return got, nil
}

// prime brings the log close to where a snapshot is due, and stores keys that fall due soon. It returns each node's last snapshot.
func (l *Load) prime(ctx context.Context) ([]float64, error) {
	large := New(l.sys, topUpBytes)
	first, err := l.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	// From a snapshot on it is known how much log there is.
	if err := large.topUp(ctx, func() (bool, error) {
		now, err := l.snapshots(ctx)
		for i := range now {
			if now[i] == first[i] {
				return false, err
			}
		}
		return true, err
	}); err != nil {
		return nil, err
	}
	begun, err := l.logged(ctx)
	if err != nil {
		return nil, err
	}
	full := func(bytes float64) func() (bool, error) {
		return func() (bool, error) {
			now, err := l.logged(ctx)
			return now-begun > bytes, err
		}
	}
	if err := large.topUp(ctx, full(snapshotsAt-snapshotRoom-purgedBytes)); err != nil {
		return nil, err
	}
	if err := l.Fill(ctx, l.names("x", purged), purgedAfter, nil); err != nil {
		return nil, err
	}
	before, err := l.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	return before, large.topUp(ctx, full(snapshotsAt-snapshotRoom))
}

// topUp completes keys until enough says so.
func (l *Load) topUp(ctx context.Context, enough func() (bool, error)) error {
	for range 400 {
		if done, err := enough(); done || err != nil {
			return err
		}
		if err := l.Fill(ctx, l.names("l", 16), time.Minute, nil); err != nil {
			return err
		}
	}
	return errors.New("no snapshot came")
}

// snapshots is the log index of each node's last one.
func (l *Load) snapshots(ctx context.Context) (all []float64, err error) {
	for _, door := range l.sys.Doors() {
		v, err := metric(ctx, door, "onced_last_snapshot_index")
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// logged is how many bytes of entries the nodes have handed to the log.
func (l *Load) logged(ctx context.Context) (sum float64, err error) {
	for _, door := range l.sys.Doors() {
		v, err := metric(ctx, door, "onced_log_bytes_total")
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

// metric reads one figure of a node.
func metric(ctx context.Context, door, name string) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, door+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", door, name)
}
