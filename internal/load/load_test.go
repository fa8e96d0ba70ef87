package load

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"onced"
	"onced/fsm/memkeeper"
	"onced/internal/progress"
)

// slow is a Keeper whose calls take a millisecond, so that virtual time passes.
type slow struct {
	onced.Keeper
	fault func(key onced.Key) (onced.ReserveResult, error, bool)
}

func (s slow) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	time.Sleep(time.Millisecond)
	if s.fault != nil {
		if result, err, ok := s.fault(r.Key); ok {
			return result, err
		}
	}
	return s.Keeper.Reserve(ctx, r)
}

func (s slow) Complete(ctx context.Context, r onced.CompleteRequest) (onced.Record, error) {
	time.Sleep(time.Millisecond)
	return s.Keeper.Complete(ctx, r)
}

func keeper() *memkeeper.Keeper {
	return memkeeper.New(func() onced.Instant { return onced.InstantOf(time.Now()) })
}

func options(mode Mode) Options {
	return Options{Mode: mode, Duration: time.Second, Concurrency: 4, BodyBytes: 300, Retention: time.Hour}
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		mode           Mode
		pairs, replays uint64
	}{{Pairs, 2000, 0}, {Replays, 0, 4000}, {Mixed, 1333, 1333}} {
		t.Run(string(c.mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := keeper()
				r, err := Run(t.Context(), options(c.mode), "acme", []onced.Keeper{slow{Keeper: table}, slow{Keeper: table}}, progress.New(io.Discard))
				if err != nil || r.Err() != nil || len(r.Errors) > 0 {
					t.Fatal(err, r.Err(), r.Errors)
				}
				near := func(f *Figures, want uint64) bool {
					if want == 0 {
						return f == nil
					}
					return f != nil && f.Count >= want-10 && f.Count <= want+10
				}
				if !near(r.Pairs, c.pairs) || !near(r.Replays, c.replays) || r.Nodes != 2 || r.Seconds < 0.99 || r.Seconds > 1.01 {
					t.Errorf("%+v %+v %+v", r, r.Pairs, r.Replays)
				}
				page, err := table.List(t.Context(), onced.ListRequest{Tenant: "acme", State: onced.StateInProgress})
				if err != nil || len(page.Records) > 0 {
					t.Errorf("%d reservations are left, %v", len(page.Records), err)
				}
			})
		})
	}
}

// TestFaults: what is refused or wrong is seen.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		result onced.ReserveResult
		err    error
		run    onced.Code // of Run's error
		code   string     // counted
		want   string     // in the result's error
	}{
		{"unauthenticated", onced.ReserveResult{}, onced.Problemf(onced.CodeUnauthenticated, "no"), onced.CodeUnauthenticated, "unauthenticated", "no call succeeded"},
		{"unavailable", onced.ReserveResult{}, &onced.Problem{Code: onced.CodeUnavailable, RetryAfter: time.Second}, "", "unavailable", "no call succeeded"},
		{"a new key replayed", onced.ReserveResult{Replayed: true}, nil, "", "", "answers were wrong"},
		{"a second attempt", onced.ReserveResult{Record: onced.Record{Token: 1, Attempt: 2}}, nil, "", "", "answers were wrong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := slow{Keeper: keeper(), fault: func(onced.Key) (onced.ReserveResult, error, bool) { return c.result, c.err, true }}
				r, err := Run(t.Context(), options(Pairs), "acme", []onced.Keeper{k}, progress.New(io.Discard))
				if onced.CodeOf(err) != c.run || c.code != "" && r.Errors[c.code] == 0 || r.Err() == nil || !strings.Contains(r.Err().Error(), c.want) {
					t.Errorf("%v, %+v, %v", err, r, r.Err())
				}
			})
		})
	}
}

// TestWrongReplay: a replay with another answer is seen.
func TestWrongReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[onced.Key]bool{}
		k := slow{Keeper: keeper(), fault: func(key onced.Key) (onced.ReserveResult, error, bool) {
			again := seen[key]
			seen[key] = true
			return onced.ReserveResult{Replayed: true, Record: onced.Record{Response: &onced.Response{Status: 500}}}, nil, again
		}}
		o := options(Mixed)
		o.Concurrency = 1
		r, err := Run(t.Context(), o, "acme", []onced.Keeper{k}, progress.New(io.Discard))
		if err != nil || !errors.Is(r.Err(), ErrWrong) || !strings.Contains(r.Err().Error(), "not replayed") {
			t.Errorf("%v, %v", err, r.Err())
		}
	})
}

// TestInterrupted: a run that is cut ends its pairs, and tells what it measured.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		table := keeper()
		r, err := Run(ctx, options(Pairs), "acme", []onced.Keeper{slow{Keeper: table}}, progress.New(io.Discard))
		if !errors.Is(err, context.Canceled) || r.Pairs == nil || r.Seconds > 0.4 || len(r.Errors) > 0 {
			t.Errorf("%v, %+v", err, r)
		}
		page, err := table.List(t.Context(), onced.ListRequest{Tenant: "acme", State: onced.StateInProgress})
		if err != nil || len(page.Records) > 0 {
			t.Errorf("%d reservations are left, %v", len(page.Records), err)
		}
	})
}

func TestTable(t *testing.T) {
	r := Result{Mode: Pairs, Prefix: "bench-x", Seconds: 2, Concurrency: 64, Nodes: 1, BodyBytes: 300,
		Pairs: &Figures{Count: 12345, PerSecond: 6172.5, P50: 1.234, P90: 12.34, P99: 123.4, P999: 1234, Max: 12345}, Errors: map[string]int{"unavailable": 1000, "rate_limited": 1}}
	var table, line strings.Builder
	if err := errors.Join(r.WriteTable(&table), r.WriteJSON(&line)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"64 callers on 1 node for 2.0 s", "pair   12,345        6,173   1.23 ms   12 ms   123 ms   1234 ms   12345 ms", "1 rate_limited, 1,000 unavailable"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	var back Result
	if err := json.Unmarshal([]byte(line.String()), &back); err != nil || back.Pairs.Count != 12345 || back.Replays != nil {
		t.Errorf("%v, %s", err, line.String())
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--duration":    func(o *Options) { o.Duration = 0 },
		"--concurrency": func(o *Options) { o.Concurrency = 0 },
		"--body-bytes":  func(o *Options) { o.BodyBytes = -1 },
		"--retention":   func(o *Options) { o.Retention = time.Second },
	} {
		o := options(Pairs)
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
