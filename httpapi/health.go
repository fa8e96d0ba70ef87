package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"onced"
	"onced/internal/wire"
)

// healthz answers as long as the process does.
func (a *api) healthz(w http.ResponseWriter, _ *http.Request) {
	sendJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
}

// readyz answers whether this node can serve: there is a leader, and it has caught up.
func (a *api) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := a.Cluster.Ready(); err != nil {
		p := &onced.Problem{Code: onced.CodeUnavailable, Detail: "not ready: " + onced.AsProblem(err).Detail, RetryAfter: time.Second}
		wire.WriteProblem(w, p, 0)
		return
	}
	sendJSON(w, http.StatusOK, []byte(`{"status":"ready"}`))
}

func (c *call) cluster() error {
	status := c.Cluster.Status()
	if status.Members == nil {
		status.Members = []onced.Member{}
	}
	body, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("writing the cluster's status: %w", err)
	}
	c.answer(http.StatusOK, "ok", body)
	return nil
}

// metrics answers with the node's figures. They tell how much work there is, so that a
// caller has to be known.
func (c *call) metrics() error {
	c.seen.outcome = "ok"
	c.Metrics.Handler().ServeHTTP(c.w, c.r)
	return nil
}
