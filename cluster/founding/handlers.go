package founding

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"onced/cluster/peer"
)

// Register adds the handlers of hello, invite and join. They answer from then on,
// before and after Run.
func (f *Founding) Register(r Registrar) {
	r.HandleAny(PathHello, http.HandlerFunc(f.serveHello))
	r.HandleAny(PathInvite, http.HandlerFunc(f.serveInvite))
	r.HandleAny(PathJoin, http.HandlerFunc(f.serveJoin))
}

// serveHello tells who this node is, and takes note of who asks.
func (f *Founding) serveHello(w http.ResponseWriter, r *http.Request) {
	var asker Hello
	if !read(w, r, &asker) {
		return
	}
	f.note(asker)
	write(w, http.StatusOK, f.self())
}

// note keeps what a listed peer said of itself and ends a pause that waits for it.
func (f *Founding) note(asker Hello) {
	if !slices.ContainsFunc(f.others(), func(p Peer) bool { return p.ID == asker.NodeID }) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard[asker.NodeID] = asker
	if f.missing[asker.NodeID] {
		delete(f.missing, asker.NodeID)
		f.wake()
	}
}

// wake ends a pause of Run, now or the next one.
func (f *Founding) wake() {
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// serveInvite takes on the cluster's id, durably before it says yes.
func (f *Founding) serveInvite(w http.ResponseWriter, r *http.Request) {
	var call invite
	if !read(w, r, &call) {
		return
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	id, known := f.cfg.Storage.Identity()
	if no := f.decline(call, id, known); no != "" {
		http.Error(w, no, http.StatusConflict)
		return
	}
	if !known {
		if err := f.write(Identity{ClusterID: call.ClusterID, NodeID: f.cfg.NodeID, Phase: PhaseInvited}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		f.wake()
	}
	write(w, http.StatusOK, struct{}{})
}

// decline says why an invitation is not taken, "" when it is, or was.
func (f *Founding) decline(call invite, id Identity, known bool) string {
	switch {
	case call.To != f.cfg.NodeID:
		return fmt.Sprintf("this is node %s, not %s", f.cfg.NodeID, call.To)
	case known && id.ClusterID == call.ClusterID:
		return ""
	case known:
		return fmt.Sprintf("node %s belongs to cluster %s", f.cfg.NodeID, id.ClusterID)
	case call.ClusterID == "":
		return "the invitation names no cluster"
	case call.Incarnation != f.incarnation:
		return fmt.Sprintf("node %s was started anew since; say hello again", f.cfg.NodeID)
	case !samePeers(call.Peers, f.cfg.Peers):
		return fmt.Sprintf("--peers of node %s are %s", f.cfg.NodeID, formatPeers(f.cfg.Peers))
	case len(f.cfg.Peers) == 0 || call.From == f.cfg.NodeID || call.From != founderOf(f.cfg.Peers):
		return fmt.Sprintf("a cluster of %s is founded by %s", formatPeers(f.cfg.Peers), founderOf(f.cfg.Peers))
	case f.cfg.HasState():
		return fmt.Sprintf("node %s has a raft log but no identity", f.cfg.NodeID)
	}
	return ""
}

// serveJoin lets the Admitter add a node, once that node was reached where it says it is.
func (f *Founding) serveJoin(w http.ResponseWriter, r *http.Request) {
	var call joinRequest
	if !read(w, r, &call) {
		return
	}
	own := f.self().ClusterID
	switch {
	case own == "" || f.cfg.Admitter == nil:
		http.Error(w, fmt.Sprintf("node %s has no running cluster yet", f.cfg.NodeID), http.StatusServiceUnavailable)
		return
	case call.ClusterID != own:
		http.Error(w, fmt.Sprintf("node %s belongs to cluster %s, not to %s", f.cfg.NodeID, own, call.ClusterID), http.StatusConflict)
		return
	}
	h, err := f.helloWithin(r.Context(), call.Address)
	if err != nil {
		http.Error(w, fmt.Sprintf("node %s cannot be reached at %s: %v", call.NodeID, call.Address, err), http.StatusServiceUnavailable)
		return
	}
	if h.NodeID != call.NodeID || h.ClusterID != own || h.Phase != PhaseJoining || h.HasState {
		http.Error(w, fmt.Sprintf("at %s answers node %s of cluster %q, phase %q", call.Address, h.NodeID, h.ClusterID, h.Phase), http.StatusConflict)
		return
	}
	f.admit(w, r, call)
}

// admit asks the Admitter and puts its answer into a status.
func (f *Founding) admit(w http.ResponseWriter, r *http.Request, call joinRequest) {
	cluster, err := f.cfg.Admitter.Admit(r.Context(), call.NodeID, call.Address)
	var other *NotLeaderError
	switch {
	case err == nil:
		write(w, http.StatusOK, joinAnswer{ClusterID: cluster})
	case errors.As(err, &other) && other.Leader != "":
		write(w, http.StatusMisdirectedRequest, joinAnswer{Leader: other.Leader})
	case errors.Is(err, ErrMember):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// read decodes a call; false when it answered itself that there is none.
func read(w http.ResponseWriter, r *http.Request, call any) bool {
	body, err := peer.ReadBody(r)
	if err == nil {
		err = json.Unmarshal(body, call)
	}
	if err != nil {
		http.Error(w, "reading the call: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// write answers with JSON.
func write(w http.ResponseWriter, status int, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, "encoding the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
