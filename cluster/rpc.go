package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"

	"onced/cluster/peer"
	"onced/cluster/propose"
)

// The calls between nodes. Each is answered by one node alone; none is forwarded again.
const (
	pathPropose   = "/cluster/propose"    // a frame of commands for the leader
	pathReadIndex = "/cluster/read-index" // how far a linearizable read must be, and the leader's time
	pathClock     = "/cluster/clock"      // what it says of the time
	pathTerm      = "/cluster/term"       // the term that it is in
	pathMark      = "/cluster/mark"       // its checksum at a mark
	pathProgress  = "/cluster/progress"   // how far its table is
	pathRoom      = "/cluster/room"       // whether its disk has room

	pathAddMember    = "/cluster/add-member"    // the leader adds a learner
	pathRemoveMember = "/cluster/remove-member" // the leader removes a member
	pathIsMember     = "/cluster/is-member"     // whether a node is a member
)

// Statuses by which a node says that it did not do what was asked.
const (
	statusNotLeader  = http.StatusMisdirectedRequest
	statusNotApplied = http.StatusServiceUnavailable
)

func (n *Node) handleCalls(link peer.Link) {
	link.Handle(pathPropose, call(n.receiveFrame))
	link.Handle(pathReadIndex, call(func(ctx context.Context, _ []byte) ([]byte, error) {
		route, _ := n.route.Get()
		if !route.Self {
			return nil, propose.ErrNoLeader
		}
		index, err := n.leaderIndex(ctx)
		now, _ := n.clock.Now()
		return appendVarints(nil, index, route.Term, uint64(now)), err
	}))
	link.Handle(pathClock, call(func(context.Context, []byte) ([]byte, error) {
		return appendAnswer(nil, n.clock.Answer()), nil
	}))
	link.Handle(pathTerm, call(func(context.Context, []byte) ([]byte, error) {
		r := n.raft.Load()
		if r == nil {
			return nil, propose.ErrNoLeader
		}
		return appendVarints(nil, r.CurrentTerm()), nil
	}))
	link.Handle(pathMark, call(n.historyAt))
	link.Handle(pathProgress, call(func(context.Context, []byte) ([]byte, error) {
		return protowire.AppendVarint(nil, n.progress.index.Load()), nil
	}))
	link.Handle(pathRoom, call(func(context.Context, []byte) ([]byte, error) {
		return protowire.AppendVarint(nil, protowire.EncodeBool(n.low.Load() == nil)), nil
	}))
	for _, path := range []string{pathAddMember, pathRemoveMember} {
		link.Handle(path, memberHandler(func(ctx context.Context, c memberCall) ([]byte, error) {
			return n.changeMembership(ctx, path, c)
		}))
	}
	link.Handle(pathIsMember, memberHandler(n.isMember))
}

// call adapts a function of bytes to a handler.
func call(do func(ctx context.Context, body []byte) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := peer.ReadBody(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := do(r.Context(), body)
		switch {
		case errors.Is(err, propose.ErrNoLeader):
			http.Error(w, err.Error(), statusNotLeader)
		case err != nil:
			http.Error(w, err.Error(), statusNotApplied)
		default:
			peer.Reply(w, answer)
		}
	})
}

func (n *Node) receiveFrame(ctx context.Context, body []byte) ([]byte, error) {
	return n.proposer.Receive(ctx, body)
}

// historyAt waits until this node's table has the mark, and tells its checksum there.
func (n *Node) historyAt(ctx context.Context, body []byte) ([]byte, error) {
	mark, size := protowire.ConsumeVarint(body)
	if size < 0 {
		return nil, errors.New("the mark is no number")
	}
	if err := n.progress.wait(ctx, mark); err != nil {
		return nil, err
	}
	meta := n.table.Meta()
	if meta.MarkIndex != mark {
		return nil, fmt.Errorf("the mark of this table is at entry %d", meta.MarkIndex)
	}
	return protowire.AppendFixed64(nil, meta.MarkHistory), nil
}

// forwarder is the proposer's way to the leader.
type forwarder struct{ link peer.Link }

// Forward is part of propose.Forwarder. Receive's error is the peer's own word that nothing was
// applied; what was not sent was not applied either.
func (f forwarder) Forward(ctx context.Context, addr string, frame []byte) ([]byte, error) {
	answer, err := f.link.Call(ctx, addr, pathPropose, frame)
	var refused *peer.StatusError
	if errors.Is(err, peer.ErrNotSent) || errors.As(err, &refused) {
		return nil, fmt.Errorf("%w: %w", propose.ErrNotApplied, err)
	}
	return answer, err
}
