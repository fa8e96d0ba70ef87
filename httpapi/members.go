package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/gorilla/mux"

	"onced"
	"onced/internal/wire"
)

// addMember answers POST /v1/cluster/members.
func (c *call) addMember() error {
	data, err := c.requestBody()
	if err != nil {
		return err
	}
	id, addr, err := wire.DecodeMember(data)
	if err != nil {
		return err
	}
	ctx, cancel := c.context(0, true)
	defer cancel()
	m, err := c.Admin.AddMember(ctx, id, addr)
	c.auditMember("add member", id, addr, "", false, err)
	if err != nil {
		return c.refuseMembership(err)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("writing the member: %w", err)
	}
	c.answer(http.StatusOK, "ok", body)
	return nil
}

// removeMember answers DELETE /v1/cluster/members/{id}.
func (c *call) removeMember() error {
	id, err := url.PathUnescape(mux.Vars(c.r)["id"])
	if err != nil {
		return onced.Problemf(onced.CodeInvalidRequest, "the node id %.60q has a bad escape", mux.Vars(c.r)["id"])
	}
	force, err := c.params.boolean("force")
	if err != nil {
		return err
	}
	reason := c.params["reason"]
	if len(reason) > onced.MaxReason {
		return onced.Problemf(onced.CodeInvalidRequest, "reason has %d bytes; at most %d are taken", len(reason), onced.MaxReason)
	}
	ctx, cancel := c.context(0, true)
	defer cancel()
	err = c.Admin.RemoveMember(ctx, id, force)
	c.auditMember("remove member", id, "", reason, force, err)
	if err != nil {
		return c.refuseMembership(err)
	}
	c.seen.outcome = "ok"
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// refuseMembership answers for a refusal with a status of its own; any other error it hands back.
func (c *call) refuseMembership(err error) error {
	var refused *onced.MembershipRefusal
	if !errors.As(err, &refused) {
		return err
	}
	c.seen.outcome = string(onced.CodeInvalidRequest)
	wire.WriteProblem(c.w, onced.Problemf(onced.CodeInvalidRequest, "%s", refused.Detail), refused.Status)
	return nil
}

// auditMember writes the one line that tells who changed the membership, refused or not.
func (c *call) auditMember(verb, id, addr, reason string, force bool, err error) {
	outcome := "ok"
	if refused := (*onced.MembershipRefusal)(nil); errors.As(err, &refused) {
		outcome = "refused: " + refused.Detail
	} else if err != nil {
		outcome = string(onced.CodeOf(err))
	}
	c.Logger.LogAttrs(c.r.Context(), slog.LevelInfo, "audit",
		slog.String("who", c.caller.Name),
		slog.String("remote", c.r.RemoteAddr),
		slog.String("verb", verb),
		slog.String("member", id),
		slog.String("address", addr),
		slog.String("reason", reason),
		slog.Bool("force", force),
		slog.String("outcome", outcome),
		slog.String("request_id", c.seen.requestID))
}
