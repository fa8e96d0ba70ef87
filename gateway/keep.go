package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"time"

	"onced/gateway/blob"
)

// keeping writes an answer to the blob store beside its way to the client. The store has a goroutine of its own: one
// that errs or stalls is given up, and the operation goes on as if there were none. A nil keeping keeps nothing.
type keeping struct {
	o     *operation
	store *blobStore
	name  blob.Name

	cancel context.CancelFunc
	pieces chan []byte   // closed by commit
	ended  chan struct{} // closed when the store has said its last word
	ref    reference     // once ended without err
	err    error
	over   bool // nothing more is sent to the store
}

var (
	errBlobTooLarge  = errors.New("the answer is larger than max_blob")
	errBlobStalled   = errors.New("the store did not take it in time")
	errBlobAbandoned = errors.New("the answer did not arrive whole")
)

// keep begins to keep an answer of a length, -1 where it is not known, if it is one to be kept and there is a store.
func (o *operation) keep(a *answer, length int64) *keeping {
	store := o.t.blobs
	if store == nil || a.disposition != keepAnswer {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(o.req.Context()))
	k := &keeping{
		o: o, store: store, name: blob.NewName(time.Now().Add(o.route.keptFor(a.status) + blobSlack)),
		cancel: cancel, pieces: make(chan []byte, 4), ended: make(chan struct{}),
	}
	switch {
	case length > store.max:
		k.refuse(errBlobTooLarge)
	case !store.busy.take(1):
		k.refuse(errBlobBusy)
	default:
		go k.run(ctx)
	}
	return k
}

// refuse ends the keeping before it began.
func (k *keeping) refuse(err error) {
	k.giveUp()
	k.err = err
	close(k.ended)
}

// keptFor is how long a record with this status is kept after its completion.
func (rt *route) keptFor(status int) time.Duration {
	if d := rt.retentionOf(status); d != 0 {
		return d
	}
	return rt.retention
}

// run writes what comes, and commits it at the end.
func (k *keeping) run(ctx context.Context) {
	defer k.store.busy.give(1)
	defer close(k.ended)
	w, err := k.store.Create(ctx, k.name)
	if err != nil {
		k.err = err
		return
	}
	defer w.Abort()
	sum := sha256.New()
	for {
		select {
		case piece, more := <-k.pieces:
			if !more {
				k.err = w.Commit(ctx)
				k.ref.name, k.ref.sum = k.name, [sha256.Size]byte(sum.Sum(nil))
				return
			}
			if k.err = k.take(w, sum, piece); k.err != nil {
				return
			}
		case <-ctx.Done():
			k.err = errBlobAbandoned
			return
		}
	}
}

func (k *keeping) take(w blob.Writer, sum hash.Hash, piece []byte) error {
	if k.ref.length += int64(len(piece)); k.ref.length > k.store.max {
		return errBlobTooLarge
	}
	sum.Write(piece)
	_, err := w.Write(piece)
	return err
}

// write hands the next piece over, which must not be changed any more. It waits for the store as long as that
// may take, once.
func (k *keeping) write(piece []byte) {
	if k == nil || k.over || len(piece) == 0 {
		return
	}
	select {
	case k.pieces <- piece:
		return
	default:
	}
	timer := time.NewTimer(k.store.timeout)
	defer timer.Stop()
	select {
	case k.pieces <- piece:
	case <-k.ended:
		k.over = true
	case <-timer.C:
		k.giveUp()
	}
}

// giveUp leaves the store alone with what it is doing.
func (k *keeping) giveUp() {
	k.over = true
	k.cancel()
}

// abandon drops what was not committed. It is no failure of the store's.
func (k *keeping) abandon() {
	if k != nil {
		k.giveUp()
	}
}

// commit ends the blob, and returns its reference for the record; "" where it is not kept, which is logged.
func (k *keeping) commit() string {
	if k == nil {
		return ""
	}
	err := k.finish()
	k.over = true
	if err != nil {
		k.o.g.meter.Blob(blobNotKept, 1)
		k.o.log.Warn("gateway: a large answer is not kept; its repeats get response_not_kept", "reason", err)
		return ""
	}
	k.o.g.meter.Blob(blobKept, 1)
	return k.o.g.seal(k.o.id, k.ref)
}

func (k *keeping) finish() error {
	patience := k.store.timeout
	if k.over { // it erred, or stalled once already
		patience = 0
	} else {
		close(k.pieces)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-k.ended:
		return k.err
	default:
	}
	select {
	case <-k.ended:
		return k.err
	case <-timer.C:
		k.cancel()
		return errBlobStalled
	}
}

// drop deletes a committed blob that no record names, as another attempt's answer is the record's.
func (k *keeping) drop() {
	if k == nil {
		return
	}
	o, store, name := k.o, k.store, k.name
	o.g.ops.branch()
	go func() {
		defer o.g.ops.end()
		ctx, cancel := context.WithTimeout(o.g.late, store.timeout)
		defer cancel()
		if err := store.Delete(ctx, name); err != nil {
			o.log.Debug("gateway: a blob that no record names is left to the next sweep", "error", err)
		}
	}()
}

// String names the blob in a log.
func (r reference) String() string { return fmt.Sprintf("%s (%d bytes)", r.name, r.length) }
