package httpapi

import (
	"log/slog"
	"net/http"

	"onced"
	"onced/internal/wire"
)

func (c *call) resolve() error {
	data, err := c.responseBody()
	if err != nil {
		return err
	}
	r, err := wire.DecodeResolve(data, c.id)
	if err != nil {
		return err
	}
	if err := c.checkResponse(r.Response); err != nil {
		return err
	}
	ctx, cancel := c.context(0, true)
	defer cancel()
	rec, err := c.Keeper.Resolve(ctx, r)
	verb := "resolve completed"
	if r.Response == nil {
		verb = "resolve released"
	}
	c.audit(verb, r.Reason, r.Force, err)
	if err != nil {
		return err
	}
	rec.Response = nil
	c.answer(http.StatusOK, "ok", wire.AppendRecord(nil, rec))
	return nil
}

func (c *call) forget() error {
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
	err = c.Keeper.Forget(ctx, onced.ForgetRequest{ID: c.id, Force: force})
	c.audit("forget", reason, force, err)
	if err != nil {
		return err
	}
	c.seen.outcome = "ok"
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// audit writes the one line that tells who did what by hand, refused or not. An outcome of
// unavailable means that it may have been done.
func (c *call) audit(verb, reason string, force bool, err error) {
	outcome := "ok"
	if err != nil {
		outcome = string(onced.CodeOf(err))
	}
	c.Logger.LogAttrs(c.r.Context(), slog.LevelInfo, "audit",
		slog.String("who", c.caller.Name),
		slog.String("remote", c.r.RemoteAddr),
		slog.String("verb", verb),
		slog.String("tenant", c.id.Tenant),
		slog.String("scope", c.id.Scope),
		slog.String("key", string(c.id.Key)),
		slog.String("reason", reason),
		slog.Bool("force", force),
		slog.String("outcome", outcome),
		slog.String("request_id", c.seen.requestID))
}
