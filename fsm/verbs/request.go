// Package verbs translates between a Keeper and the machine: a Keeper's requests
// become commands, and results become a Keeper's answers.
//
// Invariants:
//
//   - Whatever keeps the table (a node, a test double) answers through this package, so that
//     an outcome means the same everywhere.
//   - A request is translated only after its Validate.
package verbs

import (
	"onced"
	"onced/fsm"
	"onced/fsm/command"
)

func idMessage(id onced.ID) *command.ID {
	return &command.ID{Tenant: id.Tenant, Scope: id.Scope, Key: []byte(id.Key)}
}

func responseMessage(r *onced.Response) *command.Response {
	if r == nil {
		return nil
	}
	m := &command.Response{Status: int32(r.Status), Body: r.Body, BodyOmitted: r.BodyOmitted, Reference: r.Reference}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, &command.Header{Name: []byte(h.Name), Value: []byte(h.Value)})
	}
	return m
}

// Reserve is r as a command. r has its defaults and its owner.
func Reserve(r onced.ReserveRequest) *command.Command {
	return &command.Command{Kind: &command.Command_Reserve{Reserve: &command.Reserve{
		Id:          idMessage(r.ID),
		Fingerprint: []byte(r.Fingerprint),
		Owner:       r.Owner,
		LeaseMs:     r.Lease.Milliseconds(),
		RetentionMs: r.Retention.Milliseconds(),
		TombstoneMs: r.Tombstone.Milliseconds(),
		Retry:       r.OnLapse == onced.Retry,
		Takeover:    uint64(r.Takeover),
		MaxKeys:     r.MaxKeys,
	}}}
}

// Complete is r as a command.
func Complete(r onced.CompleteRequest) *command.Command {
	return &command.Command{Kind: &command.Command_Complete{Complete: &command.Complete{
		Id: idMessage(r.ID), Token: uint64(r.Token), Response: responseMessage(r.Response), RetentionMs: r.Retention.Milliseconds(),
	}}}
}

// Release is r as a command: a release by token, or a cancel by owner.
func Release(r onced.ReleaseRequest) *command.Command {
	if r.Owner != "" {
		return Cancel(r.ID, r.Owner)
	}
	return &command.Command{Kind: &command.Command_Release{Release: &command.Release{
		Id: idMessage(r.ID), Token: uint64(r.Token), RememberMs: fsm.CancelMemoryMs,
	}}}
}

// Cancel takes back whatever owner asked for.
func Cancel(id onced.ID, owner string) *command.Command {
	return &command.Command{Kind: &command.Command_Cancel{Cancel: &command.Cancel{
		Id: idMessage(id), Owner: owner, RememberMs: fsm.CancelMemoryMs,
	}}}
}

// Renew is r as a command.
func Renew(r onced.RenewRequest) *command.Command {
	return &command.Command{Kind: &command.Command_Renew{Renew: &command.Renew{
		Id: idMessage(r.ID), Token: uint64(r.Token), LeaseMs: r.Lease.Milliseconds(),
		Checkpoint: r.Checkpoint, SetCheckpoint: r.Checkpoint != nil,
	}}}
}

// Resolve is r as a command, on the record whose token the operator saw.
func Resolve(r onced.ResolveRequest, saw onced.Token) *command.Command {
	return &command.Command{Kind: &command.Command_Resolve{Resolve: &command.Resolve{
		Id: idMessage(r.ID), SawToken: uint64(saw), Response: responseMessage(r.Response), Force: r.Force,
	}}}
}

// Forget is r as a command, on the record whose token the operator saw.
func Forget(r onced.ForgetRequest, saw onced.Token) *command.Command {
	return &command.Command{Kind: &command.Command_Forget{Forget: &command.Forget{
		Id: idMessage(r.ID), SawToken: uint64(saw), Force: r.Force,
	}}}
}
