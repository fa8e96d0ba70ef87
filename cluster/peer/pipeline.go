package peer

import (
	"time"

	"github.com/hashicorp/raft"
)

// repeatEvery is how often a pipeline says again what its follower was told already.
const repeatEvery = 100 * time.Millisecond

// pipeline bounds how long an entry waits for its place in a pipeline, and leaves out what says nothing new. It belongs to the
// one goroutine that sends.
//
// The library reads a pipeline's answers on one goroutine and sends on another. The reader ends at the first answer that is no
// success, or that has a newer term, and nobody tells a sender that is just waiting for a place: it would wait for ever. A
// leader would send that follower nothing any more but heartbeats, and raft's shutdown would never end. No answer takes longer
// than the transport's time-out, so whoever waits for twice that waits for nothing: the pipeline is closed, and the library goes on
// without one.
//
// After each CommitTimeout without an entry the library says how far the log is committed, also when it said so before. With a short
// CommitTimeout, which followers need to learn of a commit soon, that is most of what an idle cluster does. A pipeline keeps the order, and
// ends at the first message that did not succeed, so a message without entries whose commit index went the same way before tells
// the follower nothing; one in repeatEvery is sent all the same, so that a dead connection, or a newer term, is noticed. Heartbeats go another
// way and are never left out.
type pipeline struct {
	raft.AppendPipeline
	limit time.Duration

	commit uint64    // the commit index that was sent last
	sent   time.Time // when; zero = nothing yet
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	now := time.Now()
	if len(args.Entries) == 0 && args.LeaderCommitIndex == p.commit && now.Sub(p.sent) < repeatEvery {
		return leftOut{args, resp, now}, nil
	}
	p.commit, p.sent = args.LeaderCommitIndex, now
	late := time.AfterFunc(p.limit, func() { _ = p.Close() }) // it never errs
	defer late.Stop()
	return p.AppendPipeline.AppendEntries(args, resp)
}

// leftOut is the future of a message that was not sent. Nobody waits for it: answers are read from the pipeline's Consumer.
type leftOut struct {
	args  *raft.AppendEntriesRequest
	resp  *raft.AppendEntriesResponse
	start time.Time
}

func (leftOut) Error() error                            { return nil }
func (l leftOut) Start() time.Time                      { return l.start }
func (l leftOut) Request() *raft.AppendEntriesRequest   { return l.args }
func (l leftOut) Response() *raft.AppendEntriesResponse { return l.resp }
