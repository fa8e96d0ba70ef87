package cluster

import (
	"onced"
	"onced/cluster/propose"
	"onced/fsm"
	"onced/fsm/command"
)

// hasty is planted.AckBeforeCommit: it answers completes out of what the table would be.
type hasty struct {
	future
	node *Node
	data []byte
}

// Wait is part of propose.Future.
func (h hasty) Wait() (*command.Results, error) {
	entry, err := fsm.DecodeEntry(h.data)
	if err != nil {
		return h.future.Wait()
	}
	for _, c := range entry.Commands {
		if c.GetComplete() == nil {
			return h.future.Wait()
		}
	}
	tx := h.node.table.Begin()
	defer tx.Close()
	decided, err := fsm.Apply(tx, 1, entry)
	if err != nil {
		return h.future.Wait()
	}
	return results(decided, 1)
}

var _ propose.Future = hasty{}

// anyToken is planted.NoTokenCheck: a complete gets the token that it should have had.
func anyToken(view fsm.View, entry *command.Entry) {
	for _, c := range entry.Commands {
		complete := c.GetComplete()
		if complete == nil {
			continue
		}
		id := onced.ID{Tenant: complete.Id.GetTenant(), Scope: complete.Id.GetScope(), Key: onced.Key(complete.Id.GetKey())}
		if row, err := view.Row(id); err == nil && row != nil {
			complete.Token = row.Token
		}
	}
}
