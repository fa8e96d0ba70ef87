package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"onced/chaos/history"
)

// chargePatience is how long a client follows the advice for one charge.
const chargePatience = 15 * time.Second

// charge has a provider behind the gateways charge for orders, follows the advice of their answers, and sends some
// orders several times: after an answer that it throws away, and while another client waits for the same.
func (l *Load) charge(ctx context.Context, id int, chance *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		// Two clients share every third order.
		key := fmt.Sprintf("%s-order-%d-%d", l.Round, id, n)
		if n%3 == 0 {
			key = fmt.Sprintf("%s-order-%d", l.Round, n)
		}
		if chance.IntN(6) == 0 { // hangs up, some before the answer is there
			impatient, hangUp := context.WithTimeout(context.Background(), upTo(chance, 60*time.Millisecond))
			l.order(impatient, key, chance)
			hangUp()
		}
		l.Book.Note(func(b *history.Book) {
			b.Tellings = append(b.Tellings, history.Telling{Key: key, Code: "sent", At: b.Now()})
		})
		l.insist(ctx, key, chance)
		rest(ctx, upTo(chance, 60*time.Millisecond))
	}
}

func (l *Load) order(ctx context.Context, key string, chance *rand.Rand) answer {
	header := http.Header{"Idempotency-Key": {key}, "X-Account": {"acme"}}
	return l.send(ctx, http.MethodPost, l.Doors.Gates[chance.IntN(len(l.Doors.Gates))]+"/charge", header, object{"order": key, "amount": 1000})
}

// insist repeats the order until its end is known or the advice is to stop, and notes what it was told.
func (l *Load) insist(round context.Context, key string, chance *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), chargePatience)
	defer cancel()
	told := history.Telling{Key: key, Code: "patience ended"}
	for unknown := 0; ctx.Err() == nil; {
		a := l.order(ctx, key, chance)
		s, pause := a.said(), 100*time.Millisecond
		if after, err := strconv.Atoi(a.header.Get("Retry-After")); err == nil {
			pause = time.Duration(after) * time.Second
		}
		switch {
		case a.err != nil:
		case s.Code == "" && a.status == http.StatusCreated:
			told = history.Telling{Key: key, Body: string(a.body), Replayed: a.header.Get("Idempotency-Replayed") == "true"}
			if !told.Replayed {
				l.Book.Wrote()
			}
			cancel()
			continue
		case s.Code == "outcome_unknown":
			told.Code = s.Code
			if unknown++; unknown > 2 || round.Err() != nil {
				cancel()
				continue
			}
		case s.Retry != "same_key":
			told.Code = s.Code
			cancel()
			continue
		}
		rest(ctx, pause)
	}
	told.At = l.Book.Now()
	l.Book.Note(func(b *history.Book) { b.Tellings = append(b.Tellings, told) })
}

// Repeat sends every order that was answered once more, after everything was healed: each must be told the same.
func (l *Load) Repeat() {
	seen, keys := map[string]bool{}, make(chan string)
	var clients sync.WaitGroup
	for id := range 8 {
		clients.Go(func() {
			chance := rand.New(rand.NewPCG(l.Seed, uint64(1000+id)))
			for key := range keys {
				l.insist(context.Background(), key, chance)
			}
		})
	}
	for _, t := range slices.Clone(l.Book.Tellings) {
		if t.Code == "" && !seen[t.Key] {
			seen[t.Key] = true
			keys <- t.Key
		}
	}
	close(keys)
	clients.Wait()
}
