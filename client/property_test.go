package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced"
	"onced/client"
)

// TestOnce sends many reserves of few keys through clients of their own over a network that
// loses, delays, cuts and garbles. Each key is granted once at most; who has it completes it, and
// afterwards nothing is left that nobody holds.
func TestOnce(t *testing.T) {
	for round := range 10 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, once)
		})
	}
}

const (
	onceKeys    = 12
	oncePerKey  = 6
	faultChance = 0.6
)

func once(t *testing.T) {
	faults := []act{refuse, cut, lose, later, hang, shed, garble, gateway502}
	n := newNetwork(func(*http.Request) act { // under the network's lock
		if rand.Float64() < faultChance {
			return faults[rand.IntN(len(faults))]
		}
		return deliver
	})
	n.delay = func() time.Duration { return rand.N(10 * time.Second) }
	var clients []*client.Client
	for range 3 {
		clients = append(clients, newClient(t, n))
	}
	var mu sync.Mutex
	grants := map[string]int{}
	var callers sync.WaitGroup
	for i := range onceKeys * oncePerKey {
		key, c := fmt.Sprintf("key-%d", i%onceKeys), clients[i%len(clients)]
		start, patience := time.Duration(rand.IntN(3000))*time.Millisecond, time.Duration(rand.IntN(6000))*time.Millisecond
		callers.Go(func() {
			time.Sleep(start)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			r, err := c.Reserve(ctx, reserveOf(key))
			if err != nil || r.Replayed {
				return
			}
			mu.Lock()
			grants[key]++
			mu.Unlock()
			time.Sleep(time.Second)
			ctx, cancel = context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			if _, err := c.Complete(ctx, onced.CompleteRequest{ID: keyOf(key), Token: r.Record.Token, Response: ok()}); err != nil {
				t.Errorf("%s: complete: %v", key, err)
			}
		})
	}
	callers.Wait()
	n.become(always(deliver))
	for _, c := range clients {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	n.late.Wait()
	for i := range onceKeys {
		key := fmt.Sprintf("key-%d", i)
		rec, _ := n.keeper.Get(context.Background(), onced.GetRequest{ID: keyOf(key)})
		switch {
		case grants[key] > 1:
			t.Errorf("%s was granted %d times", key, grants[key])
		case grants[key] == 1 && rec.State != onced.StateCompleted:
			t.Errorf("%s was granted, and is %s", key, rec.State)
		case grants[key] == 0 && rec.State != onced.StateAbsent:
			t.Errorf("%s was granted to nobody, and is %s: a ghost", key, rec.State)
		}
	}
	if len(grants) == 0 {
		t.Error("nothing was granted: the test tests nothing")
	}
}
