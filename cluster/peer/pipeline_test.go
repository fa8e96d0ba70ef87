package peer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// sends is a pipeline that counts what it is given.
type sends struct {
	raft.AppendPipeline
	requests []*raft.AppendEntriesRequest
}

func (s *sends) AppendEntries(args *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	s.requests = append(s.requests, args)
	return nil, nil
}

// TestPipelineLeavesOutWhatWasSaid: entries and every newer commit index are sent at once; the same commit index again only now
// and then.
func TestPipelineLeavesOutWhatWasSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sends{}
		p := &pipeline{AppendPipeline: s, limit: time.Minute}
		send := func(commit uint64, entries ...*raft.Log) {
			t.Helper()
			if _, err := p.AppendEntries(&raft.AppendEntriesRequest{LeaderCommitIndex: commit, Entries: entries}, new(raft.AppendEntriesResponse)); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct {
			what    string
			wait    time.Duration
			commit  uint64
			entries []*raft.Log
			sent    int // so far
		}{
			{"the first of a pipeline", 0, 0, nil, 1},
			{"the same", 0, 0, nil, 1},
			{"a newer commit index", 0, 4, nil, 2},
			{"the same", repeatEvery - 1, 4, nil, 2},
			{"an entry with the same", 0, 4, []*raft.Log{{Index: 5}}, 3},
			{"the same, without", 0, 4, nil, 3},
			{"another entry with the same", 0, 4, []*raft.Log{{Index: 6}}, 4},
			{"a newer commit index", 0, 6, nil, 5},
			{"the same, but for the last time long ago", repeatEvery, 6, nil, 6},
			{"the same", 0, 6, nil, 6},
		} {
			time.Sleep(step.wait)
			send(step.commit, step.entries...)
			if len(s.requests) != step.sent {
				t.Fatalf("%s: %d sent, expected %d", step.what, len(s.requests), step.sent)
			}
		}
		if last := s.requests[5]; last.LeaderCommitIndex != 6 || len(last.Entries) != 0 {
			t.Errorf("the last one sent is %+v", last)
		}
	})
}
