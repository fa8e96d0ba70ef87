package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"onced"
	"onced/metrics"
)

// TestCompanion: what stands beside the cluster tells of its health and its figures, and has no call.
func TestCompanion(t *testing.T) {
	var unready error
	h := NewCompanion(CompanionConfig{
		Ready:   func() error { return unready },
		Metrics: metrics.New(metrics.Options{Registry: prometheus.NewRegistry()}),
	})
	ask := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ready", "/metrics": "onced_executed_total 0", "/problems/outcome_unknown": "outcome_unknown",
	} {
		if w := ask(http.MethodGet, path); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.100s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/v1/keys/k", "/v1/cluster", "/openapi.yaml"} {
		if w := ask(http.MethodGet, path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := ask(http.MethodPost, "/metrics"); w.Code != 405 {
		t.Errorf("a post: %d", w.Code)
	}
	unready = errors.New("no node")
	checkProblem(t, ask(http.MethodGet, "/readyz"), 503, onced.CodeUnavailable, "not ready: no node")
}
