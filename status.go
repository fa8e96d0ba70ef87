package onced

import (
	"fmt"
	"io"
)

// ClusterStatus is what GET /v1/cluster answers: the same shape on every node.
type ClusterStatus struct {
	ClusterID         string   `json:"cluster_id"`
	NodeID            string   `json:"node_id"`
	Role              string   `json:"role"`   // leader, follower, candidate, or learner; "starting" before there is a cluster
	Leader            string   `json:"leader"` // its node id, "" when none is known
	Term              uint64   `json:"term"`
	Members           []Member `json:"members"`
	CommitIndex       uint64   `json:"commit_index"`
	AppliedIndex      uint64   `json:"applied_index"`
	LastSnapshotIndex uint64   `json:"last_snapshot_index"`
}

// Member is one node of the configuration.
type Member struct {
	ID      string `json:"id"`
	Address string `json:"address"` // of its cluster port
	Voter   bool   `json:"voter"`
	Role    string `json:"role"` // leader, follower, or learner
}

// Backup is an open copy of the whole table, of one moment. It has to be read to its end and closed.
type Backup struct {
	io.ReadCloser
	Size      int64  // of all that will be read, in bytes
	Index     uint64 // of the last log entry that is surely in it
	ClusterID string
}

// MembershipRefusal says why a change of the membership was not made: nothing was changed, and asking again
// changes nothing.
type MembershipRefusal struct {
	Status int    // of HTTP: 400 malformed, 404 no such member, 409 the cluster would be harmed
	Detail string // a sentence for a person
}

// Error returns the detail.
func (r *MembershipRefusal) Error() string { return r.Detail }

// RefuseMembership returns a *MembershipRefusal whose detail is formatted.
func RefuseMembership(status int, format string, args ...any) *MembershipRefusal {
	return &MembershipRefusal{Status: status, Detail: fmt.Sprintf(format, args...)}
}
