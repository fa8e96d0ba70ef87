package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"onced/internal/demo"
	"onced/internal/histogram"
)

// Charged is what became of the workload of requests.
type Charged struct {
	Unique, Repeats *histogram.Histogram
	Seconds         float64
	Double          int // keys that were charged more than once, by the provider's own count
	Unknown         int // requests that ended without an answer that anybody could give
}

const (
	askAgain = 10 * time.Millisecond // after a refusal that advises the same key
	patience = 30 * time.Second      // for one request
	// unknownFor is how long a client goes on asking about an outcome that is unknown: a late answer may still be stored, but nobody can promise one.
	unknownFor = 2 * time.Second
)

// Charge sends a first request for each of keys keys and so many repeats, shuffled, by n clients; times count to the answer, with whatever had to
// be sent again. kill is called half-way if it is not nil.
func (l *Load) Charge(ctx context.Context, keys, repeats, n int, kill func() error) (Charged, error) {
	steps := shuffled(keys, repeats)
	before, beforeKeys, err := l.sys.Counted(ctx)
	if err != nil {
		return Charged{}, err
	}
	doors := dial(l.sys.Charges(), callWithin)
	defer hangUp(doors)
	got := Charged{Unique: new(histogram.Histogram), Repeats: new(histogram.Histogram)}
	space := l.prefix + fmt.Sprintf("-c%d", rand.Uint32())
	var next, unknown atomic.Int64
	var killed error
	var working sync.WaitGroup
	begun := time.Now()
	for _, c := range callers(doors, n) {
		working.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(steps) {
					return
				}
				if i == len(steps)/2 && kill != nil {
					killed = kill()
				}
				took, ok := c.charge(ctx, fmt.Sprintf("%s-%06d", space, steps[i].key), steps[i].key)
				switch {
				case !ok:
					unknown.Add(1)
				case steps[i].repeat:
					got.Repeats.Add(took)
				default:
					got.Unique.Add(took)
				}
			}
		})
	}
	working.Wait()
	got.Seconds, got.Unknown = time.Since(begun).Seconds(), int(unknown.Load())
	after, afterKeys, err := l.sys.Counted(ctx)
	// Every charge beyond the first of a key is one too many.
	got.Double = (after - before) - (afterKeys - beforeKeys)
	return got, errors.Join(ctx.Err(), err, killed)
}

// step is one request.
type step struct {
	key    int
	repeat bool
}

// shuffled is the same order at every call. The repeats fall on as many keys as possible.
func shuffled(keys, repeats int) []step {
	random := rand.New(rand.NewPCG(7, 0))
	var steps []step
	order := random.Perm(keys)
	for key := range keys {
		steps = append(steps, step{key: key})
	}
	for i := range repeats {
		steps = append(steps, step{key: order[i%keys]})
	}
	random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	seen := make([]bool, keys)
	for i := range steps {
		steps[i].repeat, seen[steps[i].key] = seen[steps[i].key], true
	}
	return steps
}

// charge sends one request until there is an answer, at the next door after one that gave none. It is not ok when nobody can tell, or nothing is left to ask.
func (c *caller) charge(ctx context.Context, key string, amount int) (took time.Duration, ok bool) {
	begun := time.Now()
	c.next()
	body := fmt.Appendf(nil, `{"order":%q,"amount":%d}`, key, 100+amount)
	var unknownSince time.Time
	for ctx.Err() == nil && time.Since(begun) < patience {
		err := c.post("/charge", body, "Idempotency-Key", key, demo.AccountHeader, demo.Account)
		switch {
		case err != nil:
			c.next()
		case c.response.StatusCode() == fasthttp.StatusCreated:
			return time.Since(begun), true
		case c.response.StatusCode() < 400:
			return 0, false
		case !c.unknown():
			unknownSince = time.Time{}
		case unknownSince.IsZero():
			unknownSince = time.Now()
		case time.Since(unknownSince) > unknownFor:
			return 0, false
		}
		pause(ctx, askAgain)
	}
	return 0, false
}

// unknown tells whether the last answer says that nobody knows what became of the request.
func (c *caller) unknown() bool {
	return bytes.Contains(c.response.Body(), []byte(`"outcome_unknown"`))
}
