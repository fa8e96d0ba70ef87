package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"onced"
	"onced/internal/wire"
)

// Middleware returns what makes the operations of a net/http handler happen once: a request with a key
// is reserved, the handler runs, its answer is recorded and only then sent; a repeat gets it
// again. It panics when options.Tenant is nil.
//
// The handler finds its reservation by ReservationOf, and should hand its token on to what it
// calls. Its answer is held in memory until it is recorded: a stream does not pass through.
func Middleware(keeper onced.Keeper, options Options) func(http.Handler) http.Handler {
	m := &middleware{keeper, options.withDefaults()}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !slices.Contains(m.Methods, r.Method) || m.Optional && len(r.Header[onced.KeyHeader]) == 0 {
				next.ServeHTTP(w, r)
				return
			}
			m.protect(w, r, next)
		})
	}
}

type middleware struct {
	keeper onced.Keeper
	Options
}

// operation is one protected request.
type operation struct {
	*middleware
	w   http.ResponseWriter
	r   *http.Request
	id  onced.ID
	fp  string
	got onced.Record // the reservation

	since    time.Time   // the lease began then, or later
	returned atomic.Bool // the handler has: only the recording of its answer is left
}

// reservationKey is where the handler's context has its reservation.
type reservationKey struct{}

// ReservationOf returns the reservation that a handler runs on: its key, token, attempt, and the
// checkpoint of the attempt before. It returns false in a handler that is not protected.
func ReservationOf(ctx context.Context) (onced.Record, bool) {
	rec, ok := ctx.Value(reservationKey{}).(onced.Record)
	return rec, ok
}

// protect takes a request all the way.
func (m *middleware) protect(w http.ResponseWriter, r *http.Request, next http.Handler) {
	o := &operation{middleware: m, w: w, r: r}
	body, err := o.admit()
	if err != nil {
		o.refuse(err)
		return
	}
	granted, err := o.reserve()
	switch {
	case err != nil:
		o.refuse(err)
	case granted.Replayed:
		o.replay(granted.Record)
	default:
		o.got = granted.Record
		o.run(next, body)
	}
}

// admit finds out whose key it is, which, and what for.
func (o *operation) admit() ([]byte, error) {
	tenant, err := o.Tenant(o.r)
	switch {
	case err != nil:
		return nil, err
	case tenant == "":
		return nil, onced.Problemf(onced.CodeUnauthenticated, "nothing says whose request this is")
	}
	key, err := onced.ParseKey(o.r.Header[onced.KeyHeader], onced.MaxHeaderKeyBytes)
	if err != nil {
		return nil, err
	}
	o.id = onced.ID{Tenant: tenant, Key: key}
	if o.Scope != nil {
		o.id.Scope = o.Scope(o.r)
	}
	body, err := o.readBody()
	if err != nil {
		return nil, err
	}
	o.fp = o.Fingerprint(o.r, body)
	return body, nil
}

func (o *operation) readBody() ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(o.w, o.r.Body, o.MaxRequest))
	var beyond *http.MaxBytesError
	switch {
	case errors.As(err, &beyond):
		return nil, onced.Problemf(onced.CodeRequestTooLarge, "the request's body is larger than %d bytes", o.MaxRequest)
	case err != nil:
		return nil, onced.Problemf(onced.CodeInvalidRequest, "the request's body did not arrive whole (%v); nothing was started", err)
	}
	return body, nil
}

// reserve asks the Keeper. Whoever hangs up meanwhile, the request was sent whole, so the operation is wanted.
func (o *operation) reserve() (onced.ReserveResult, error) {
	o.since = time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.r.Context()), o.CallTimeout+o.Wait)
	defer cancel()
	granted, err := o.keeper.Reserve(ctx, onced.ReserveRequest{
		ID: o.id, Fingerprint: o.fp, Lease: o.Lease, Retention: o.Retention,
		Tombstone: o.Tombstone, OnLapse: o.OnLapse, Wait: o.Wait,
	})
	if err != nil || granted.Replayed || time.Since(o.since) < o.Lease {
		return granted, err
	}
	o.since = time.Now()
	// The lease may be over before anything began: nothing may run on a reservation that is not ours any more.
	if _, err := o.keeper.Renew(ctx, onced.RenewRequest{ID: o.id, Token: granted.Record.Token, Lease: o.Lease}); err != nil {
		o.got = granted.Record
		o.insist(ending{outcome: Free})
		return onced.ReserveResult{}, onced.Problemf(onced.CodeUnavailable, "the reservation could not be confirmed in time (%s); nothing was started", onced.CodeOf(err))
	}
	return granted, nil
}

// run runs the handler and sees to its end.
func (o *operation) run(next http.Handler, body []byte) {
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(o.r.Context()), reservationKey{}, o.got))
	defer cancel(nil)
	stop := o.keepLease(cancel)
	defer stop()
	request := o.r.WithContext(ctx)
	request.Body = io.NopCloser(bytes.NewReader(body))
	request.ContentLength = int64(len(body))
	recorder := &recorder{header: http.Header{}}
	defer func() {
		if !o.returned.Load() { // a panic, or the end of the goroutine: it may have happened
			o.insist(ending{outcome: Unknown})
		}
	}()
	next.ServeHTTP(recorder, request)
	o.returned.Store(true)
	o.finish(recorder)
}

// refuse answers with a problem. An error that is no Problem is unavailable: fail closed.
func (o *operation) refuse(err error) {
	p := *onced.AsProblem(err)
	if p.Code == onced.CodeUnavailable && p.RetryAfter <= 0 {
		p.RetryAfter = time.Second
	}
	if p.Code == onced.CodeUnauthenticated {
		o.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	p.Record = nil // it names the owner and the token, which are not for a client
	wire.WriteProblem(o.w, &p, 0)
}
