package propose

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"onced/fsm/command"
)

// Receive takes a frame that another node forwarded, and returns the answer to it. ctx must
// end when the other node is gone. An error means that nothing of it was taken. A frame that holds anything malformed or unknown to
// this release is refused as a whole with ErrBadCommand: in the log it would stop
// every node.
func (p *Proposer) Receive(ctx context.Context, data []byte) ([]byte, error) {
	p.cfg.Counters.FramesReceived.Add(1)
	term, calls, err := readFrame(data)
	if err != nil {
		return nil, fmt.Errorf("reading a frame: %w", err)
	}
	route, _ := p.cfg.Routes.Get()
	now, leading := p.cfg.Clock.Now()
	if !leading || !route.Self || route.Term != term {
		p.cfg.Counters.FramesRefused.Add(1)
		return proto.Marshal(&command.Results{Refused: true})
	}
	if len(calls) == 0 {
		return proto.Marshal(&command.Results{NowMs: now})
	}
	inTime := make([]*call, 0, len(calls))
	for _, c := range calls {
		if c.lateAt(now) {
			c.settle(Result{}, ErrTooLate)
		} else {
			inTime = append(inTime, c)
		}
	}
	p.enqueue(inTime)
	p.await(ctx, calls[0].group, calls)
	answer, err := proto.Marshal(p.answer(calls))
	if err != nil {
		// An error of Receive says that nothing was taken. An answer that cannot be read is
		// unknown to the other node, as it must be.
		p.cfg.Logger.Error("answering a frame", "error", err)
		return unreadable, nil
	}
	return answer, nil
}

// unreadable is no Results: a tag whose value is missing.
var unreadable = []byte{0x08}

// answer is the answer to a frame whose calls are settled. Results beyond MaxResultBytes
// are left out as unknown: asked again, fewer of them come back at a time.
func (p *Proposer) answer(calls []*call) *command.Results {
	out := &command.Results{Results: make([]*command.Result, len(calls))}
	if now, leading := p.cfg.Clock.Now(); leading {
		out.NowMs = now
	}
	bytes := 0
	for i, c := range calls {
		r := c.result.Result
		bytes += len(r.GetRow())
		switch fate := fateOf(c.err); {
		case fate != command.Fate_FATE_DECIDED:
			out.Results[i] = &command.Result{Fate: fate}
		case bytes > p.cfg.MaxResultBytes && bytes > len(r.GetRow()):
			bytes -= len(r.GetRow())
			out.Results[i] = &command.Result{Fate: command.Fate_FATE_UNKNOWN}
		default:
			out.Results[i] = r
			out.Index = max(out.Index, c.result.Index)
		}
	}
	return out
}

// readFrame splits a frame into its calls, which are one group, and checks each.
func readFrame(data []byte) (term uint64, calls []*call, err error) {
	frame := new(command.Frame)
	if err := proto.Unmarshal(data, frame); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", err, ErrBadCommand)
	}
	if len(frame.ProtoReflect().GetUnknown()) > 0 || frame.Term == 0 {
		return 0, nil, fmt.Errorf("it has no term, or fields of a newer release: %w", ErrBadCommand)
	}
	bodies, err := commandBytes(data)
	if err != nil || len(bodies) != len(frame.Commands) {
		return 0, nil, fmt.Errorf("splitting its commands: %v: %w", err, ErrBadCommand)
	}
	g := newGroup(len(bodies))
	block := make([]call, len(bodies))
	calls = make([]*call, len(bodies))
	for i, cmd := range frame.Commands {
		if cmd.Kind == nil || len(cmd.ProtoReflect().GetUnknown()) > 0 {
			return 0, nil, fmt.Errorf("command %d is of a kind that this release does not know: %w", i, ErrBadCommand)
		}
		calls[i] = &block[i]
		*calls[i] = call{group: g, body: bodies[i], notAfter: cmd.NotAfterMs, hop: frame.Term}
		calls[i].classify(cmd)
	}
	return frame.Term, calls, nil
}

// commandBytes returns the commands of a frame as they were marshalled, so that
// they need not be marshalled again.
func commandBytes(data []byte) ([][]byte, error) {
	var out [][]byte
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		data = data[n:]
		if number == frameCommands && kind == protowire.BytesType {
			body, n := protowire.ConsumeBytes(data)
			if n < 0 {
				return nil, protowire.ParseError(n)
			}
			out = append(out, body)
			data = data[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return nil, protowire.ParseError(n)
		}
		data = data[n:]
	}
	return out, nil
}
