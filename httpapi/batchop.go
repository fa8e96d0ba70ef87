package httpapi

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"onced"
	"onced/internal/wire"
)

// runPlace runs one operation. A panic must not end the process: it is caught here, as that of a
// handler is.
func (b *batch) runPlace(i int) {
	request := b.operations[i].Request
	name, id := nameOf(request)
	defer func() {
		if reason := recover(); reason != nil {
			b.Logger.LogAttrs(b.r.Context(), slog.LevelError, "panic in a batch", append(b.seen.attrs(b.r), slog.Any("reason", reason),
				slog.String("op", name), slog.String("op_key_digest", id.Digest()), slog.String("stack", string(debug.Stack())))...)
			b.refusePlace(i, name, b.seen.brokenDown())
		}
	}()
	result, outcome, err := b.decide(request)
	if err != nil {
		b.refusePlace(i, name, err)
		return
	}
	b.results[i] = result
	b.count(name, outcome)
}

// decide asks the Keeper as the call of its own would.
func (b *batch) decide(request any) (result wire.Result, outcome string, err error) {
	switch r := request.(type) {
	case onced.ReserveRequest:
		return b.decideReserve(r)
	case onced.CompleteRequest:
		if err := b.checkResponse(r.Response); err != nil {
			return wire.Result{}, "", err
		}
		rec, err := b.Keeper.Complete(b.holding, r)
		rec.Response = nil
		return wire.NewResult(http.StatusOK, wire.AppendRecord(nil, rec)), "ok", err
	case onced.ReleaseRequest:
		err := b.Keeper.Release(b.holding, r)
		return wire.NewResult(http.StatusOK, wire.AppendReleased(nil, r.Key)), "ok", err
	case onced.RenewRequest:
		rec, err := b.Keeper.Renew(b.holding, r)
		return wire.NewResult(http.StatusOK, wire.AppendRenewed(nil, rec)), "ok", err
	}
	panic("httpapi: an operation of a batch is none of its calls")
}

func (b *batch) decideReserve(r onced.ReserveRequest) (wire.Result, string, error) {
	granted, err := b.Keeper.Reserve(b.asking, r)
	if err != nil {
		return wire.Result{}, "", err
	}
	if !granted.Replayed {
		return wire.NewResult(http.StatusCreated, wire.AppendReserveResult(nil, granted)), "reserved", nil
	}
	result := wire.NewResult(http.StatusOK, wire.AppendReserveResult(nil, granted))
	if b.replays.Add(int64(len(result.Body))) > b.room.replays {
		return wire.Result{}, "", onced.Problemf(onced.CodeUnavailable, "the stored answers of this batch have more than %d bytes; reserve this key in another batch or alone", b.room.replays)
	}
	return result, "replayed", nil
}

// refuseChain answers for a chain that found no slot in time.
func (b *batch) refuseChain(ch *chain) {
	for _, i := range ch.places {
		name, _ := nameOf(b.operations[i].Request)
		b.refusePlace(i, name, onced.Problemf(onced.CodeUnavailable, "this node has more operations of batches under way than it takes; nothing was done"))
	}
}

// refusePlace makes err the result of one operation; name is "" where it is not known.
func (b *batch) refusePlace(i int, name string, err error) {
	p := problemOf(err)
	b.results[i] = wire.ProblemResult(p)
	if name != "" {
		b.count(name, string(p.Code))
	}
}

func (b *batch) count(name, outcome string) {
	if b.Metrics != nil {
		b.Metrics.Operation(name, outcome)
	}
}
