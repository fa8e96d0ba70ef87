package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"onced"
	"onced/chaos/history"
	"onced/client"
)

const (
	workLease = 2 * time.Second
	// bringToEnd is how long a holder goes on telling how its operation ended.
	bringToEnd = 40 * time.Second
	// recentKeys is how many of the last keys are asked for again.
	recentKeys = 16
)

// issued gives out keys: new ones, and now and then one that somebody else has.
type issued struct {
	mu   sync.Mutex
	last int
}

func (i *issued) key(round, kind string, again bool, chance *rand.Rand) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := i.last
	if again && n > 0 {
		n -= chance.IntN(min(n, recentKeys))
	} else {
		i.last++
		n = i.last
	}
	return fmt.Sprintf("%s-%s-%d", round, kind, n)
}

// work reserves, runs the operation and completes, as an application does, by the Go client.
func (l *Load) work(ctx context.Context, id int, chance *rand.Rand) {
	keeper, err := client.New(client.Config{
		Nodes: rotated(l.Doors.APIs, id), Timeout: 8 * time.Second, TryTimeout: 1500 * time.Millisecond,
		Tenant: "default",
	})
	if err != nil {
		panic(err) // the addresses are our own
	}
	defer keeper.Close(context.Background())
	w := &worker{Load: l, keeper: keeper, chance: chance, life: ctx}
	for n := 0; ctx.Err() == nil; n++ {
		w.once(fmt.Sprintf("w%d-%d", id, n))
		rest(ctx, upTo(chance, 20*time.Millisecond))
	}
}

func rotated(urls []string, by int) []string {
	by %= len(urls)
	return append(append([]string(nil), urls[by:]...), urls[:by]...)
}

type worker struct {
	*Load
	keeper *client.Client
	chance *rand.Rand
	life   context.Context // ends with the round
}

// operation is one key in a worker's hands.
type operation struct {
	id    onced.ID
	owner string
	retry bool
	token onced.Token
}

// once takes one key as far as it comes.
func (w *worker) once(owner string) {
	o := operation{owner: owner, retry: w.chance.IntN(5) == 0}
	kind := "hold"
	if o.retry {
		kind = "again"
	}
	o.id = onced.ID{Key: onced.Key(w.issued.key(w.Round, kind, w.chance.IntN(5) < 2, w.chance))}
	if !w.reserve(&o) {
		return
	}
	switch dice := w.chance.IntN(20); {
	case dice == 0: // nothing was sent
		w.settle(o, "release", func(ctx context.Context) error {
			return w.keeper.Release(ctx, onced.ReleaseRequest{ID: o.id, Token: o.token})
		})
		return
	case dice == 1: // the holder dies with the operation done
		w.execute(o)
		return
	case dice == 2: // it may have happened
		w.execute(o)
		w.settle(o, "complete(unknown)", func(ctx context.Context) error {
			_, err := w.keeper.Complete(ctx, onced.CompleteRequest{ID: o.id, Token: o.token, Unknown: true})
			return err
		})
		return
	case dice == 3: // slower than its lease
		w.execute(o)
		rest(context.Background(), workLease+upTo(w.chance, workLease/2))
	case dice < 8:
		w.execute(o)
		w.settle(o, "renew", func(ctx context.Context) error {
			_, err := w.keeper.Renew(ctx, onced.RenewRequest{ID: o.id, Token: o.token})
			return err
		})
	default:
		w.execute(o)
		rest(context.Background(), upTo(w.chance, 10*time.Millisecond))
	}
	w.complete(o)
}

// reserve asks for the key, once or a few times more where the advice is to ask again. It tells whether it was granted.
func (w *worker) reserve(o *operation) bool {
	lapse := onced.Hold
	if o.retry {
		lapse = onced.Retry
	}
	for try := 0; w.life.Err() == nil && try < 3; try++ {
		begin := w.Book.Now()
		w.Book.Called()
		r, err := w.keeper.Reserve(context.Background(), onced.ReserveRequest{ID: o.id, Fingerprint: "f", Owner: o.owner, Lease: workLease, OnLapse: lapse})
		end := w.Book.Now()
		switch {
		case err == nil && r.Replayed:
			w.saw(history.Sight{Key: string(o.id.Key), State: "completed", Body: string(r.Record.Response.Body), At: end})
			return false
		case err == nil:
			o.token = r.Record.Token
			w.Book.Wrote()
			w.Book.Note(func(b *history.Book) {
				b.Grants = append(b.Grants, history.Grant{Key: string(o.id.Key), Owner: o.owner, Token: uint64(o.token), Retry: o.retry, Begin: begin, End: end})
			})
			return true
		}
		switch onced.CodeOf(err) {
		case onced.CodeUnavailable:
			w.cancel(*o)
			return false
		case onced.CodeRequestInProgress:
			rest(w.life, onced.AsProblem(err).RetryAfter)
		default:
			return false
		}
	}
	return false
}

// cancel takes back what a reserve that was given up may have got, until it is acknowledged.
func (w *worker) cancel(o operation) {
	w.settle(o, "cancel", func(ctx context.Context) error {
		return w.keeper.Release(ctx, onced.ReleaseRequest{ID: o.id, Owner: o.owner})
	})
}

// execute is the operation itself.
func (w *worker) execute(o operation) {
	w.Book.Note(func(b *history.Book) {
		for i := len(b.Grants) - 1; i >= 0; i-- {
			if g := &b.Grants[i]; g.Token == uint64(o.token) && g.Owner == o.owner {
				g.Executed = true
				return
			}
		}
	})
}

func (w *worker) complete(o operation) {
	body := fmt.Sprintf("%s by %s with %d", o.id.Key, o.owner, o.token)
	done := history.Completion{Key: string(o.id.Key), Token: uint64(o.token), Body: body, At: w.Book.Now()}
	w.Book.Note(func(b *history.Book) { b.Completions = append(b.Completions, done) })
	acked := w.settle(o, "complete", func(ctx context.Context) error {
		_, err := w.keeper.Complete(ctx, onced.CompleteRequest{ID: o.id, Token: o.token, Response: &onced.Response{Status: 200, Body: []byte(body)}})
		return err
	})
	if acked {
		done.Acked, done.At = true, w.Book.Now()
		w.Book.Note(func(b *history.Book) { b.Completions = append(b.Completions, done) })
	}
}

// settle repeats a holder's call until it is decided, and tells whether it was accepted.
func (w *worker) settle(o operation, verb string, call func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), bringToEnd)
	defer cancel()
	for {
		w.Book.Called()
		err := call(ctx)
		switch {
		case err == nil:
			w.Book.Wrote()
			return true
		case onced.CodeOf(err) != onced.CodeUnavailable:
			w.Book.Note(func(b *history.Book) {
				b.Refusals = append(b.Refusals, history.Refusal{Key: string(o.id.Key), Token: uint64(o.token), Verb: verb, Code: string(onced.CodeOf(err)), Retry: o.retry, At: b.Now()})
			})
			return false
		case ctx.Err() != nil:
			return false
		}
		rest(ctx, 100*time.Millisecond)
	}
}

func (l *Load) saw(s history.Sight) {
	l.Book.Note(func(b *history.Book) { b.Sights = append(b.Sights, s) })
}
