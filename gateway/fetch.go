package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"onced"
	"onced/gateway/blob"
)

// errDamaged says that a blob is not what its reference says.
var errDamaged = errors.New("the blob is not the answer that was stored")

// readSlack is how long reading a blob may take for each MiB of it, over the store's time-out.
const readSlack = time.Second

// replayBlob answers with a record whose body is kept elsewhere. False means that there is no such body, which is logged
// unless none of ours was ever there; nothing was sent then.
func (o *operation) replayBlob(rec onced.Record) bool {
	store := o.t.blobs
	ref, ours := o.g.unseal(o.id, rec.Response.Reference)
	if !ours || rec.Response.Status < 200 {
		return false
	}
	if store == nil {
		o.lost(blobMissing, ref, errors.New("no store is configured"))
		return false
	}
	ctx, cancel := context.WithTimeout(o.req.Context(), store.timeout+time.Duration(ref.length>>20)*readSlack)
	defer cancel()
	body, err := fetch(ctx, store, ref)
	if err != nil {
		o.lost(eventOf(err), ref, err)
		return false
	}
	defer body.Close()
	h := o.route.replayable(rec.Response.Headers)
	if ref.length <= maxEdited && o.changes(h) {
		return o.replayChanged(rec, h, body, ref)
	}
	o.g.meter.Blob(blobReplayed, 1)
	o.done(Replayed)
	o.client.share(h)
	o.route.contract.mark(rec.Response.Status, h, true, rec.ExpiresAt)
	o.client.order = orderOf(rec.Response.Headers)
	o.client.begin(rec.Response.Status, h, ref.length)
	o.stream(body, ref)
	return true
}

// changes tells whether an answer's body may have to be another than the stored one: as its client does not take its coding,
// or by the contract.
func (o *operation) changes(h http.Header) bool {
	codings := codingsOf(strings.Join(h["Content-Encoding"], ","))
	return o.route.contract.edit != nil && saysJSON(h["Content-Type"]) || !acceptable(o.req.Header["Accept-Encoding"], codings)
}

// replayChanged is the end of replayBlob where the body is read whole before it is sent. It is counted as held meanwhile.
func (o *operation) replayChanged(rec onced.Record, h http.Header, body io.Reader, ref reference) bool {
	o.g.bodies.used.Add(ref.length)
	o.g.meter.BodyBytes(ref.length)
	defer func() {
		o.g.bodies.give(ref.length)
		o.g.meter.BodyBytes(-ref.length)
	}()
	raw, err := io.ReadAll(io.LimitReader(body, ref.length+1))
	if err == nil {
		err = ref.check(bytes.NewReader(raw))
	}
	if err != nil {
		o.lost(eventOf(err), ref, err)
		return false
	}
	o.g.meter.Blob(blobReplayed, 1)
	o.done(Replayed)
	o.sendStored(rec, h, raw)
	return true
}

func (o *operation) lost(event string, ref reference, err error) {
	if o.req.Context().Err() != nil {
		return // the client went away: it says nothing of the store
	}
	o.g.meter.Blob(event, 1)
	log := o.log
	if o.token == 0 { // else its lines say it already
		log = log.With("tenant", o.id.Tenant, "scope", o.id.Scope, "key_digest", o.id.Digest())
	}
	log.Error("gateway: a kept answer cannot be replayed; its request gets response_not_kept", "blob", ref.String(), "reason", err)
}

func eventOf(err error) string {
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return blobMissing
	case errors.Is(err, errDamaged):
		return blobDamaged
	}
	return blobUnreadable
}

// fetch opens a blob and reads it through, so that what it returns has the length and the digest of the reference. It
// does not wait for a store that does not heed the end of ctx.
func fetch(ctx context.Context, store *blobStore, ref reference) (io.ReadSeekCloser, error) {
	type result struct {
		body io.ReadSeekCloser
		err  error
	}
	if !store.busy.take(1) {
		return nil, errBlobBusy
	}
	found := make(chan result, 1)
	go func() {
		defer store.busy.give(1)
		body, err := verified(ctx, store, ref)
		found <- result{body, err}
	}()
	select {
	case r := <-found:
		return r.body, r.err
	case <-ctx.Done():
		go func() {
			if r := <-found; r.body != nil {
				r.body.Close()
			}
		}()
		return nil, fmt.Errorf("reading a blob: %w", context.Cause(ctx))
	}
}

func verified(ctx context.Context, store blob.Store, ref reference) (io.ReadSeekCloser, error) {
	body, err := store.Open(ctx, ref.name)
	if err != nil {
		return nil, err
	}
	err = ref.check(body)
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err != nil {
		body.Close()
		return nil, err
	}
	return body, nil
}

// check reads a blob through. Errors: errDamaged, and those of reading.
func (r reference) check(body io.Reader) error {
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(body, r.length+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading a blob: %w", err)
	case n != r.length || [sha256.Size]byte(sum.Sum(nil)) != r.sum:
		return errDamaged
	}
	return nil
}

// stream sends a blob that was found whole. It looks once more, as it may be damaged in between: the last piece is sent
// only when all of it is right; else the connection is cut.
func (o *operation) stream(body io.Reader, ref reference) {
	sum := sha256.New()
	var held []byte
	left := ref.length
	for buffer := make([]byte, pieceSize); left > 0; {
		n, err := io.ReadFull(body, buffer[:min(left, pieceSize)])
		if err != nil {
			o.cutReplay(ref, err)
		}
		left -= int64(n)
		sum.Write(buffer[:n])
		if left > 0 {
			o.client.write(buffer[:n])
			if o.client.gone != nil {
				return
			}
			continue
		}
		held = buffer[:n]
	}
	if [sha256.Size]byte(sum.Sum(nil)) != ref.sum {
		o.cutReplay(ref, errDamaged)
	}
	o.client.write(held)
}

func (o *operation) cutReplay(ref reference, err error) {
	o.lost(eventOf(err), ref, err)
	panic(http.ErrAbortHandler)
}
