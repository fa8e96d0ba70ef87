package demo

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestAdvice sends one request against a door that answers by a script.
func TestAdvice(t *testing.T) {
	problem := func(status int, code, retry string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, status, code, retry) }
	}
	created := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	plain := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) }
	for _, c := range []struct {
		name   string
		script []http.HandlerFunc
		want   ending
		again  string // a reason that must have been counted
	}{
		{"at once", []http.HandlerFunc{created}, answered, ""},
		{"running", []http.HandlerFunc{problem(409, "request_in_progress", "same_key"), created}, answered, "request_in_progress"},
		{"no majority", []http.HandlerFunc{problem(503, "unavailable", "same_key"), created}, answered, "unavailable"},
		{"cut", []http.HandlerFunc{cut, created}, answered, "connection lost"},
		{"no problem document", []http.HandlerFunc{plain, created}, answered, "status 502"},
		{"conflict", []http.HandlerFunc{problem(409, "idempotency_conflict", "new_key")}, refused, ""},
		{"stop", []http.HandlerFunc{problem(409, "response_not_kept", "stop")}, refused, ""},
		{"late answer", []http.HandlerFunc{problem(504, "outcome_unknown", "same_key"), created}, answered, "outcome_unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.script[n.Add(1)-1](w, r)
			}))
			defer server.Close()
			cl := &client{plan: newPlan(1, 0, "k", 1), doors: []string{server.URL}, http: server.Client()}
			r := cl.do(t.Context(), step{}, 0, func() {})
			if r.ending != c.want || int(n.Load()) != len(c.script) || c.again != "" && r.retries[c.again] != 1 {
				t.Errorf("ended %d (%s) after %d requests, sent again for %v", r.ending, r.reason, n.Load(), r.retries)
			}
		})
	}
}

// TestRetryAfterIsObeyed is about the pause that a refusal asks for.
func TestRetryAfterIsObeyed(t *testing.T) {
	response := &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"7"}}}
	if r := problemReply(response, []byte(`{"code":"unavailable","retry":"same_key"}`)); r.after != 7*time.Second {
		t.Errorf("after %s", r.after)
	}
}

func TestInterruptedClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		writeProblem(w, 503, "unavailable", "same_key")
	}))
	defer server.Close()
	cl := &client{plan: newPlan(1, 0, "k", 1), doors: []string{server.URL}, http: server.Client()}
	if r := cl.do(ctx, step{}, 0, func() {}); r.ending != aborted {
		t.Errorf("ended %d", r.ending)
	}
}

// TestNextDoor is about the repeat that goes to another node than the one that broke.
func TestNextDoor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }))
	defer server.Close()
	dead := httptest.NewServer(nil)
	dead.Close()
	cl := &client{plan: newPlan(1, 0, "k", 1), doors: []string{dead.URL, server.URL}, http: server.Client()}
	if r := cl.do(t.Context(), step{}, 0, func() {}); r.ending != answered || r.retries["connection lost"] != 1 {
		t.Errorf("result %+v", r)
	}
}
