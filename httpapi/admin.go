package httpapi

import (
	"context"

	"github.com/gorilla/mux"

	"onced"
)

// Admin is what an operator does to the cluster itself.
type Admin interface {
	// AddMember makes a node a learner, which becomes a voter once it has caught up. What is a member at
	// that address already stays as it is.
	//
	// Errors: *onced.MembershipRefusal, *onced.Problem.
	AddMember(ctx context.Context, id, addr string) (onced.Member, error)
	// RemoveMember takes a node out of the cluster; force does it also when no majority of those that remain
	// answers.
	//
	// Errors: *onced.MembershipRefusal, *onced.Problem.
	RemoveMember(ctx context.Context, id string, force bool) error
	// Backup opens a copy of the table; with stale it is this node's as it is, else one with every write that was
	// answered before.
	//
	// Problems: unavailable.
	Backup(ctx context.Context, stale bool) (*onced.Backup, error)
}

// routeAdmin adds the operator's calls on the cluster, where there is an Admin.
func (a *api) routeAdmin(r *mux.Router) {
	if a.Admin == nil {
		return
	}
	r.Handle("/v1/cluster/members", a.verbs(verbs{
		"POST": {name: "member_add", operator: true, serve: (*call).addMember},
	}))
	r.Handle("/v1/cluster/members/{id:[^/]*}", a.verbs(verbs{
		"DELETE": {name: "member_remove", operator: true, params: []string{"force", "reason"}, serve: (*call).removeMember},
	}))
	r.Handle("/v1/backup", a.verbs(verbs{
		"GET": {name: "backup", operator: true, params: []string{"stale"}, serve: (*call).backup},
	}))
}
