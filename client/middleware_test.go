package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"onced"
	"onced/client"
	"onced/fsm/memkeeper"
)

func newKeeper() *memkeeper.Keeper {
	return memkeeper.New(func() onced.Instant { return onced.InstantOf(time.Now()) })
}

// charge is a handler that counts its runs.
type charge struct {
	runs atomic.Int64
	then http.HandlerFunc
}

func (c *charge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.runs.Add(1)
	c.then(w, r)
}

// answering returns a handler with one answer.
func answering(status int, body string, headers ...string) *charge {
	return &charge{then: func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Add(headers[i], headers[i+1])
		}
		if status != 0 {
			w.WriteHeader(status)
		}
		if body != "" {
			_, _ = io.WriteString(w, body)
			w.(http.Flusher).Flush()
		}
	}}
}

func protect(keeper onced.Keeper, c *charge, tune ...func(*client.Options)) http.Handler {
	o := client.Options{Tenant: client.HeaderTenant("X-Account")}
	for _, f := range tune {
		f(&o)
	}
	return client.Middleware(keeper, o)(c)
}

// paying returns a request with key, "" for none, of the tenant acme.
func paying(ctx context.Context, key, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/charge?a=1", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Account", "acme")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestMiddlewareAnswers(t *testing.T) {
	for _, c := range []struct {
		name     string
		handler  *charge
		tune     func(*client.Options)
		status   int // of the first
		again    int // of a repeat
		code     string
		replayed bool
		runs     int64
	}{
		{"created", answering(201, "{}"), nil, 201, 201, "", true, 1},
		{"nothing said", answering(0, ""), nil, 200, 200, "", true, 1},
		{"no content", answering(204, ""), nil, 204, 204, "", true, 1},
		{"a client's fault", answering(422, "no"), nil, 422, 422, "", true, 1},
		{"not now", answering(503, "busy"), nil, 503, 503, "", false, 2},
		{"too many", answering(429, ""), nil, 429, 429, "", false, 2},
		{"broken", answering(500, "oops"), nil, 500, 409, "outcome_unknown", false, 1},
		{"broken, and kept", answering(500, "oops"), func(o *client.Options) { o.Outcome = func(int) client.Outcome { return client.Keep } }, 500, 500, "", true, 1},
		{"too large", answering(200, strings.Repeat("x", 100)), func(o *client.Options) { o.MaxResponse = 99 }, 200, 409, "response_not_kept", true, 1},
		{"a status of its own", answering(700, ""), nil, 700, 409, "outcome_unknown", false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := protect(newKeeper(), c.handler, func(o *client.Options) {
				if c.tune != nil {
					c.tune(o)
				}
			})
			first, again := do(h, paying(t.Context(), "k", `{"a":1}`)), do(h, paying(t.Context(), `"k"`, `{ "a": 1 }`))
			if first.Code != c.status || again.Code != c.again || c.handler.runs.Load() != c.runs {
				t.Errorf("%d, then %d, after %d runs", first.Code, again.Code, c.handler.runs.Load())
			}
			if got := again.Header().Get("Idempotency-Replayed"); (got == "true") != c.replayed {
				t.Errorf("replayed: %q", got)
			}
			if c.code == "" && again.Body.String() != first.Body.String() || !strings.Contains(again.Body.String(), c.code) {
				t.Errorf("%q, then %q", first.Body, again.Body)
			}
			if strings.Contains(again.Body.String(), "token") {
				t.Errorf("the holder's token is told: %s", again.Body)
			}
		})
	}
}

// TestMiddlewareReplay: a replay has the headers of the first answer, but for those of one moment.
func TestMiddlewareReplay(t *testing.T) {
	handler := answering(201, "<html>", "Location", "/charges/1", "Link", "<a>", "Link", "<b>", "Set-Cookie", "s=1", "Connection", "X-Hop", "X-Hop", "1", "Www-Authenticate", "Basic")
	h := protect(newKeeper(), handler, func(o *client.Options) { o.KeepHeaders = []string{"www-authenticate"} })
	first, again := do(h, paying(t.Context(), "k", "1")), do(h, paying(t.Context(), "k", "1"))
	for name, want := range map[string][2]string{
		"Location": {"/charges/1", "/charges/1"}, "Link": {"<a> <b>", "<a> <b>"}, "Set-Cookie": {"s=1", ""}, "X-Hop": {"", ""},
		"Www-Authenticate": {"Basic", "Basic"}, "Content-Type": {"text/html; charset=utf-8", "text/html; charset=utf-8"}, "Content-Length": {"6", "6"},
		"Idempotency-Replayed": {"false", "true"},
	} {
		got := [2]string{strings.Join(first.Header()[name], " "), strings.Join(again.Header()[name], " ")}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if a, b := first.Header().Get("Idempotency-Expires"), again.Header().Get("Idempotency-Expires"); a == "" || a != b {
		t.Errorf("expires %q, then %q", a, b)
	}
}

func TestMiddlewareRefuses(t *testing.T) {
	handler := answering(201, "")
	h := protect(newKeeper(), handler, func(o *client.Options) { o.MaxRequest = 10 })
	if w := do(h, paying(t.Context(), "used", "1")); w.Code != 201 {
		t.Fatal(w.Code)
	}
	nobody, twice := paying(t.Context(), "k", ""), paying(t.Context(), "k", "")
	nobody.Header.Del("X-Account")
	twice.Header.Add("X-Account", "other")
	for _, c := range []struct {
		name string
		r    *http.Request
		code onced.Code
	}{
		{"no key", paying(t.Context(), "", ""), onced.CodeKeyRequired},
		{"two keys", paying(t.Context(), "a,b", ""), onced.CodeKeyInvalid},
		{"nobody", nobody, onced.CodeUnauthenticated},
		{"two tenants", twice, onced.CodeInvalidRequest},
		{"too large", paying(t.Context(), "k", "12345678901"), onced.CodeRequestTooLarge},
		{"another payload", paying(t.Context(), "used", "2"), onced.CodeConflict},
	} {
		w := do(h, c.r)
		if info := c.code.Info(); w.Code != info.Status || !strings.Contains(w.Body.String(), `"code":"`+string(c.code)) {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
	if handler.runs.Load() != 1 {
		t.Errorf("%d runs", handler.runs.Load())
	}
}

// TestMiddlewarePasses: what is not protected runs each time.
func TestMiddlewarePasses(t *testing.T) {
	handler := answering(200, "")
	h := protect(newKeeper(), handler, func(o *client.Options) { o.Optional = true })
	get := paying(t.Context(), "k", "")
	get.Method = http.MethodGet
	for _, r := range []*http.Request{get, get, paying(t.Context(), "", ""), paying(t.Context(), "", "")} {
		if w := do(h, r); w.Code != 200 || w.Header().Get("Idempotency-Replayed") != "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
	if handler.runs.Load() != 4 {
		t.Errorf("%d runs", handler.runs.Load())
	}
}

// TestMiddlewareTenants: one key of two tenants is two keys.
func TestMiddlewareTenants(t *testing.T) {
	handler := answering(201, "")
	h := protect(newKeeper(), handler)
	other := paying(t.Context(), "k", "1")
	other.Header.Set("X-Account", "other")
	do(h, paying(t.Context(), "k", "1"))
	if w := do(h, other); w.Header().Get("Idempotency-Replayed") != "false" || handler.runs.Load() != 2 {
		t.Errorf("%v, %d runs", w.Header(), handler.runs.Load())
	}
}

// TestMiddlewareTogether: of requests at the same time one runs; the others are told so, or wait.
func TestMiddlewareTogether(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			handler := answering(201, "one")
			answer := handler.then
			handler.then = func(w http.ResponseWriter, r *http.Request) { time.Sleep(2 * time.Second); answer(w, r) }
			h := protect(newKeeper(), handler, func(o *client.Options) { o.Wait = wait })
			statuses := make(chan int)
			for range 20 {
				go func() { statuses <- do(h, paying(t.Context(), "k", "1")).Code }()
			}
			count := map[int]int{}
			for range 20 {
				count[<-statuses]++
			}
			want := map[bool]int{true: 20, false: 1}[wait > 0]
			if handler.runs.Load() != 1 || count[201] != want || count[201]+count[409] != 20 {
				t.Errorf("wait %s: %d runs, statuses %v", wait, handler.runs.Load(), count)
			}
		})
	}
}

// TestMiddlewarePanic: it may have happened.
func TestMiddlewarePanic(t *testing.T) {
	handler := &charge{then: func(http.ResponseWriter, *http.Request) { panic("charged, and then") }}
	h := protect(newKeeper(), handler)
	func() {
		defer func() {
			if recover() != "charged, and then" {
				t.Error("the panic does not go on")
			}
		}()
		do(h, paying(t.Context(), "k", "1"))
	}()
	if w := do(h, paying(t.Context(), "k", "1")); w.Code != 409 || !strings.Contains(w.Body.String(), "outcome_unknown") || handler.runs.Load() != 1 {
		t.Errorf("%d %s after %d runs", w.Code, w.Body, handler.runs.Load())
	}
}

// TestMiddlewareHangUp: the operation goes on to its end and is stored.
func TestMiddlewareHangUp(t *testing.T) {
	ctx, hangUp := context.WithCancel(t.Context())
	handler := &charge{}
	handler.then = func(w http.ResponseWriter, r *http.Request) {
		hangUp()
		if r.Context().Err() != nil {
			t.Error("the handler's context ends with the client")
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != "1" {
			t.Errorf("the handler reads %q, %v", body, err)
		}
		w.WriteHeader(201)
	}
	h := protect(newKeeper(), handler)
	do(h, paying(ctx, "k", "1"))
	if w := do(h, paying(t.Context(), "k", "1")); w.Code != 201 || handler.runs.Load() != 1 {
		t.Errorf("%d after %d runs", w.Code, handler.runs.Load())
	}
}

// TestMiddlewareReservation: the handler knows its token and its attempt.
func TestMiddlewareReservation(t *testing.T) {
	handler := &charge{then: func(w http.ResponseWriter, r *http.Request) {
		if rec, ok := client.ReservationOf(r.Context()); !ok || rec.Token == 0 || rec.Attempt != 1 || rec.Key != "k" || rec.Tenant != "acme" {
			t.Errorf("%+v, %t", rec, ok)
		}
	}}
	do(protect(newKeeper(), handler), paying(t.Context(), "k", "1"))
	if _, ok := client.ReservationOf(t.Context()); ok {
		t.Error("a reservation out of nothing")
	}
}

// TestMiddlewareClosed: without a decision nothing runs.
func TestMiddlewareClosed(t *testing.T) {
	keeper, handler := newKeeper(), answering(201, "")
	keeper.SetDown("no majority")
	w := do(protect(keeper, handler), paying(t.Context(), "k", "1"))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || handler.runs.Load() != 0 {
		t.Errorf("%d %v after %d runs", w.Code, w.Header(), handler.runs.Load())
	}
}

// TestMiddlewareRecordsLate: an answer that cannot be recorded in time is told as unknown, and
// recorded all the same.
func TestMiddlewareRecordsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper, handler := newKeeper(), answering(201, "late")
		answer := handler.then
		handler.then = func(w http.ResponseWriter, r *http.Request) {
			keeper.SetDown("no majority")
			time.AfterFunc(25*time.Second, func() { keeper.SetDown("") })
			answer(w, r)
		}
		h := protect(keeper, handler)
		start := time.Now()
		w := do(h, paying(t.Context(), "k", "1"))
		if took := time.Since(start); w.Code != 504 || !strings.Contains(w.Body.String(), "outcome_unknown") || took < 25*time.Second {
			t.Errorf("%d %s after %s", w.Code, w.Body, took)
		}
		if again := do(h, paying(t.Context(), "k", "1")); again.Code != 201 || again.Body.String() != "late" || handler.runs.Load() != 1 {
			t.Errorf("again: %d %s after %d runs", again.Code, again.Body, handler.runs.Load())
		}
	})
}

// TestMiddlewareLease is about what a handler of 100 seconds, on a lease of 30, is told.
func TestMiddlewareLease(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  onced.OnLapse
		during  func(k *memkeeper.Keeper)
		lost    onced.Code    // told by Lost
		by      time.Duration // at the latest
		stopped bool          // its context ends
		status  int
	}{
		{"renewed", onced.Hold, func(*memkeeper.Keeper) {}, "", 0, false, 201},
		{"settled by an operator", onced.Hold, func(k *memkeeper.Keeper) {
			_, _ = k.Resolve(context.Background(), onced.ResolveRequest{ID: keyOf("k"), Response: &onced.Response{Status: 418}, Reason: "r", Force: true})
		}, onced.CodeAlreadyCompleted, 20 * time.Second, true, 418},
		{"no majority, hold", onced.Hold, func(k *memkeeper.Keeper) {
			k.SetDown("no majority")
			time.AfterFunc(50*time.Second, func() { k.SetDown("") })
		}, onced.CodeUnavailable, 30 * time.Second, false, 201},
		{"no majority, retry", onced.Retry, func(k *memkeeper.Keeper) {
			k.SetDown("no majority")
			time.AfterFunc(50*time.Second, func() { k.SetDown("") })
		}, onced.CodeUnavailable, 30 * time.Second, true, 201},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keeper, handler := newKeeper(), answering(201, "")
				answer := handler.then
				var lost []onced.Code
				var told time.Duration
				start := time.Now()
				handler.then = func(w http.ResponseWriter, r *http.Request) {
					c.during(keeper)
					select {
					case <-r.Context().Done():
						if !c.stopped || !errors.Is(context.Cause(r.Context()), client.ErrLost) {
							t.Errorf("it is stopped: %v", context.Cause(r.Context()))
						}
					case <-time.After(100 * time.Second):
						if c.stopped {
							t.Error("it is not stopped")
						}
					}
					answer(w, r)
				}
				h := protect(keeper, handler, func(o *client.Options) {
					o.OnLapse = c.policy
					o.CallTimeout = time.Minute
					o.Lost = func(_ *http.Request, p *onced.Problem) { lost, told = append(lost, p.Code), time.Since(start) }
				})
				w := do(h, paying(t.Context(), "k", "1"))
				if w.Code != c.status {
					t.Errorf("status %d %s", w.Code, w.Body)
				}
				switch {
				case c.lost == "" && len(lost) != 0, c.lost != "" && (len(lost) != 1 || lost[0] != c.lost):
					t.Errorf("told %v, want %q once", lost, c.lost)
				case told > c.by || c.by == 30*time.Second && told >= c.by:
					t.Errorf("told after %s", told)
				}
			})
		})
	}
}
