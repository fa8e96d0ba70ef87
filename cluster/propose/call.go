package propose

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"onced/fsm/command"
)

// Result is what a command was decided to be.
type Result struct {
	*command.Result
	Index uint64 // of the log entry that decided it; of a forwarded command: of its frame's last entry
}

// call is one command on its way. Which list it is in is owned by the queue; result and err
// are owned by its group.
type call struct {
	group    *group
	body     []byte // marshalled; of a call from a frame: with its not_after
	reserve  bool   // counts against the share of reserves
	alone    bool   // travels alone in its entry
	deadline time.Time
	notAfter int64 // cluster ms; only of a call from a frame; 0 = none

	// hop is the term of the frame that brought it; 0 = asked on this node.
	hop uint64

	next, prev *call // in the queue
	queued     bool

	settled bool
	result  Result
	err     error
}

// group is the calls that one caller waits for. One that has left gets no more results.
type group struct {
	done chan struct{} // closed when every call is settled

	mu   sync.Mutex
	left int // calls that are not settled
}

func newGroup(calls int) *group { return &group{done: make(chan struct{}), left: calls} }

// settle gives a call its end. Only the first one counts.
func (c *call) settle(result Result, err error) bool {
	g := c.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.settled {
		return false
	}
	c.settled, c.result, c.err = true, result, err
	if g.left--; g.left == 0 {
		close(g.done)
	}
	return true
}

// size is what c counts in a batch and in the queue, in bytes.
func (c *call) size() int { return len(c.body) + perCommand }

// newCall marshals cmd. It is done in the caller's goroutine, so that the one
// goroutine that makes batches only copies.
func newCall(cmd *command.Command, deadline time.Time) (*call, error) {
	if cmd.GetKind() == nil {
		return nil, fmt.Errorf("it has no kind: %w", ErrBadCommand)
	}
	if cmd.NotAfterMs != 0 {
		return nil, fmt.Errorf("it carries a not_after, which the proposer sets: %w", ErrBadCommand)
	}
	body, err := proto.Marshal(cmd)
	if err != nil {
		return nil, fmt.Errorf("marshalling it: %w: %w", err, ErrBadCommand)
	}
	c := &call{group: newGroup(1), body: body, deadline: deadline}
	c.classify(cmd)
	return c, nil
}

func (c *call) classify(cmd *command.Command) {
	switch cmd.Kind.(type) {
	case *command.Command_Reserve:
		c.reserve = true
	case *command.Command_Expire:
		c.alone = true
	}
}
