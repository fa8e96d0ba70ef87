package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"onced"
	"onced/cluster/peer"
	"onced/cluster/propose"
)

// Changes of the membership through any node: it makes them itself where it leads, else it asks the leader.

// memberCall is the body of pathAddMember, pathRemoveMember and pathIsMember.
type memberCall struct {
	ID      string `json:"id"`
	Address string `json:"address,omitempty"`
	Force   bool   `json:"force,omitempty"`
}

// AddMember makes the node of that id, whose cluster port is at addr, a learner; it becomes a voter once
// it has caught up. For a member of that id at that address it changes nothing.
//
// Errors: *onced.MembershipRefusal, or the problem unavailable: it may have been done.
func (n *Node) AddMember(ctx context.Context, id, addr string) (onced.Member, error) {
	var m onced.Member
	if err := checkMember(id, addr); err != nil {
		return m, err
	}
	_, answer, err := n.askLeader(ctx, pathAddMember, memberCall{ID: id, Address: addr})
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		return m, unavailable(fmt.Errorf("reading the leader's answer: %w", err))
	}
	return m, nil
}

// RemoveMember takes a node out of the cluster; its process ends as soon as it learns of it. It is refused for the last
// voter and, without force, when no majority of the voters that would remain answers.
//
// Errors: *onced.MembershipRefusal, or the problem unavailable: it may have been done.
func (n *Node) RemoveMember(ctx context.Context, id string, force bool) error {
	unsure, _, err := n.askLeader(ctx, pathRemoveMember, memberCall{ID: id, Force: force})
	var refused *onced.MembershipRefusal
	if unsure && errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return nil // by an earlier try, whose answer was lost
	}
	return err
}

// askLeader has the leader decide a call, and asks again until it is known what came of it or the request timeout is over.
// Every call is one that may be made twice. unsure tells that a try whose fate is not known came before the answer.
func (n *Node) askLeader(ctx context.Context, path string, call memberCall) (unsure bool, answer []byte, err error) {
	ctx, cancel := n.untilDecided(ctx)
	defer cancel()
	body, err := json.Marshal(call)
	if err != nil {
		return false, nil, unavailable(err)
	}
	for {
		route, changed := n.route.Get()
		switch {
		case !route.Known:
			err = propose.ErrNoLeader
		case route.Self:
			answer, err = n.changeMembership(ctx, path, call)
		default:
			answer, err = n.link.Call(ctx, route.Addr, path, body)
		}
		var status *peer.StatusError
		var refused *onced.MembershipRefusal
		switch {
		case err == nil, errors.As(err, &refused):
			return unsure, answer, err
		case errors.As(err, &status) && isRefusal(status.Code):
			return unsure, nil, &onced.MembershipRefusal{Status: status.Code, Detail: string(status.Body)}
		case errors.Is(err, propose.ErrNoLeader), errors.Is(err, peer.ErrNotSent),
			status != nil && status.Code == statusNotLeader:
		default:
			unsure = true
		}
		if n.pause(ctx, changed) != nil {
			return unsure, nil, unavailable(fmt.Errorf("changing the membership: %w", err))
		}
	}
}

func isRefusal(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusConflict
}

// changeMembership makes a change on this node, which has to lead.
func (n *Node) changeMembership(ctx context.Context, path string, call memberCall) ([]byte, error) {
	if path == pathRemoveMember {
		return nil, n.removeMember(ctx, call.ID, call.Force)
	}
	m, err := n.addLearner(ctx, call.ID, call.Address)
	if err != nil {
		return nil, err
	}
	return json.Marshal(m)
}

// memberHandler answers the leader's part of a call about a member.
func memberHandler(do func(ctx context.Context, call memberCall) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call memberCall
		body, err := peer.ReadBody(r)
		if err == nil {
			err = json.Unmarshal(body, &call)
		}
		if err != nil {
			http.Error(w, "reading the call: "+err.Error(), http.StatusInternalServerError)
			return
		}
		answer, err := do(r.Context(), call)
		var refused *onced.MembershipRefusal
		switch {
		case err == nil:
			peer.Reply(w, answer)
		case errors.As(err, &refused):
			w.WriteHeader(refused.Status)
			_, _ = w.Write([]byte(refused.Detail))
		case errors.Is(err, propose.ErrNoLeader):
			http.Error(w, err.Error(), statusNotLeader)
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError) // its fate may be unknown
		}
	})
}
