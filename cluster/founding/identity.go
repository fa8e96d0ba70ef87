package founding

import (
	"crypto/rand"
	"encoding/hex"
)

// Phase is how far a directory's node has come. The words are on disk.
type Phase string

// Phases. A node that is a member has raft state; the others may not have it yet.
const (
	PhaseFounding Phase = "founding" // made the cluster's id; not everybody may have it yet
	PhaseInvited  Phase = "invited"  // said yes to a founder
	PhaseJoining  Phase = "joining"  // asks, or asked, to be added to a running cluster
	PhaseMember   Phase = "member"   // has had raft state
	PhaseRemoved  Phase = "removed"  // was a member, and is none any more
)

// Identity is what a data directory knows of itself.
type Identity struct {
	ClusterID string // 32 hex digits
	NodeID    string
	Phase     Phase
}

// Storage keeps the identity of the data directory. It is used by several goroutines at once.
type Storage interface {
	// Identity returns what was written, false for an empty directory.
	Identity() (Identity, bool)
	// SetIdentity replaces it. It is on disk, also after a power cut, once it returns nil.
	SetIdentity(Identity) error
}

// NewID returns 16 random bytes in hex.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return hex.EncodeToString(b[:])
}
