package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"onced"
)

// quiet is a ResponseWriter that allocates nothing of its own.
type quiet struct {
	header http.Header
	status int
}

func (w *quiet) Header() http.Header         { return w.header }
func (w *quiet) Write(p []byte) (int, error) { return len(p), nil }
func (w *quiet) WriteHeader(status int)      { w.status = status }

// TestCostOfCalls holds what a call allocates, from the request that net/http has read to the answer it writes, to a bound:
// what grows here costs every call. The margins are for another release of Go.
func TestCostOfCalls(t *testing.T) {
	body := strings.Repeat("x", 300)
	stored := completed
	stored.Response = &onced.Response{Status: 201, Headers: []onced.Header{{Name: "Content-Type", Value: "text/plain"}}, Body: []byte(body)}
	for _, c := range []struct {
		name, path, body string
		keeper           *scripted
		status           int
		most             float64
	}{
		{"reserve", "/v1/keys/k/reserve", `{"fingerprint":"f","owner":"o","lease":"30s"}`, &scripted{result: onced.ReserveResult{Record: running}}, 201, mostOfReserve},
		{"replay", "/v1/keys/k/reserve", `{"fingerprint":"f"}`, &scripted{result: onced.ReserveResult{Record: stored, Replayed: true}}, 200, mostOfReplay},
		{"complete", "/v1/keys/k/complete", fmt.Sprintf(`{"token":6,"response":{"status":201,"headers":[["Content-Type","text/plain"]],"body":%q}}`, body), &scripted{record: stored}, 200, mostOfComplete},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := New(config(c.keeper))
			w := &quiet{header: http.Header{}}
			reader := strings.NewReader(c.body)
			r := httptest.NewRequest("POST", c.path, reader)
			plain := r.Body
			got := testing.AllocsPerRun(200, func() {
				reader.Reset(c.body)
				r.Body = plain
				clear(w.header)
				h.ServeHTTP(w, r)
			})
			if w.status != c.status {
				t.Fatalf("status %d, expected %d", w.status, c.status)
			}
			t.Logf("%.0f allocations", got)
			if got > c.most {
				t.Errorf("%.0f allocations, expected at most %.0f", got, c.most)
			}
		})
	}
}

// Bounds of allocations.
const (
	mostOfReserve  = 60
	mostOfReplay   = 56
	mostOfComplete = 65
)
