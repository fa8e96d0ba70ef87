package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"onced"
)

// The gateway keeps three kinds of records of its own in the table, so that every gateway on it
// knows of them. They are in the tenant of the operation that they are about, in a scope of their own, and go by
// themselves:
//
//   - a turn: who asks the upstream about a key now. It also tells the cluster's time.
//   - a mark: that an attempt is over, as it answered or its time-out has passed.
//   - a freed answer: what an asynchronous operation was answered that freed its key.
//
// None of them decides anything by itself: what happens to an operation is decided by its own record.
const asideScope = "onced:gateway"

const (
	keepFreed = 10 * time.Minute   // how long an answer that freed its key can be fetched
	endOfTurn = onced.MinRetention // how long a turn whose gateway died is in the table after its lease
	turnSlack = 2 * time.Second    // what a turn's lease has beyond the time of the look-up
	asideNone = ""                 // fingerprint: they are told apart by their keys
)

// asideID names a record of the gateway's own about the operation's record. Keys are hashed, as the longest leave no
// room for more.
func (o *operation) asideID(kind string) onced.ID {
	sum := sha256.Sum256([]byte(o.id.Scope + "\x00" + string(o.id.Key)))
	return onced.ID{Tenant: o.id.Tenant, Scope: asideScope, Key: onced.Key(kind + "." + base64.RawURLEncoding.EncodeToString(sum[:]))}
}

// ofAttempt is asideID for one attempt. Its keys sort by token.
func (o *operation) ofAttempt(kind string, token onced.Token) onced.ID {
	id := o.asideID(kind)
	id.Key += onced.Key(fmt.Sprintf(".%016d", uint64(token)))
	return id
}

// turn is the right to ask the upstream about a key, at one gateway at a time.
type turn struct {
	id    onced.ID
	token onced.Token
	now   onced.Instant // the cluster's time when it was granted
}

// takeTurn asks for the turn. It lasts for as long as a look-up may take, and goes to the next one if
// this gateway dies meanwhile.
func (o *operation) takeTurn(ctx context.Context) (turn, error) {
	id, lease := o.asideID("look-up"), o.lookUpTimeout()+turnSlack
	granted, err := o.g.aside.Reserve(ctx, onced.ReserveRequest{
		ID: id, Fingerprint: asideNone, Lease: lease, Retention: endOfTurn, OnLapse: onced.Retry, Wait: o.wait,
	})
	if err != nil {
		return turn{}, err
	}
	return turn{id: id, token: granted.Record.Token, now: granted.Record.LeaseExpiresAt.Add(-lease)}, nil
}

// endTurn gives the turn back, before the client is answered: its next try must not find it taken. If it
// cannot, its lease ends it.
func (o *operation) endTurn(ctx context.Context, t turn) {
	ctx, cancel := context.WithTimeout(ctx, turnSlack)
	defer cancel()
	if err := o.g.aside.Release(ctx, onced.ReleaseRequest{ID: t.id, Token: t.token}); err != nil {
		o.log.Debug("gateway: giving back the turn to look an operation up", "error", err)
	}
}

// markOver notes that this attempt is over, before its record says that the outcome is unknown. It is
// one try: without the mark a look-up is believed only once the attempt's time is over. The mark is a
// reservation that nobody completes, as one write is enough, and lives until that time.
func (o *operation) markOver(ctx context.Context) {
	lease := min(o.route.lease+o.route.timeout+sendWithin, onced.MaxLease)
	_, err := o.g.aside.Reserve(ctx, onced.ReserveRequest{
		ID: o.ofAttempt("over", o.token), Fingerprint: asideNone, Lease: lease, Retention: onced.MinRetention, OnLapse: onced.Retry,
	})
	if err != nil {
		o.log.Debug("gateway: noting that an attempt is over", "error", err)
	}
}

// markedOver tells whether the attempt of a token is noted to be over.
func (o *operation) markedOver(ctx context.Context, token onced.Token) bool {
	_, err := o.g.aside.Get(ctx, onced.GetRequest{ID: o.ofAttempt("over", token)})
	return err == nil
}

// keepFreedAnswer stores an answer that frees the key, for who comes to fetch it. The same call repeated is the same.
func (o *operation) keepFreedAnswer(ctx context.Context, answer *onced.Response) error {
	id := o.ofAttempt("freed", o.token)
	granted, err := o.g.aside.Reserve(ctx, onced.ReserveRequest{ID: id, Fingerprint: asideNone, Owner: "gateway", Retention: keepFreed, OnLapse: onced.Retry})
	if err != nil || granted.Replayed {
		return err
	}
	_, err = o.g.aside.Complete(ctx, onced.CompleteRequest{ID: id, Token: granted.Record.Token, Response: answer})
	return err
}

// freedAnswer returns the newest answer that freed the key and is still kept.
//
// Problems: key_not_found, unavailable.
func (o *operation) freedAnswer(ctx context.Context) (onced.Record, error) {
	scope := asideScope
	page, err := o.g.aside.List(ctx, onced.ListRequest{
		Tenant: o.id.Tenant, Scope: &scope, State: onced.StateCompleted, Prefix: string(o.asideID("freed").Key) + ".", Limit: onced.MaxListLimit,
	})
	if err != nil {
		return onced.Record{}, err
	}
	if len(page.Records) == 0 {
		return onced.Record{}, onced.Problemf(onced.CodeKeyNotFound, "there is no operation with this key: it was never asked for, it freed its key, or its record is past its retention")
	}
	return o.g.aside.Get(ctx, onced.GetRequest{ID: page.Records[len(page.Records)-1].ID})
}
