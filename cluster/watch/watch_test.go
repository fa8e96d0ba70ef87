package watch

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced"
)

func id(key string) onced.ID { return onced.ID{Tenant: "t", Key: onced.Key(key)} }

func woken(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func watch(t *testing.T, w *Watchers, key string) (<-chan struct{}, func()) {
	t.Helper()
	ch, stop, err := w.Watch(id(key))
	if err != nil {
		t.Fatal(err)
	}
	return ch, stop
}

func TestWakeWakesItsOwn(t *testing.T) {
	w := New(10)
	a1, stopA1 := watch(t, w, "a")
	a2, stopA2 := watch(t, w, "a")
	b, stopB := watch(t, w, "b")
	w.Wake([]onced.ID{id("c"), id("a")})
	if !woken(a1) || !woken(a2) || woken(b) {
		t.Errorf("woken: a1 %v, a2 %v, b %v", woken(a1), woken(a2), woken(b))
	}
	again, stopAgain := watch(t, w, "a")
	stopA1() // after the wake: must not take the new watcher's place
	stopA2()
	if woken(again) || w.Len() != 2 {
		t.Errorf("a new watch is woken: %v; %d watch", woken(again), w.Len())
	}
	w.Wake([]onced.ID{id("a")})
	if !woken(again) {
		t.Error("a watch that began after the first wake missed the second")
	}
	stopAgain()
	stopB()
	stopB()
	if w.Len() != 0 || len(w.byID) != 0 {
		t.Errorf("%d watchers and %d records are left", w.Len(), len(w.byID))
	}
}

func TestOtherScopeAndTenantSleep(t *testing.T) {
	w := New(10)
	ch, stop := watch(t, w, "a")
	defer stop()
	w.Wake([]onced.ID{{Tenant: "u", Key: "a"}, {Tenant: "t", Scope: "s", Key: "a"}})
	if woken(ch) {
		t.Error("another tenant's or scope's record woke it")
	}
}

func TestBound(t *testing.T) {
	w := New(2)
	_, stop := watch(t, w, "a")
	watch(t, w, "a")
	if _, _, err := w.Watch(id("b")); !errors.Is(err, ErrTooMany) {
		t.Fatalf("a third watch: %v", err)
	}
	stop()
	watch(t, w, "b")
	w.Wake([]onced.ID{id("a"), id("b")})
	watch(t, w, "c")
	watch(t, w, "d")
	if _, _, err := w.Watch(id("e")); !errors.Is(err, ErrTooMany) {
		t.Fatalf("a third watch after a wake: %v", err)
	}
}

func TestWakeAll(t *testing.T) {
	w := New(10)
	a, stopA := watch(t, w, "a")
	b, stopB := watch(t, w, "b")
	w.WakeAll()
	stopA()
	stopB()
	if !woken(a) || !woken(b) || w.Len() != 0 {
		t.Errorf("woken: %v, %v; %d watch", woken(a), woken(b), w.Len())
	}
}

// A watcher registers, then looks; a waker writes, then wakes. Nobody may sleep through
// the write.
func TestNoWakeIsLost(t *testing.T) {
	const rounds = 3000
	w := New(100)
	for round := range rounds {
		var table atomic.Bool
		key := id(strconv.Itoa(round % 3))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				ch, stop, err := w.Watch(key)
				if err != nil {
					t.Error(err)
					return
				}
				defer stop()
				if table.Load() {
					return
				}
				select {
				case <-ch:
				case <-time.After(10 * time.Second):
					t.Errorf("round %d: slept through the write", round)
				}
			})
		}
		wg.Go(func() {
			table.Store(true)
			w.Wake([]onced.ID{key})
		})
		wg.Wait()
	}
	if w.Len() != 0 || len(w.byID) != 0 {
		t.Errorf("%d watchers and %d records are left", w.Len(), len(w.byID))
	}
}

func BenchmarkWakeNobody(b *testing.B) {
	w := New(10)
	ids := []onced.ID{id("a"), id("b")}
	b.ReportAllocs()
	for b.Loop() {
		w.Wake(ids)
	}
}
