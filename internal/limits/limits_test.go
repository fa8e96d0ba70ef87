package limits

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"onced"
	"onced/fsm/memkeeper"
)

func reserve(k onced.Keeper, tenant, key string) (onced.Token, error) {
	r, err := k.Reserve(context.Background(), onced.ReserveRequest{ID: onced.ID{Tenant: tenant, Key: onced.Key(key)}, Lease: time.Hour})
	return r.Record.Token, err
}

// A pause gives the burst back, and no more than that.
func TestRateAndBurst(t *testing.T) {
	for _, c := range []struct {
		rate         float64
		burst        int
		pause        time.Duration
		first, later int // admitted at once at the beginning, and after the pause
	}{
		{rate: 10, first: 10, pause: time.Hour, later: 10},
		{rate: 10, burst: 25, first: 25, pause: time.Second, later: 10},
		{rate: 10, burst: 1, first: 1, pause: 250 * time.Millisecond, later: 1},
		{rate: 0.5, first: 1, pause: 2 * time.Second, later: 1},
		{rate: 0.5, burst: 3, first: 3, pause: 4 * time.Second, later: 2},
		{rate: 2.5, first: 3, pause: time.Hour, later: 3},
	} {
		r := newRates(c.rate, c.burst)
		now := time.Now()
		admitted := func() (n int) {
			for r.take("t", now) == 0 {
				n++
			}
			return n
		}
		if n := admitted(); n != c.first {
			t.Errorf("%+v: %d at once", c, n)
		}
		now = now.Add(c.pause)
		if n := admitted(); n != c.later {
			t.Errorf("%+v: %d after the pause", c, n)
		}
	}
}

// What a refusal says of the time is true: before it there is another refusal, then a yes.
func TestRetryAfterIsHonest(t *testing.T) {
	r := newRates(3, 2)
	now := time.Now()
	for range 2 {
		if r.take("t", now) != 0 {
			t.Fatal("the burst is refused")
		}
	}
	for range 5 {
		wait := r.take("t", now)
		if wait <= 0 || wait > time.Second/3+1 {
			t.Fatalf("wait %s", wait)
		}
		if again := r.take("t", now.Add(wait-1)); again != 1 {
			t.Errorf("a moment too early: wait %s", again)
		}
		now = now.Add(wait)
		if again := r.take("t", now); again != 0 {
			t.Errorf("at the time that was said: wait another %s", again)
		}
	}
}

// Tenants do not take each other's rate, and those that were quiet are forgotten.
func TestTenantsApart(t *testing.T) {
	r := newRates(1, 1)
	now := time.Now()
	for i := range 5000 {
		if r.take(fmt.Sprint("quiet", i), now) != 0 {
			t.Fatalf("tenant %d pays for others", i)
		}
		now = now.Add(100 * time.Millisecond)
		if n := len(r.paid); n > 1024 {
			t.Fatalf("%d tenants are remembered, of which 10 are busy", n)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	r := newRates(0.001, 1)
	r.most = 2000
	now := time.Now()
	if r.take("greedy", now) != 0 || r.take("greedy", now.Add(time.Second)) == 0 {
		t.Fatal("the rate is not kept")
	}
	for i := range 20 * r.most {
		r.take(fmt.Sprint(i), now)
		if len(r.paid) > r.most {
			t.Fatalf("%d tenants are remembered", len(r.paid))
		}
	}
}

// A flood of reserves is refused; whoever holds a reservation completes, renews and releases all
// the while, and another tenant reserves.
func TestFloodRefusesReservesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := Keeper(memkeeper.New(func() onced.Instant { return onced.InstantOf(time.Now()) }), Config{Rate: 100, Burst: 100})
		ctx := context.Background()
		var tokens [60]onced.Token
		for i := range tokens {
			var err error
			if tokens[i], err = reserve(k, "noisy", fmt.Sprint("held", i)); err != nil {
				t.Fatal(err)
			}
		}
		var granted, refused atomic.Int64
		var flood sync.WaitGroup
		for i := range 50 {
			flood.Go(func() {
				for j := range 200 {
					switch _, err := reserve(k, "noisy", fmt.Sprint(i, "-", j)); onced.CodeOf(err) {
					case "":
						granted.Add(1)
					case onced.CodeRateLimited:
						refused.Add(1)
					default:
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for i, token := range tokens {
			id := onced.ID{Tenant: "noisy", Key: onced.Key(fmt.Sprint("held", i))}
			if _, err := k.Renew(ctx, onced.RenewRequest{ID: id, Token: token}); err != nil {
				t.Errorf("renew: %v", err)
			}
			var err error
			switch i % 3 {
			case 0:
				_, err = k.Complete(ctx, onced.CompleteRequest{ID: id, Token: token, Response: &onced.Response{Status: 200}})
			case 1:
				err = k.Release(ctx, onced.ReleaseRequest{ID: id, Token: token})
			case 2:
				err = k.Release(ctx, onced.ReleaseRequest{ID: id, Owner: "nobody"})
			}
			if err != nil {
				t.Errorf("settling: %v", err)
			}
			time.Sleep(time.Millisecond)
		}
		if _, err := reserve(k, "calm", "k"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		flood.Wait()
		// 200 ms at 100 a second, and the 40 that the burst still had.
		if n := granted.Load(); n < 55 || n > 62 || refused.Load() != 10_000-n {
			t.Errorf("%d granted, %d refused", n, refused.Load())
		}
	})
}

func TestQuota(t *testing.T) {
	k := Keeper(memkeeper.New(func() onced.Instant { return 1 }), Config{MaxKeys: 2})
	token, err := reserve(k, "a", "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reserve(k, "a", "2"); err != nil {
		t.Fatal(err)
	}
	_, err = reserve(k, "a", "3")
	if p := onced.AsProblem(err); p.Code != onced.CodeQuotaExceeded || p.RetryAfter <= 0 {
		t.Errorf("the third: %v", err)
	}
	if _, err := reserve(k, "a", "2"); onced.CodeOf(err) != onced.CodeRequestInProgress {
		t.Errorf("a key that has a record: %v", err)
	}
	if _, err := reserve(k, "b", "3"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	id := onced.ID{Tenant: "a", Key: "1"}
	if _, err := k.Complete(context.Background(), onced.CompleteRequest{ID: id, Token: token, Response: &onced.Response{Status: 200}}); err != nil {
		t.Errorf("complete: %v", err)
	}
	if err := k.Release(context.Background(), onced.ReleaseRequest{ID: onced.ID{Tenant: "a", Key: "2"}, Owner: "x"}); err != nil {
		t.Errorf("release: %v", err)
	}
}

// The quota of the node is the most that a caller can be given.
func TestQuotaOfTheCallerIsKept(t *testing.T) {
	k := Keeper(memkeeper.New(func() onced.Instant { return 1 }), Config{MaxKeys: 5})
	for want, quota := range map[int]int64{1: 1, 5: 9} {
		granted := 0
		for i := range 10 {
			r := onced.ReserveRequest{ID: onced.ID{Tenant: fmt.Sprint("t", quota), Key: onced.Key(fmt.Sprint(i))}, MaxKeys: quota}
			if _, err := k.Reserve(context.Background(), r); err == nil {
				granted++
			}
		}
		if granted != want {
			t.Errorf("quota %d: %d granted, want %d", quota, granted, want)
		}
	}
}

func TestNoBounds(t *testing.T) {
	k := memkeeper.New(func() onced.Instant { return 1 })
	if Keeper(k, Config{}) != onced.Keeper(k) {
		t.Error("a Keeper without bounds is wrapped")
	}
}
