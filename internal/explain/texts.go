package explain

import "onced"

// explanation tells a person what a code means and what to do.
type explanation struct {
	Happened string // what happened, and what did not
	Again    string // is it safe to send the request again
	Key      string // with which key
}

const (
	sameKey = "The same key. That is what makes sending it again safe."
	newKey  = "A new key. This one stays with what it was first used for."
	anyKey  = "Any. Nothing is held by this one."
	noKey   = "None: do not send it again."
)

// explanations has one for each of onced.Codes.
var explanations = map[onced.Code]explanation{
	onced.CodeKeyRequired: {"The operation is protected, and the request named no idempotency key. Nothing was done.",
		"Yes, once it has a key.", "A new one for each operation, kept for every retry of it. A random UUID will do."},
	onced.CodeKeyInvalid: {"The idempotency key is not well formed: too long, empty, sent twice, or with characters that a key does not have. Nothing was done.",
		"Yes, once the key is mended.", "A well-formed one, kept for every retry."},
	onced.CodeInvalidRequest: {"The request was not understood; its detail names the part that is wrong and what is expected. Nothing was done.",
		"Yes, once it is mended. As it is, it will be refused again.", anyKey},
	onced.CodeUnauthenticated: {"The request had no credentials, or none that are known. No key was looked up.",
		"Yes, with valid credentials.", sameKey},
	onced.CodeForbidden: {"These credentials may not do this. No key was looked up.",
		"Only with credentials that may.", sameKey},
	onced.CodeKeyNotFound: {"There is no record of this key: it was never used, it was released, or its retention is over.",
		"Reading it again gives the same until somebody reserves the key.", sameKey},
	onced.CodeRequestInProgress: {"The first request with this key and this content is still running. This one started nothing.",
		"Yes, after the time in Retry-After. It then gets the answer of the first.", sameKey},
	onced.CodeConflict: {"The key was used before for a request with another content. This one started nothing.",
		"Not under this key. If this is a new operation, send it under a key of its own; if it is a retry, send what was sent the first time.", newKey},
	onced.CodeOutcomeUnknown: {"The first request with this key went out, and nobody knows yet whether the operation happened. It is not run again until that is settled.",
		"Yes: it stays refused, and starts nothing, until a late completion, a look-up or an operator has settled it. Never send it under another key: that may do it twice.", sameKey},
	onced.CodeKeyExpired: {"The key was used, its answer is past its retention, and the key must not be used again yet. Nothing was started.",
		"Not under this key. If the operation of old is meant, it is done; a new one needs a key of its own.", newKey},
	onced.CodeStaleToken: {"The token is no longer that of the reservation: it lapsed and was taken over, or it was settled or given back. This call changed nothing; an earlier try of the same call may have.",
		"No. Whoever sent it holds the operation no more, and must not go on with it.", noKey},
	onced.CodeAlreadyCompleted: {"The record is completed, with another answer than the one that was sent. The stored one stays.",
		"No. Reserve the key again to be told the stored answer.", noKey},
	onced.CodeResponseTooLarge: {"The answer is larger than what this node stores. The reservation is still held.",
		`Yes: complete again with a smaller body, or with "body_omitted": true.`, sameKey},
	onced.CodeRequestTooLarge: {"The request is larger than what is taken. Nothing was reserved and nothing was started.",
		"Only once it is smaller.", anyKey},
	onced.CodeRateLimited: {"The tenant sends more reserves than it may. This one was refused before anything was looked up or written: nothing was started by it.",
		"Yes, after the time in Retry-After. Who holds a reservation can complete it all the while.", sameKey},
	onced.CodeQuotaExceeded: {"The tenant has as many records as it may. Nothing was written: the key is still unused. Keys that have a record go on as before.",
		"Yes, once older records are past their retention or the limit is raised.", sameKey},
	onced.CodeResponseNotKept: {"The operation was done, once, but its answer was too large to be kept.",
		"No need: it is done, and is never run again under this key. Read its result where the operation keeps it.", noKey},
	onced.CodeUnavailable: {"The cluster could not decide in time: no leader, no majority, too much to do, or shutting down. To a reserve this means that nothing was started, and nothing may be. A complete, a release or a renew may have been done.",
		"Yes, after the time in Retry-After, on this node or another. The same call again tells what became of it.", sameKey},
}
