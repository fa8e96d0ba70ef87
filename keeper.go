package onced

import (
	"context"
	"time"
)

// Keeper is the table of idempotency keys, whoever keeps it: this node, a
// remote cluster, or a test double. Every method blocks until the answer is
// decided, and every error is a *Problem. A method whose context ends first
// returns CodeUnavailable; a write may then have happened, and asking again with the
// same owner or token tells.
type Keeper interface {
	// Reserve asks for the right to run the operation of a key.
	//
	// Problems: request_in_progress, idempotency_conflict, outcome_unknown,
	// key_expired, stale_token (a takeover of another token, or a cancelled owner),
	// rate_limited, quota_exceeded, invalid_request, unavailable (no side effect may be started).
	Reserve(ctx context.Context, r ReserveRequest) (ReserveResult, error)

	// Complete settles a reservation by its token, with its response or as unknown.
	// The same call repeated is the same answer.
	//
	// Problems: stale_token, already_completed, invalid_request, response_too_large, unavailable.
	Complete(ctx context.Context, r CompleteRequest) (Record, error)

	// Release gives a reservation back by its token ("nothing was sent"), or cancels
	// whatever an owner asked for. The key is unused afterwards.
	//
	// Problems: stale_token, already_completed (by token only), unavailable. A cancel
	// never fails but by unavailable.
	Release(ctx context.Context, r ReleaseRequest) error

	// Renew prolongs the lease, and revives one that merely lapsed.
	//
	// Problems: stale_token, already_completed, outcome_unknown, invalid_request, unavailable.
	Renew(ctx context.Context, r RenewRequest) (Record, error)

	// Resolve settles a record on an operator's word. The returned record is
	// StateAbsent once released.
	//
	// Problems: key_not_found, request_in_progress (without Force), already_completed,
	// stale_token (it was taken over meanwhile), unavailable.
	Resolve(ctx context.Context, r ResolveRequest) (Record, error)

	// Forget deletes a record on an operator's word.
	//
	// Problems: key_not_found, request_in_progress or outcome_unknown (without Force),
	// stale_token (it was taken over meanwhile), unavailable.
	Forget(ctx context.Context, r ForgetRequest) error

	// Get reads a record with its response, linearizably unless Stale.
	//
	// Problems: key_not_found, unavailable.
	Get(ctx context.Context, r GetRequest) (Record, error)

	// List reads a page of a tenant's records without their responses, in the order of (scope, key).
	//
	// Problems: invalid_request (a cursor that is not ours), unavailable.
	List(ctx context.Context, r ListRequest) (ListResult, error)
}

// Defaults and bounds of contract §4.
const (
	DefaultLease     = 30 * time.Second
	MinLease         = 100 * time.Millisecond
	MaxLease         = 24 * time.Hour
	DefaultRetention = 24 * time.Hour
	MinRetention     = time.Second
	MaxRetention     = 400 * 24 * time.Hour
	MaxTombstone     = 400 * 24 * time.Hour
	MaxWait          = 60 * time.Second
	MaxFingerprint   = 256     // bytes
	MaxOwner         = 64      // bytes
	MaxCheckpoint    = 4 << 10 // bytes
	MaxReason        = 1 << 10 // bytes
	MaxListLimit     = 1000
	DefaultListLimit = 100
)

// ReserveRequest are the arguments of Keeper.Reserve.
type ReserveRequest struct {
	ID
	Fingerprint string
	Owner       string        // "" = the keeper makes one, and cancels it itself when it gives up
	Lease       time.Duration // 0 = DefaultLease
	Retention   time.Duration // 0 = DefaultRetention
	Tombstone   time.Duration // 0 = none
	OnLapse     OnLapse
	Wait        time.Duration // how long a duplicate waits for the running one; 0 = not at all
	Takeover    Token         // the token of an unknown record found never to have happened; 0 = none
	MaxKeys     int64         // the tenant's quota of records; 0 = none
}

// ReserveResult is a granted reservation or a replay.
type ReserveResult struct {
	Replayed bool   // Record is completed and carries its response
	Repeated bool   // this owner had the reservation already
	Record   Record // reserved: token, owner, attempt, lease, checkpoint
}

// CompleteRequest are the arguments of Keeper.Complete. Exactly one of Response
// and Unknown is set.
type CompleteRequest struct {
	ID
	Token     Token
	Response  *Response
	Unknown   bool
	Retention time.Duration // 0 = the record's
}

// ReleaseRequest are the arguments of Keeper.Release. Exactly one of Token and
// Owner is set.
type ReleaseRequest struct {
	ID
	Token Token
	Owner string
}

// RenewRequest are the arguments of Keeper.Renew.
type RenewRequest struct {
	ID
	Token      Token
	Lease      time.Duration // 0 = the record's
	Checkpoint []byte        // nil = leave it
}

// ResolveRequest are the arguments of Keeper.Resolve.
type ResolveRequest struct {
	ID
	Response *Response // completed with it; nil = released
	Reason   string    // for the audit line
	Force    bool      // also from in_progress
}

// ForgetRequest are the arguments of Keeper.Forget.
type ForgetRequest struct {
	ID
	Force  bool   // also an in_progress or unknown record
	Reason string // for the audit line; "" = none given
}

// GetRequest are the arguments of Keeper.Get.
type GetRequest struct {
	ID
	Wait  time.Duration // how long to wait while it is in progress
	Stale bool          // read this node's table as it is
}

// ListRequest are the arguments of Keeper.List.
type ListRequest struct {
	Tenant string
	Scope  *string // nil = every scope
	State  State   // StateAbsent = every state
	Prefix string  // of the key
	Limit  int     // 0 = DefaultListLimit
	Cursor string  // "" = from the start
}

// ListResult is one page.
type ListResult struct {
	Records    []Record
	NextCursor string // "" at the end
}
