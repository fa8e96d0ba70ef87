package httpapi

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced"
	"onced/fsm/memkeeper"
)

// life is an API on the real state machine, whose clock is moved by hand.
type life struct {
	t       *testing.T
	now     onced.Instant
	handler http.Handler
}

func newLife(t *testing.T) *life {
	l := &life{t: t, now: at}
	l.handler = New(config(memkeeper.New(func() onced.Instant { return l.now })))
	return l
}

// members are those of a JSON object.
type members map[string]any

// call sends one request and checks its status and some members of its answer; nil = absent.
func (l *life) call(method, path, body string, status int, want members) members {
	l.t.Helper()
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	var got members
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			l.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	if w.Code != status {
		l.t.Errorf("%s %s %s: %d %s, want %d", method, path, body, w.Code, w.Body, status)
	}
	for name, value := range want {
		if got[name] != value {
			l.t.Errorf("%s %s %s: %s is %v, want %v", method, path, body, name, got[name], value)
		}
	}
	return got
}

// What the contract says of one key's life, through JSON and back.
func TestLife(t *testing.T) {
	l := newLife(t)
	reserve, complete, release, renew := "/v1/keys/k/reserve", "/v1/keys/k/complete", "/v1/keys/k/release", "/v1/keys/k/renew"
	problem := func(code onced.Code) members { return members{"code": string(code)} }
	body := `{"fingerprint":"f","owner":"o1","tombstone":"1h"}`

	l.call("GET", "/v1/keys/k", "", 404, problem(onced.CodeKeyNotFound))
	l.call("POST", reserve, body, 201, members{"outcome": "reserved", "replayed": false, "repeated": false, "token": 1.0, "attempt": 1.0, "owner": "o1", "lease": "30s", "lease_expires_at": "2023-11-14T22:13:50.000Z", "checkpoint": nil})
	l.call("POST", reserve, body, 201, members{"repeated": true, "token": 1.0})
	l.now += 20_000
	l.call("POST", reserve, `{"fingerprint":"f"}`, 409, members{"code": "request_in_progress", "retry": "same_key", "retry_after": 1.0})
	l.call("POST", reserve, `{"fingerprint":"g"}`, 409, problem(onced.CodeConflict))
	l.call("POST", renew, `{"token":1,"checkpoint":{"step": 2}}`, 200, members{"lease_expires_at": "2023-11-14T22:14:10.000Z"})
	l.call("POST", renew, `{"token":2}`, 409, problem(onced.CodeStaleToken))
	l.call("DELETE", "/v1/keys/k", "", 409, problem(onced.CodeRequestInProgress))
	l.now += 31_000
	l.call("GET", "/v1/keys/k", "", 200, members{"state": "unknown", "response": nil})
	l.call("POST", reserve, `{"fingerprint":"f"}`, 409, problem(onced.CodeOutcomeUnknown))
	l.call("POST", complete, `{"token":1,"response":{"status":201,"body":"done"}}`, 200, members{"state": "completed", "response": nil})
	l.call("POST", complete, `{"token":1,"response":{"status":201,"body":"done"}}`, 200, members{"state": "completed"})
	l.call("POST", complete, `{"token":1,"response":{"status":201,"body":"other"}}`, 409, problem(onced.CodeAlreadyCompleted))
	l.call("POST", release, `{"token":1}`, 409, problem(onced.CodeAlreadyCompleted))
	l.call("POST", reserve, `{"fingerprint":"f"}`, 200, members{"outcome": "replayed", "replayed": true})
	l.call("POST", reserve+"?scope=s", `{"fingerprint":"g"}`, 201, members{"token": 2.0})
	l.now += 24 * 3_600_000
	l.call("POST", reserve, `{"fingerprint":"f"}`, 409, problem(onced.CodeKeyExpired))
	l.call("DELETE", "/v1/keys/k", "", 204, nil)
	l.call("DELETE", "/v1/keys/k", "", 404, problem(onced.CodeKeyNotFound))
	l.call("POST", reserve, `{"fingerprint":"new"}`, 201, members{"token": 3.0, "attempt": 1.0})
	l.call("POST", release, `{"token":3}`, 200, members{"state": "absent", "key": "k"})
	l.call("POST", release, `{"token":3}`, 200, members{"state": "absent"})
}

func TestTakeoverAndResolve(t *testing.T) {
	l := newLife(t)
	l.call("POST", "/v1/keys/k/reserve", `{"fingerprint":"","on_lapse":"retry","lease":"1s"}`, 201, nil)
	l.call("POST", "/v1/keys/k/renew", `{"token":1,"checkpoint":{"step":2}}`, 200, nil)
	l.now += 1_001
	got := l.call("POST", "/v1/keys/k/reserve", `{"fingerprint":""}`, 201, members{"attempt": 2.0, "token": 2.0})
	if step, _ := got["checkpoint"].(map[string]any); step["step"] != 2.0 {
		t.Errorf("the checkpoint is %v", got["checkpoint"])
	}

	l.call("POST", "/v1/keys/u/reserve", `{"fingerprint":""}`, 201, members{"token": 3.0})
	l.call("POST", "/v1/keys/u/complete", `{"token":3,"outcome":"unknown"}`, 200, members{"state": "unknown"})
	list := l.call("GET", "/v1/keys?state=unknown", "", 200, members{"next_cursor": ""})
	if records, _ := list["records"].([]any); len(records) != 1 {
		t.Errorf("listed %v", list)
	}
	l.call("GET", "/v1/keys?cursor=not+ours", "", 400, members{"code": "invalid_request"})
	l.call("POST", "/v1/keys/u/reserve", `{"fingerprint":"","takeover":2}`, 409, members{"code": "stale_token"})
	l.call("POST", "/v1/keys/u/reserve", `{"fingerprint":"","takeover":3}`, 201, members{"token": 4.0, "attempt": 2.0})
	l.call("POST", "/v1/keys/u/resolve", `{"outcome":"released","reason":"r"}`, 409, members{"code": "request_in_progress"})
	l.call("POST", "/v1/keys/u/resolve", `{"outcome":"released","reason":"r","force":true}`, 200, members{"state": "absent"})
}

// Of many at once, on one key, one is given the right; the others are told so, never an error.
func TestManyAtOnce(t *testing.T) {
	l := newLife(t)
	var wg sync.WaitGroup
	statuses := make(chan int, 200)
	for range cap(statuses) {
		wg.Go(func() {
			w := httptest.NewRecorder()
			l.handler.ServeHTTP(w, httptest.NewRequest("POST", "/v1/keys/k/reserve", strings.NewReader(`{"fingerprint":""}`)))
			statuses <- w.Code
		})
	}
	wg.Wait()
	close(statuses)
	counts := map[int]int{}
	for status := range statuses {
		counts[status]++
	}
	if counts[201] != 1 || counts[409] != 199 {
		t.Errorf("got %v", counts)
	}
}

// A duplicate that waits gets the answer of the running one as soon as it is there.
func TestWaitEndsWithTheAnswer(t *testing.T) {
	for _, request := range []string{post("/v1/keys/k/reserve", `{"fingerprint":"","wait":"20s"}`), "GET /v1/keys/k?wait=20s HTTP/1.1\r\nHost: n\r\n\r\n"} {
		// The Keeper must be made in the bubble, as it holds a channel.
		synctest.Test(t, func(t *testing.T) {
			serveIn(t, config(memkeeper.New(func() onced.Instant { return onced.InstantOf(time.Now()) })), func(t *testing.T, l *wires) {
				first, second := l.dial(), l.dial()
				r := bufio.NewReader(first)
				send(first, post("/v1/keys/k/reserve", `{"fingerprint":""}`))
				receive(t, r)
				begun := time.Now()
				send(second, request)
				time.Sleep(12 * time.Second)
				send(first, post("/v1/keys/k/complete", `{"token":1,"response":{"status":201,"body":"done"}}`))
				receive(t, r)
				response, body := receive(t, bufio.NewReader(second))
				if took := time.Since(begun); response.StatusCode != 200 || !strings.Contains(body, `"body":"done"`) || took < 12*time.Second || took > 13*time.Second {
					t.Errorf("%d %s after %s", response.StatusCode, body, took)
				}
			})
		})
	}
}

// Without a majority nothing is decided: a reserve is told to come back, and starts nothing.
func TestDown(t *testing.T) {
	k := memkeeper.New(func() onced.Instant { return at })
	k.SetDown("no majority")
	w := do(config(k), "POST", "/v1/keys/k/reserve", `{"fingerprint":""}`)
	checkProblem(t, w, 503, onced.CodeUnavailable, "no majority")
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("headers: %v", w.Header())
	}
}
