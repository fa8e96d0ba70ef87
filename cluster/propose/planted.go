package propose

import (
	"crypto/rand"

	"google.golang.org/protobuf/proto"

	"onced/fsm/command"
)

// otherOwner is planted.NewOwner: a reserve, by somebody else.
func otherOwner(cmd *command.Command) *command.Command {
	if cmd.GetReserve() == nil {
		return cmd
	}
	other := proto.CloneOf(cmd)
	other.GetReserve().Owner = rand.Text()
	return other
}
