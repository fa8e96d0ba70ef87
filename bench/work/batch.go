package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Batches lets n callers reserve and complete new keys by batches of so many operations. Its figures count pairs, and time batches of pairs.
func (l *Load) Batches(ctx context.Context, n, operations int, during time.Duration) (Figures, error) {
	doors := dial(l.sys.Doors(), callWithin)
	defer hangUp(doors)
	all := callers(doors, n)
	key := l.keys("b")
	var pairs atomic.Uint64
	f := closed(ctx, n, during, func(caller, i int) error {
		b := batch{caller: all[caller], answer: l.answer}
		for j := range operations {
			b.keys = append(b.keys, key(caller, i*operations+j))
		}
		err := b.pairs(ctx)
		if err == nil {
			pairs.Add(uint64(operations))
		}
		return err
	})
	err := errors.Join(ctx.Err(), f.Err())
	f.Count = pairs.Load()
	return f, err
}

// batch is pairs that are sent together.
type batch struct {
	*caller
	keys    []string
	answer  string
	answers func(i int) string // of each key, where they differ; then answer is not used
	more    string             // members of each reserve, after the others
	again   int                // how often what was refused by 503 is sent once more
	tokens  []int64
}

// pairs reserves the keys by one batch and completes them by another.
func (b *batch) pairs(ctx context.Context) error {
	b.tokens = make([]int64, len(b.keys))
	err := b.each(ctx, fasthttp.StatusCreated, func(body []byte, i int) []byte {
		body = append(append(body, `{"op":"reserve","fingerprint":"`+fingerprint+`","key":"`...), b.keys[i]...)
		return append(append(append(body, '"'), b.more...), '}')
	})
	if err != nil {
		return fmt.Errorf("reserve in a batch: %w", err)
	}
	err = b.each(ctx, fasthttp.StatusOK, func(body []byte, i int) []byte {
		body = append(append(body, `{"op":"complete","key":"`...), b.keys[i]...)
		body = strconv.AppendInt(append(body, `","token":`...), b.tokens[i], 10)
		answer := b.answer
		if b.answers != nil {
			answer = b.answers(i)
		}
		return append(append(append(body, `,"response":`...), answer...), '}')
	})
	if err != nil {
		return fmt.Errorf("complete in a batch: %w", err)
	}
	return nil
}

// betweenTries is what a batch waits before it sends again what was refused.
const betweenTries = 200 * time.Millisecond

// each sends one operation for each key, and notes the tokens it comes to.
func (b *batch) each(ctx context.Context, want int, operation func(body []byte, i int) []byte) error {
	left := make([]int, len(b.keys))
	for i := range left {
		left[i] = i
	}
	for try := 0; ; try++ {
		results, err := b.send(left, operation)
		if err != nil {
			return err
		}
		var refused []int
		for j, r := range results {
			switch i := left[j]; {
			case r.Status == want:
				b.tokens[i] = max(b.tokens[i], r.Token)
			case r.Status == fasthttp.StatusServiceUnavailable && try < b.again && ctx.Err() == nil:
				refused = append(refused, i)
			default:
				return fmt.Errorf("status %d", r.Status)
			}
		}
		if left = refused; len(left) == 0 {
			return nil
		}
		pause(ctx, betweenTries)
	}
}

// send sends the operations of some keys.
func (b *batch) send(some []int, operation func(body []byte, i int) []byte) ([]answered, error) {
	b.body = append(b.body[:0], `{"operations":[`...)
	for j, i := range some {
		if j > 0 {
			b.body = append(b.body, ',')
		}
		b.body = operation(b.body, i)
	}
	b.body = append(b.body, `]}`...)
	if err := b.post("/v1/batch", b.body); err != nil {
		return nil, err
	}
	var got struct {
		Results []answered `json:"results"`
	}
	if b.response.StatusCode() != fasthttp.StatusOK {
		return nil, b.refused("batch")
	}
	if err := json.Unmarshal(b.response.Body(), &got); err != nil {
		return nil, err
	}
	if len(got.Results) != len(some) {
		return nil, fmt.Errorf("batch of %d: %d results", len(some), len(got.Results))
	}
	return got.Results, nil
}
