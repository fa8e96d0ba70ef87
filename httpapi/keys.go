package httpapi

import (
	"net/http"

	"onced"
	"onced/internal/wire"
)

// reserve ends when its client hangs up: nobody is left to run the operation.
func (c *call) reserve() error {
	data, err := c.requestBody()
	if err != nil {
		return err
	}
	r, err := wire.DecodeReserve(data, c.id)
	if err != nil {
		return err
	}
	ctx, cancel := c.context(r.Wait, false)
	defer cancel()
	result, err := c.Keeper.Reserve(ctx, r)
	if err != nil {
		return err
	}
	status, outcome := http.StatusCreated, "reserved"
	if result.Replayed {
		status, outcome = http.StatusOK, "replayed"
	}
	c.answer(status, outcome, wire.AppendReserveResult(nil, result))
	return nil
}

func (c *call) complete() error {
	data, err := c.responseBody()
	if err != nil {
		return err
	}
	r, err := wire.DecodeComplete(data, c.id)
	if err != nil {
		return err
	}
	if err := c.checkResponse(r.Response); err != nil {
		return err
	}
	ctx, cancel := c.context(0, true)
	defer cancel()
	rec, err := c.Keeper.Complete(ctx, r)
	if err != nil {
		return err
	}
	rec.Response = nil
	c.answer(http.StatusOK, "ok", wire.AppendRecord(nil, rec))
	return nil
}

func (c *call) release() error {
	data, err := c.requestBody()
	if err != nil {
		return err
	}
	r, err := wire.DecodeRelease(data, c.id)
	if err != nil {
		return err
	}
	ctx, cancel := c.context(0, true)
	defer cancel()
	if err := c.Keeper.Release(ctx, r); err != nil {
		return err
	}
	c.answer(http.StatusOK, "ok", wire.AppendReleased(nil, c.id.Key))
	return nil
}

func (c *call) renew() error {
	data, err := c.requestBody()
	if err != nil {
		return err
	}
	r, err := wire.DecodeRenew(data, c.id)
	if err != nil {
		return err
	}
	ctx, cancel := c.context(0, true)
	defer cancel()
	rec, err := c.Keeper.Renew(ctx, r)
	if err != nil {
		return err
	}
	c.answer(http.StatusOK, "ok", wire.AppendRenewed(nil, rec))
	return nil
}

func (c *call) get() error {
	wait, err := c.params.wait()
	if err != nil {
		return err
	}
	stale, err := c.params.boolean("stale")
	if err != nil {
		return err
	}
	ctx, cancel := c.context(wait, false)
	defer cancel()
	rec, err := c.Keeper.Get(ctx, onced.GetRequest{ID: c.id, Wait: wait, Stale: stale})
	if err != nil {
		return err
	}
	c.answer(http.StatusOK, "ok", wire.AppendRecord(nil, rec))
	return nil
}

func (c *call) list() error {
	r := onced.ListRequest{Tenant: c.id.Tenant, Cursor: c.params["cursor"]}
	var err error
	if r.State, err = c.params.state(); err != nil {
		return err
	}
	if r.Prefix, err = c.params.prefix(); err != nil {
		return err
	}
	if r.Limit, err = c.params.limit(); err != nil {
		return err
	}
	if _, named := c.params["scope"]; named {
		r.Scope = &c.id.Scope
	}
	ctx, cancel := c.context(0, false)
	defer cancel()
	page, err := c.Keeper.List(ctx, r)
	if err != nil {
		return err
	}
	c.answer(http.StatusOK, "ok", wire.AppendList(nil, page))
	return nil
}
