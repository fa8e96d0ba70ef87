package metrics

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"onced"
	"onced/fsm/memkeeper"
)

// Every reserve adds to at most one counter, under its tenant where that was asked for.
func TestReservesByTenant(t *testing.T) {
	for _, byTenant := range []bool{false, true} {
		m := New(Options{Registry: prometheus.NewRegistry(), ByTenant: byTenant})
		k := m.Keeper(memkeeper.New(func() onced.Instant { return 1 }))
		ctx := context.Background()
		reserve := func(tenant string, key onced.Key, owner, fingerprint string) {
			_, _ = k.Reserve(ctx, onced.ReserveRequest{ID: onced.ID{Tenant: tenant, Key: key}, Owner: owner, Fingerprint: fingerprint})
		}
		complete := func(tenant string, key onced.Key, token onced.Token, r *onced.Response) {
			if _, err := k.Complete(ctx, onced.CompleteRequest{ID: onced.ID{Tenant: tenant, Key: key}, Token: token, Response: r, Unknown: r == nil}); err != nil {
				t.Fatal(err)
			}
		}
		reserve("a", "k", "o1", "f")
		reserve("a", "k", "o1", "f") // repeated: not executed again
		reserve("a", "k", "o2", "f") // in progress
		reserve("a", "k", "o3", "g") // conflict
		complete("a", "k", 1, &onced.Response{Status: 200})
		reserve("a", "k", "o4", "f") // replayed
		reserve("b", "k", "o1", "f")
		complete("b", "k", 2, nil)
		reserve("b", "k", "o2", "f") // unknown
		reserve("b", "", "o2", "f")  // invalid: no counter
		m.Request("reserve", "reserved", time.Second)
		m.Operation("renew", "ok")
		m.Gateway("POST /charge", "executed", time.Second)

		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		wants := []string{`onced_executed_total 2`, `onced_in_progress_total 1`, `onced_conflicts_total 1`, `onced_replayed_total 1`, `onced_unknown_total 1`}
		if byTenant {
			wants = []string{`onced_executed_total{tenant="a"} 1`, `onced_executed_total{tenant="b"} 1`, `onced_in_progress_total{tenant="a"} 1`,
				`onced_conflicts_total{tenant="a"} 1`, `onced_replayed_total{tenant="a"} 1`, `onced_unknown_total{tenant="b"} 1`}
		}
		wants = append(wants, `onced_request_duration_seconds_sum{call="reserve",outcome="reserved"} 1`, `onced_batch_operations_total{call="renew",outcome="ok"} 1`,
			`onced_gateway_request_duration_seconds_sum{outcome="executed",route="POST /charge"} 1`)
		for _, want := range wants {
			if !strings.Contains(w.Body.String(), want+"\n") {
				t.Errorf("by tenant %v: no %s in\n%s", byTenant, want, w.Body)
			}
		}
	}
}

// Names are as Prometheus has them: a prefix, the unit in base units at the end, _total for counters alone.
func TestNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New(Options{Registry: registry})
	m.Request("c", "o", 1)
	m.Operation("c", "o")
	m.Gateway("r", "o", 1)
	m.Probe("r", "found")
	families, err := registry.Gather()
	if err != nil || len(families) < 10 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	for _, f := range families {
		name, kind := f.GetName(), f.GetType().String()
		if !strings.HasPrefix(name, "onced_") || f.GetHelp() == "" || strings.HasSuffix(name, "_total") != (kind == "COUNTER") ||
			strings.HasSuffix(name, "_seconds") != (kind == "HISTOGRAM") {
			t.Errorf("%s is a %s: %s", name, kind, f.GetHelp())
		}
	}
}
