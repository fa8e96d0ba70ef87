package httpapi

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"onced"
	"onced/internal/wire"
)

const (
	// maxBatchBytes bounds the body of a batch.
	maxBatchBytes = 8 << 20
	// maxBatchReplays bounds the stored answers in the answer to a batch, which would else be a thousand times
	// the largest one. What is beyond it is refused, and can be asked for alone.
	maxBatchReplays = 64 << 20
	// batchSlots is how many keys of batches are under way on a node at once, counted for chains with a
	// holder's call and for those of reserves alone, so that reserves never keep a holder waiting.
	batchSlots = 8192
)

// batchRoom is what batches may take of a node: a slot for each key that is under way, and bytes of
// stored answers for each batch.
type batchRoom struct {
	holders, reserves chan struct{}
	replays           int64
}

func newBatchRoom(slots int, replays int64) batchRoom {
	return batchRoom{holders: make(chan struct{}, slots), reserves: make(chan struct{}, slots), replays: replays}
}

// chain are the operations of a batch on one key, by their places, in their order.
type chain struct {
	places []int
	holder bool // one of them is no reserve
}

// batch is one batch under way. Chains run together, so that they share log entries; each
// result is written by the goroutine of its chain alone.
type batch struct {
	*call
	operations []wire.Operation
	results    []wire.Result
	asking     context.Context // of reserves: ends when the client hangs up
	holding    context.Context // of everything else: goes on
	replays    atomic.Int64    // bytes of stored answers, as JSON
}

func (c *call) batch() error {
	data, err := c.body(maxBatchBytes, onced.Problemf(onced.CodeRequestTooLarge, "the batch is longer than %d bytes", maxBatchBytes))
	if err != nil {
		return err
	}
	operations, err := wire.DecodeBatch(data, c.id.Tenant)
	if err != nil {
		return err
	}
	b := &batch{call: c, operations: operations, results: make([]wire.Result, len(operations))}
	var cancelAsking, cancelHolding context.CancelFunc
	b.asking, cancelAsking = c.context(0, false)
	defer cancelAsking()
	b.holding, cancelHolding = c.context(0, true)
	defer cancelHolding()
	b.run()
	c.answer(http.StatusOK, "ok", wire.AppendResults(nil, b.results))
	return nil
}

// run runs every chain to its end. Holders' chains come first to a slot.
func (b *batch) run() {
	holders, reserves := b.chains()
	var running sync.WaitGroup
	b.start(b.holding, b.room.holders, holders, &running)
	b.start(b.asking, b.room.reserves, reserves, &running)
	running.Wait()
}

// start runs each chain in a goroutine of its own, as soon as it has a slot. Those that have none by the
// end of ctx are refused.
func (b *batch) start(ctx context.Context, slots chan struct{}, chains []*chain, running *sync.WaitGroup) {
	for _, ch := range chains {
		if !take(ctx, slots) {
			b.refuseChain(ch)
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			for _, i := range ch.places {
				b.runPlace(i)
			}
		})
	}
}

// take takes a slot, and tells whether there was one before the end of ctx.
func take(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // both were so, and chance took the slot
		<-slots
		return false
	}
	return true
}

// chains returns the operations by key, in the order of each key's first one: those with a holder's call,
// and those of reserves alone. What is malformed gets its result.
func (b *batch) chains() (holders, reserves []*chain) {
	byKey := map[onced.ID]*chain{}
	var all []*chain
	for i, operation := range b.operations {
		if operation.Err != nil {
			b.refusePlace(i, "", operation.Err)
			continue
		}
		name, id := nameOf(operation.Request)
		ch := byKey[id]
		if ch == nil {
			ch = &chain{}
			byKey[id], all = ch, append(all, ch)
		}
		ch.places = append(ch.places, i)
		ch.holder = ch.holder || name != "reserve"
	}
	for _, ch := range all {
		if ch.holder {
			holders = append(holders, ch)
		} else {
			reserves = append(reserves, ch)
		}
	}
	return holders, reserves
}

// nameOf returns the call that a request is of, and its key.
func nameOf(request any) (string, onced.ID) {
	switch r := request.(type) {
	case onced.ReserveRequest:
		return "reserve", r.ID
	case onced.CompleteRequest:
		return "complete", r.ID
	case onced.ReleaseRequest:
		return "release", r.ID
	case onced.RenewRequest:
		return "renew", r.ID
	}
	panic("httpapi: an operation of a batch is none of its calls")
}
