package peer

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// RaftLogger hands raft's lines to logger, each with name before it, errors as warnings: a
// broken connection is the network's doing, and raft makes another; what ends the node is said by the node.
func RaftLogger(name string, logger *slog.Logger) hclog.Logger {
	level := hclog.Info
	if logger.Enabled(context.Background(), slog.LevelDebug) {
		level = hclog.Debug
	}
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: name, Output: io.Discard, Level: level})
	l.RegisterSink(slogSink{logger})
	return l
}

// slogSink is an hclog.SinkAdapter.
type slogSink struct{ logger *slog.Logger }

// Accept takes one line.
func (s slogSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch {
	case level >= hclog.Warn:
		to = slog.LevelWarn
	case level == hclog.Info:
		to = slog.LevelInfo
	}
	s.logger.Log(context.Background(), to, name+": "+msg, rendered(args)...)
}

// rendered returns args with what hclog would format as text, and raft's own peers as what they
// are: a "node" is always the one that writes the line.
func rendered(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		if f, ok := arg.(hclog.Format); ok && len(f) > 0 {
			arg = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
		if i%2 == 0 && arg == "node" {
			arg = "raft_node"
		}
		out[i] = arg
	}
	return out
}
