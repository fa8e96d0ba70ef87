package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// fakeGateway is a faithful gateway in a few lines: it runs an operation once and
// keeps the answer. Its faults are what the demo must find.
type fakeGateway struct {
	upstream string

	mu      sync.Mutex
	records map[string]*fakeRecord

	forget   func(key string) bool // runs the operation again at each repeat
	mangle   func(key string) bool // replays another answer
	lose     func(key string) bool // the table knows nothing of it at the end
	unknown  func(key string) bool // ends unknown: charged, and the answer not stored
	careless func(key string) bool // replays for another amount too
}

type fakeRecord struct {
	once   sync.Once
	body   string // of the request
	answer answer
}

func never(string) bool { return false }

func newFakeGateway(t *testing.T, upstream string) (*fakeGateway, string) {
	f := &fakeGateway{upstream: upstream, records: map[string]*fakeRecord{}, forget: never, mangle: never, lose: never, unknown: never, careless: never}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, server.URL
}

func (f *fakeGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if key, ok := strings.CutPrefix(r.URL.Path, "/v1/keys/"); ok {
		f.serveRecord(w, key)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	record, replayed := f.records[key]
	if !replayed {
		record = &fakeRecord{body: string(body)}
		f.records[key] = record
	}
	f.mu.Unlock()
	record.once.Do(func() { record.answer = f.forward(key, body) })
	a := record.answer
	switch {
	case record.body != string(body) && !f.careless(key):
		writeProblem(w, 409, "idempotency_conflict", "new_key")
		return
	case f.unknown(key):
		writeProblem(w, 409, "outcome_unknown", "same_key")
		return
	case replayed && f.forget(key):
		a = f.forward(key, body)
	case replayed && f.mangle(key):
		a.location = "/charges/other"
	}
	w.Header().Set("Location", a.location)
	w.Header().Set("Idempotency-Replayed", map[bool]string{true: "true", false: "false"}[replayed])
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

func (f *fakeGateway) forward(key string, body []byte) answer {
	r, _ := http.NewRequest(http.MethodPost, f.upstream+"/charge", bytes.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{status: 502}
	}
	defer response.Body.Close()
	got, _ := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get("Location"), string(got)}
}

func (f *fakeGateway) serveRecord(w http.ResponseWriter, key string) {
	f.mu.Lock()
	record := f.records[key]
	f.mu.Unlock()
	if record == nil || f.lose(key) {
		writeProblem(w, 404, "key_not_found", "fix")
		return
	}
	state := "completed"
	if f.unknown(key) {
		state = "unknown"
	}
	json.NewEncoder(w).Encode(map[string]any{"state": state, "response": map[string]any{
		"status": record.answer.status, "body": record.answer.body,
		"headers": [][2]string{{"location", record.answer.location}},
	}})
}

func writeProblem(w http.ResponseWriter, status int, code, retry string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"code": code, "retry": retry, "detail": "as asked for"})
}
