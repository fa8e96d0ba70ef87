package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"onced"
	"onced/fsm/memkeeper"
	"onced/internal/limits"
	"onced/metrics"
)

// results are those of a batch's answer.
func results(t *testing.T, body string) []members {
	t.Helper()
	var answer struct{ Results []members }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return answer.Results
}

func batchOf(operations ...string) string {
	return `{"operations":[` + strings.Join(operations, ",") + `]}`
}

// Each operation is answered as the call of its own would be, in its place.
func TestBatch(t *testing.T) {
	l := newLife(t)
	l.call("POST", "/v1/keys/done/reserve", `{"fingerprint":"f"}`, 201, members{"token": 1.0})
	l.call("POST", "/v1/keys/done/complete", `{"token":1,"response":{"status":201,"body":"hi"}}`, 200, nil)
	l.call("POST", "/v1/keys/held/reserve?scope=s", `{"fingerprint":"f","owner":"o"}`, 201, members{"token": 2.0})
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, httptest.NewRequest("POST", "/v1/batch", strings.NewReader(batchOf(
		`{"op":"reserve","key":"done","fingerprint":"f"}`,
		`{"op":"reserve","key":"done","fingerprint":"g"}`,
		`{"op":"renew","key":"held","scope":"s","token":2}`,
		`{"op":"renew","key":"held","token":2}`,
		`{"op":"reserve","key":"done","fingerprint":"f","wait":"1s"}`,
		`{"op":"complete","key":"held","scope":"s","token":2,"response":{"status":200}}`,
		`{"op":"release","key":"none","owner":"x"}`,
		`{"op":"complete","key":"none","token":9,"outcome":"unknown"}`,
	))))
	want := []members{
		{"status": 200.0, "outcome": "replayed", "replayed": true},
		{"status": 409.0, "code": "idempotency_conflict", "retry": "new_key", "type": "/problems/idempotency_conflict"},
		{"status": 200.0, "lease_expires_at": "2023-11-14T22:13:50.000Z"},
		{"status": 409.0, "code": "stale_token"},
		{"status": 400.0, "code": "invalid_request"},
		{"status": 200.0, "state": "completed", "scope": "s"},
		{"status": 200.0, "state": "absent", "key": "none"},
		{"status": 409.0, "code": "stale_token"},
	}
	got := results(t, w.Body.String())
	if w.Code != 200 || len(got) != len(want) || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	for i, result := range want {
		for name, value := range result {
			if got[i][name] != value {
				t.Errorf("result %d: %s is %v, want %v", i, name, got[i][name], value)
			}
		}
	}
	if response, _ := got[0]["response"].(map[string]any); response["body"] != "hi" || response["status"] != 201.0 {
		t.Errorf("the replay is %v", got[0])
	}
}

// The operations of one key are run in their order, whatever others do.
func TestBatchOrder(t *testing.T) {
	l := newLife(t)
	var operations []string
	for i := range 100 {
		key := fmt.Sprintf(`"key":"k%d"`, i)
		operations = append(operations, `{"op":"reserve",`+key+`,"fingerprint":"f","owner":"a"}`)
	}
	for i := range 100 {
		key := fmt.Sprintf(`"key":"k%d"`, i)
		operations = append(operations, `{"op":"release",`+key+`,"owner":"a"}`, `{"op":"reserve",`+key+`,"fingerprint":"g","owner":"b"}`, `{"op":"reserve",`+key+`,"fingerprint":"g","owner":"c"}`)
	}
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, httptest.NewRequest("POST", "/v1/batch", strings.NewReader(batchOf(operations...))))
	for i, result := range results(t, w.Body.String()) {
		want := 201.0
		if i >= 100 {
			want = []float64{200, 201, 409}[(i-100)%3]
		}
		if result["status"] != want {
			t.Fatalf("result %d: %v, want status %v", i, result, want)
		}
	}
}

// The scope of an operation is its own.
func TestBatchScopes(t *testing.T) {
	l := newLife(t)
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, httptest.NewRequest("POST", "/v1/batch", strings.NewReader(batchOf(
		`{"op":"reserve","key":"k","fingerprint":"f"}`, `{"op":"reserve","key":"k","scope":"s","fingerprint":"g"}`))))
	for _, result := range results(t, w.Body.String()) {
		if result["status"] != 201.0 {
			t.Errorf("%v", result)
		}
	}
	l.call("GET", "/v1/keys/k?scope=s", "", 200, members{"fingerprint": "g"})
}

func TestRefusedBatches(t *testing.T) {
	fine := `{"op":"renew","key":"k","token":1}`
	for _, c := range []struct {
		name, path, body string
		headers          []string
		status           int
		code             onced.Code
		wants            string
	}{
		{"not JSON", "/v1/batch", `{"operations":[` + fine, nil, 400, onced.CodeInvalidRequest, "not JSON"},
		{"a parameter", "/v1/batch?scope=s", batchOf(fine), nil, 400, onced.CodeInvalidRequest, "unknown"},
		{"too many", "/v1/batch", batchOf(strings.Repeat(fine+",", 1000) + fine), nil, 400, onced.CodeInvalidRequest, "more than 1000"},
		{"too long", "/v1/batch", batchOf(fine) + strings.Repeat(" ", maxBatchBytes), nil, 413, onced.CodeRequestTooLarge, "8388608"},
		{"a form", "/v1/batch", batchOf(fine), []string{"Content-Type", "text/plain"}, 400, onced.CodeInvalidRequest, "application/json"},
	} {
		keeper := &scripted{}
		checkProblem(t, do(config(keeper), "POST", c.path, c.body, c.headers...), c.status, c.code, c.wants)
		if keeper.calls != 0 {
			t.Errorf("%s: the Keeper was asked", c.name)
		}
	}
	keeper := &scripted{}
	cfg := config(keeper)
	cfg.MaxRequestBytes = 50 // a batch has a limit of its own
	if w := do(cfg, "POST", "/v1/batch", batchOf(fine)+strings.Repeat(" ", 1000)); w.Code != 200 || keeper.calls != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := do(cfg, "POST", "/v1/batch", batchOf()); w.Code != 200 || w.Body.String() != `{"results":[]}` {
		t.Errorf("an empty batch: %d %s", w.Code, w.Body)
	}
}

// The limit on a stored response is that of the call of its own.
func TestBatchResponseTooLarge(t *testing.T) {
	cfg := config(&scripted{record: completed})
	cfg.MaxResponseBytes = 10
	w := do(cfg, "POST", "/v1/batch", batchOf(`{"op":"complete","key":"a","token":1,"response":{"status":200,"body":"0123456789"}}`, `{"op":"complete","key":"b","token":1,"response":{"status":200,"body":"0123456789x"}}`))
	got := results(t, w.Body.String())
	if got[0]["status"] != 200.0 || got[1]["status"] != 413.0 || got[1]["code"] != "response_too_large" {
		t.Errorf("%v", got)
	}
}

// keyed is a Keeper whose reserves are as the test says by key.
type keyed struct {
	onced.Keeper
	reserve func(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error)
}

func (k keyed) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	return k.reserve(ctx, r)
}

// A thousand keys are asked for together, and a slow one holds nobody up beyond the deadline.
func TestBatchRunsTogether(t *testing.T) {
	var together, most atomic.Int64
	k := keyed{reserve: func(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
		if r.Key == "slow" {
			<-ctx.Done()
			return onced.ReserveResult{}, onced.AsProblem(ctx.Err())
		}
		for n := together.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		defer together.Add(-1)
		time.Sleep(time.Second)
		return onced.ReserveResult{Record: running}, nil
	}}
	operations := []string{`{"op":"reserve","key":"slow","fingerprint":""}`}
	for i := range 999 {
		operations = append(operations, fmt.Sprintf(`{"op":"reserve","key":"k%d","fingerprint":""}`, i))
	}
	serve(t, config(k), func(t *testing.T, l *wires) {
		conn := l.dial()
		begun := time.Now()
		send(conn, post("/v1/batch", batchOf(operations...)))
		response, body := receive(t, bufio.NewReader(conn))
		if took := time.Since(begun); response.StatusCode != 200 || took != DefaultRequestTimeout {
			t.Errorf("%d after %s", response.StatusCode, took)
		}
		for i, result := range results(t, body) {
			switch {
			case i == 0 && (result["status"] != 503.0 || result["retry_after"] != 1.0):
				t.Errorf("the slow one: %v", result)
			case i > 0 && result["status"] != 201.0:
				t.Fatalf("result %d: %v", i, result)
			}
		}
		if most.Load() != 999 {
			t.Errorf("at most %d ran together", most.Load())
		}
	})
}

// Batches of reserves that hang take every slot of theirs, and none of the holders'.
func TestBatchSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memkeeper.New(func() onced.Instant { return at })
		held, err := mem.Reserve(t.Context(), onced.ReserveRequest{ID: plainID})
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		k := keyed{mem, func(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
			asked.Add(1)
			<-ctx.Done()
			return onced.ReserveResult{}, onced.AsProblem(ctx.Err())
		}}
		a := &api{Config: config(k).withDefaults(), room: newBatchRoom(3, maxBatchReplays)}
		handler := a.observe(a.router())
		post := func(body string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("POST", "/v1/batch", strings.NewReader(body)))
			return w
		}
		var hanging sync.WaitGroup
		reserve := func(i int) string { return fmt.Sprintf(`{"op":"reserve","key":"r%d","fingerprint":""}`, i) }
		hanging.Go(func() {
			var refused int
			for _, result := range results(t, post(batchOf(reserve(1), reserve(2), reserve(3), reserve(4), reserve(5))).Body.String()) {
				if result["status"] != 503.0 || result["code"] != "unavailable" || result["retry_after"] != 1.0 {
					t.Errorf("%v", result)
				}
				if strings.Contains(fmt.Sprint(result["detail"]), "more operations of batches") {
					refused++
				}
			}
			if refused != 2 {
				t.Errorf("%d found no slot, want 2", refused)
			}
		})
		synctest.Wait()
		begun := time.Now()
		got := results(t, post(batchOf(fmt.Sprintf(`{"op":"complete","key":"k","token":%d,"response":{"status":200}}`, held.Record.Token))).Body.String())
		if got[0]["status"] != 200.0 || time.Since(begun) != 0 {
			t.Errorf("a complete meanwhile: %v after %s", got, time.Since(begun))
		}
		hanging.Wait()
		if asked.Load() != 3 {
			t.Errorf("the Keeper was asked %d times with 3 slots", asked.Load())
		}
		if len(a.room.reserves)+len(a.room.holders) != 0 {
			t.Error("slots are not given back")
		}
	})
}

// A client that hangs up ends its reserves, but no complete.
func TestBatchHangUp(t *testing.T) {
	var reserveEnded, completeEnded error
	var asked atomic.Int64
	wait := func(ctx context.Context, ended *error) {
		asked.Add(1)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		*ended = ctx.Err()
	}
	k := keyed{&scripted{block: func(ctx context.Context) { wait(ctx, &completeEnded) }}, func(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
		wait(ctx, &reserveEnded)
		return onced.ReserveResult{}, onced.AsProblem(ctx.Err())
	}}
	serve(t, config(k), func(t *testing.T, l *wires) {
		conn := l.dial()
		send(conn, post("/v1/batch", batchOf(`{"op":"reserve","key":"a","fingerprint":""}`, `{"op":"complete","key":"b","token":1,"outcome":"unknown"}`)))
		synctest.Wait()
		if asked.Load() != 2 {
			t.Fatal("they did not arrive")
		}
		_ = conn.Close()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if reserveEnded != context.Canceled || completeEnded != nil {
			t.Errorf("reserve: %v, complete: %v", reserveEnded, completeEnded)
		}
	})
}

// A panic is one operation's, and ends neither the others nor the process.
func TestBatchPanic(t *testing.T) {
	k := keyed{&scripted{record: running}, func(context.Context, onced.ReserveRequest) (onced.ReserveResult, error) { panic("broken") }}
	w := do(config(k), "POST", "/v1/batch", batchOf(`{"op":"reserve","key":"a","fingerprint":""}`, `{"op":"renew","key":"b","token":1}`), RequestIDHeader, "r-1")
	got := results(t, w.Body.String())
	if got[0]["code"] != "unavailable" || !strings.Contains(fmt.Sprint(got[0]["detail"]), "r-1") || got[1]["status"] != 200.0 {
		t.Errorf("%v", got)
	}
}

// The stored answers of one batch do not fill the node's memory.
func TestBatchReplaysAreBounded(t *testing.T) {
	a := &api{Config: config(&scripted{result: onced.ReserveResult{Replayed: true, Record: completed}}).withDefaults(), room: newBatchRoom(3, 600)}
	w := httptest.NewRecorder()
	operation := `{"op":"reserve","key":"k","fingerprint":""}` // one key, since the scripted Keeper takes one call at a time
	a.observe(a.router()).ServeHTTP(w, httptest.NewRequest("POST", "/v1/batch", strings.NewReader(batchOf(operation, operation, operation, operation, operation))))
	var statuses []any
	for _, result := range results(t, w.Body.String()) {
		statuses = append(statuses, result["status"])
	}
	if diff := cmp.Diff([]any{200.0, 200.0, 200.0, 503.0, 503.0}, statuses); diff != "" {
		t.Error(diff)
	}
}

// A tenant's bounds hold in a batch as they do elsewhere, and only for reserves.
func TestBatchLimits(t *testing.T) {
	mem := memkeeper.New(func() onced.Instant { return at })
	held, err := mem.Reserve(t.Context(), onced.ReserveRequest{ID: plainID})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(limits.Keeper(mem, limits.Config{Rate: 0.01, Burst: 3}))
	m := metrics.New(metrics.Options{Registry: prometheus.NewRegistry()})
	cfg.Metrics = m
	operations := []string{fmt.Sprintf(`{"op":"complete","key":"k","token":%d,"response":{"status":200}}`, held.Record.Token)}
	for i := range 5 {
		operations = append(operations, fmt.Sprintf(`{"op":"reserve","key":"n%d","fingerprint":""}`, i))
	}
	counts := map[any]int{}
	for _, result := range results(t, do(cfg, "POST", "/v1/batch", batchOf(operations...)).Body.String()) {
		counts[result["status"]]++
		if result["status"] == 429.0 && (result["code"] != "rate_limited" || result["retry"] != "same_key" || result["retry_after"] != 100.0 && result["retry_after"] != 101.0) {
			t.Errorf("%v", result)
		}
	}
	if diff := cmp.Diff(map[any]int{200.0: 1, 201.0: 3, 429.0: 2}, counts); diff != "" {
		t.Error(diff)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"onced_rate_limited_total 2", "onced_executed_total 3", `onced_batch_operations_total{call="reserve",outcome="rate_limited"} 2`,
		`onced_batch_operations_total{call="reserve",outcome="reserved"} 3`, `onced_batch_operations_total{call="complete",outcome="ok"} 1`, `onced_request_duration_seconds_count{call="batch",outcome="ok"} 1`} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no %s in\n%s", want, w.Body)
		}
	}
}
