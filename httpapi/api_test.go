package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"onced"
	"onced/metrics"
)

const at onced.Instant = 1_700_000_000_000 // 2023-11-14T22:13:20Z

// scripted is a Keeper whose every answer is set, and that remembers what it was asked.
type scripted struct {
	mu     sync.Mutex // a batch asks for several keys at once
	asked  any        // the request
	ctx    context.Context
	calls  int
	result onced.ReserveResult
	record onced.Record
	page   onced.ListResult
	err    error
	block  func(ctx context.Context) // runs inside of each call, if set
}

func (s *scripted) ask(ctx context.Context, r any) error {
	s.mu.Lock()
	s.calls++
	s.asked, s.ctx = r, ctx
	s.mu.Unlock()
	if s.block != nil {
		s.block(ctx)
	}
	return s.err
}

func (s *scripted) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	return s.result, s.ask(ctx, r)
}
func (s *scripted) Complete(ctx context.Context, r onced.CompleteRequest) (onced.Record, error) {
	return s.record, s.ask(ctx, r)
}
func (s *scripted) Release(ctx context.Context, r onced.ReleaseRequest) error { return s.ask(ctx, r) }
func (s *scripted) Renew(ctx context.Context, r onced.RenewRequest) (onced.Record, error) {
	return s.record, s.ask(ctx, r)
}
func (s *scripted) Resolve(ctx context.Context, r onced.ResolveRequest) (onced.Record, error) {
	return s.record, s.ask(ctx, r)
}
func (s *scripted) Forget(ctx context.Context, r onced.ForgetRequest) error { return s.ask(ctx, r) }
func (s *scripted) Get(ctx context.Context, r onced.GetRequest) (onced.Record, error) {
	return s.record, s.ask(ctx, r)
}
func (s *scripted) List(ctx context.Context, r onced.ListRequest) (onced.ListResult, error) {
	return s.page, s.ask(ctx, r)
}

// fixed is a Cluster that says what it was told to.
type fixed struct {
	status onced.ClusterStatus
	err    error
}

func (f fixed) Status() onced.ClusterStatus { return f.status }
func (f fixed) Ready() error                { return f.err }

// authorityFunc is an Authority.
type authorityFunc func(r *http.Request) (Caller, error)

func (f authorityFunc) Authenticate(r *http.Request) (Caller, error) { return f(r) }

// do sends one request through the handler, without a socket.
func do(cfg Config, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	New(cfg).ServeHTTP(w, r)
	return w
}

func config(k onced.Keeper) Config {
	return Config{Keeper: k, Cluster: fixed{}, Authority: NoAuth{}}
}

var (
	plainID   = onced.ID{Tenant: "default", Key: "k"}
	scopedID  = onced.ID{Tenant: "acme", Scope: "POST /a b", Key: "a/b c"}
	running   = onced.Record{ID: plainID, State: onced.StateInProgress, Fingerprint: "f", Attempt: 1, Token: 6, Owner: "o", Lease: 30 * time.Second, CreatedAt: at, LeaseExpiresAt: at + 30_000}
	completed = onced.Record{ID: plainID, State: onced.StateCompleted, Fingerprint: "f", Attempt: 1, Token: 6, Owner: "o", CreatedAt: at, CompletedAt: at, ExpiresAt: at + 1,
		Response: &onced.Response{Status: 201, Body: []byte("hi")}}
)

const (
	reservedBody = `{"outcome":"reserved","replayed":false,"repeated":false,"key":"k","token":6,"owner":"o","attempt":1,"lease":"30s","lease_expires_at":"2023-11-14T22:13:50.000Z"}`
	replayedBody = `{"outcome":"replayed","replayed":true,"response":{"status":201,"headers":[],"body":"hi"},"completed_at":"2023-11-14T22:13:20.000Z","expires_at":"2023-11-14T22:13:20.001Z"}`
	recordBody   = `{"key":"k","scope":"","tenant":"default","state":"completed","fingerprint":"f","attempt":1,"token":6,"owner":"o","created_at":"2023-11-14T22:13:20.000Z","completed_at":"2023-11-14T22:13:20.000Z","expires_at":"2023-11-14T22:13:20.001Z"`
)

// One row for each row of the contract's table of calls: what the Keeper is asked, and what
// comes back.
func TestCalls(t *testing.T) {
	scope := "s"
	other := []string{"Onced-Tenant", "acme"}
	cases := []struct {
		name         string
		keeper       *scripted
		method, path string
		body         string
		headers      []string
		asked        any
		status       int
		want         string
	}{
		{"reserve", &scripted{result: onced.ReserveResult{Record: running}}, "POST", "/v1/keys/k/reserve", `{"fingerprint":"f"}`, nil,
			onced.ReserveRequest{ID: plainID, Fingerprint: "f"}, 201, reservedBody},
		{"reserve with everything", &scripted{result: onced.ReserveResult{Record: running, Repeated: true}}, "POST", "/v1/keys/a%2Fb%20c/reserve?scope=POST+/a%20b",
			`{"fingerprint":"","owner":"o","lease":"5s","retention":"1h","tombstone":"2h","on_lapse":"retry","wait":"3s","takeover":9}`, other,
			onced.ReserveRequest{ID: scopedID, Owner: "o", Lease: 5 * time.Second, Retention: time.Hour, Tombstone: 2 * time.Hour, OnLapse: onced.Retry, Wait: 3 * time.Second, Takeover: 9},
			201, strings.Replace(reservedBody, `"repeated":false`, `"repeated":true`, 1)},
		{"replay", &scripted{result: onced.ReserveResult{Record: completed, Replayed: true}}, "POST", "/v1/keys/k/reserve", `{"fingerprint":"f"}`, nil,
			onced.ReserveRequest{ID: plainID, Fingerprint: "f"}, 200, replayedBody},
		{"complete", &scripted{record: completed}, "POST", "/v1/keys/k/complete", `{"token":6,"response":{"status":201,"body":"hi"},"retention":"1h"}`, nil,
			onced.CompleteRequest{ID: plainID, Token: 6, Response: completed.Response, Retention: time.Hour}, 200, recordBody + "}"},
		{"complete unknown", &scripted{record: running}, "POST", "/v1/keys/k/complete?scope=s", `{"token":6,"outcome":"unknown"}`, nil,
			onced.CompleteRequest{ID: onced.ID{Tenant: "default", Scope: "s", Key: "k"}, Token: 6, Unknown: true}, 200, ""},
		{"release", &scripted{}, "POST", "/v1/keys/k/release", `{"token":6}`, nil, onced.ReleaseRequest{ID: plainID, Token: 6}, 200, `{"key":"k","state":"absent"}`},
		{"cancel", &scripted{}, "POST", "/v1/keys/a%2Fb%20c/release?scope=POST+/a%20b", `{"owner":"o"}`, other, onced.ReleaseRequest{ID: scopedID, Owner: "o"}, 200, `{"key":"a/b c","state":"absent"}`},
		{"renew", &scripted{record: running}, "POST", "/v1/keys/k/renew", `{"token":6,"lease":"1m","checkpoint":{"a": 1}}`, nil,
			onced.RenewRequest{ID: plainID, Token: 6, Lease: time.Minute, Checkpoint: []byte(`{"a": 1}`)}, 200, `{"lease_expires_at":"2023-11-14T22:13:50.000Z"}`},
		{"get", &scripted{record: completed}, "GET", "/v1/keys/k", "", nil, onced.GetRequest{ID: plainID}, 200, recordBody + `,"response":{"status":201,"headers":[],"body":"hi"}}`},
		{"get, waiting and stale", &scripted{record: completed}, "GET", "/v1/keys/k?wait=60s&stale=true&scope=", "", nil, onced.GetRequest{ID: plainID, Wait: time.Minute, Stale: true}, 200, ""},
		{"get with a body", &scripted{record: completed}, "GET", "/v1/keys/k?stale=false", "ignored", nil, onced.GetRequest{ID: plainID}, 200, ""},
		{"list", &scripted{page: onced.ListResult{Records: []onced.Record{completed}, NextCursor: "c"}}, "GET", "/v1/keys", "", nil,
			onced.ListRequest{Tenant: "default", Limit: 100}, 200, `{"records":[` + recordBody + `}],"next_cursor":"c"}`},
		{"list with everything", &scripted{}, "GET", "/v1/keys?state=unknown&prefix=ab&limit=1000&cursor=x%2By&scope=s", "", other,
			onced.ListRequest{Tenant: "acme", Scope: &scope, State: onced.StateUnknown, Prefix: "ab", Limit: 1000, Cursor: "x+y"}, 200, `{"records":[],"next_cursor":""}`},
		{"resolve completed", &scripted{record: completed}, "POST", "/v1/keys/k/resolve", `{"outcome":"completed","response":{"status":201,"body":"hi"},"reason":"seen","force":true}`, nil,
			onced.ResolveRequest{ID: plainID, Response: completed.Response, Reason: "seen", Force: true}, 200, recordBody + "}"},
		{"resolve released", &scripted{record: onced.Record{ID: plainID}}, "POST", "/v1/keys/k/resolve", `{"outcome":"released","reason":"never sent"}`, nil,
			onced.ResolveRequest{ID: plainID, Reason: "never sent"}, 200, `{"key":"k","scope":"","tenant":"default","state":"absent"}`},
		{"forget", &scripted{}, "DELETE", "/v1/keys/k", "", nil, onced.ForgetRequest{ID: plainID}, 204, ""},
		{"forget by force", &scripted{}, "DELETE", "/v1/keys/k?force=true&reason=asked", "", nil, onced.ForgetRequest{ID: plainID, Force: true}, 204, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := do(config(c.keeper), c.method, c.path, c.body, c.headers...)
			if diff := cmp.Diff(c.asked, c.keeper.asked); diff != "" {
				t.Errorf("the Keeper was asked otherwise:\n%s", diff)
			}
			if w.Code != c.status || c.want != "" && w.Body.String() != c.want {
				t.Errorf("got %d %s\nwant %d %s", w.Code, w.Body, c.status, c.want)
			}
			if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get(RequestIDHeader) == "" {
				t.Errorf("headers: %v", w.Header())
			}
			if media := w.Header().Get("Content-Type"); c.status != 204 && media != "application/json" {
				t.Errorf("Content-Type is %q", media)
			}
		})
	}
}

// Each refusal of a Keeper is answered with its row of the table, on every call.
func TestKeeperProblems(t *testing.T) {
	calls := []struct{ method, path, body string }{
		{"POST", "/v1/keys/k/reserve", `{"fingerprint":""}`},
		{"POST", "/v1/keys/k/complete", `{"token":1,"outcome":"unknown"}`},
		{"POST", "/v1/keys/k/release", `{"token":1}`},
		{"POST", "/v1/keys/k/renew", `{"token":1}`},
		{"POST", "/v1/keys/k/resolve", `{"outcome":"released","reason":"r"}`},
		{"GET", "/v1/keys/k", ""},
		{"GET", "/v1/keys", ""},
		{"DELETE", "/v1/keys/k", ""},
	}
	for _, info := range onced.Codes {
		for _, c := range calls {
			keeper := &scripted{err: &onced.Problem{Code: info.Code, Detail: "so", RetryAfter: 1500 * time.Millisecond}}
			w := do(config(keeper), c.method, c.path, c.body)
			checkProblem(t, w, info.Status, info.Code, "so")
			if w.Header().Get("Retry-After") != "2" || !strings.Contains(w.Body.String(), `"retry_after":2`) {
				t.Errorf("%s %s: %v %s", c.method, c.path, w.Header(), w.Body)
			}
		}
	}
}

func checkProblem(t *testing.T, w *httptest.ResponseRecorder, status int, code onced.Code, wants string) {
	t.Helper()
	body := w.Body.String()
	if w.Code != status || w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Cache-Control") != "no-store" ||
		!strings.Contains(body, `"code":"`+string(code)+`"`) || !strings.Contains(body, wants) ||
		!strings.Contains(body, `"type":"/problems/`+string(code)+`"`) || !strings.Contains(body, `"retry":"`+string(code.Info().Retry)+`"`) {
		t.Errorf("got %d %v %s\nwant %d %s naming %q", w.Code, w.Header(), body, status, code, wants)
	}
}

// An error that is no problem must not look like a "no", and says when to try again.
func TestUnclassifiedError(t *testing.T) {
	w := do(config(&scripted{err: errors.New("disk")}), "POST", "/v1/keys/k/complete", `{"token":1,"outcome":"unknown"}`)
	checkProblem(t, w, 503, onced.CodeUnavailable, `"retry_after":1`)
	w = do(config(&scripted{err: onced.Problemf(onced.CodeUnavailable, "no leader")}), "GET", "/v1/keys/k", "")
	checkProblem(t, w, 503, onced.CodeUnavailable, `"retry_after":1`)
}

// refusal is a request that is refused before the Keeper is asked.
type refusal struct {
	name         string
	method, path string
	body         string
	headers      []string
	status       int
	code         onced.Code
	wants        string
}

func refusals() []refusal {
	reserve, complete := "/v1/keys/k/reserve", "/v1/keys/k/complete"
	fine := `{"fingerprint":""}`
	long := strings.Repeat("k", 256)
	return []refusal{
		{"key empty", "POST", "/v1/keys//reserve", fine, nil, 400, onced.CodeKeyInvalid, "the key is empty"},
		{"key empty, get", "GET", "/v1/keys/", "", nil, 400, onced.CodeKeyInvalid, "the key is empty"},
		{"key long", "POST", "/v1/keys/" + long + "/reserve", fine, nil, 400, onced.CodeKeyInvalid, "256 bytes"},
		{"key control", "POST", "/v1/keys/a%0Ab/reserve", fine, nil, 400, onced.CodeKeyInvalid, "0x0A"},
		{"key accent", "POST", "/v1/keys/%C3%A9/reserve", fine, nil, 400, onced.CodeKeyInvalid, "0xC3"},
		{"key NUL", "GET", "/v1/keys/a%00", "", nil, 400, onced.CodeKeyInvalid, "0x00"},
		{"key with a slash", "POST", "/v1/keys/a/b/reserve", fine, nil, 404, onced.CodeInvalidRequest, "a / in a key is written %2F"},
		{"slash at the end", "POST", reserve + "/", fine, nil, 404, onced.CodeInvalidRequest, "%2F"},
		{"nothing there", "GET", "/v2", "", nil, 404, onced.CodeInvalidRequest, "there is nothing at"},
		{"no such call", "POST", "/v1/keys/k/extend", fine, nil, 404, onced.CodeInvalidRequest, "there is nothing at"},
		{"two slashes before", "POST", "//v1/keys/k/reserve", fine, nil, 404, onced.CodeInvalidRequest, "there is nothing at"},
		{"dots", "POST", "/v1/keys/x/../k/reserve", fine, nil, 404, onced.CodeInvalidRequest, "there is nothing at"},
		{"scope long", "POST", reserve + "?scope=" + long, fine, nil, 400, onced.CodeInvalidRequest, "the scope has 256 bytes"},
		{"scope accent", "POST", reserve + "?scope=%C3%A9", fine, nil, 400, onced.CodeInvalidRequest, "the scope has byte 0xC3"},
		{"scope twice", "POST", reserve + "?scope=a&scope=b", fine, nil, 400, onced.CodeInvalidRequest, "is there 2 times"},
		{"parameter unknown", "POST", reserve + "?skope=a", fine, nil, 400, onced.CodeInvalidRequest, `\"skope\" is unknown: expected only scope`},
		{"parameter in another case", "GET", "/v1/keys/k?Wait=1s", "", nil, 400, onced.CodeInvalidRequest, "unknown"},
		{"parameter of another call", "POST", complete + "?force=true", `{"token":1,"outcome":"unknown"}`, nil, 400, onced.CodeInvalidRequest, "unknown"},
		{"parameter of none", "GET", "/v1/cluster?x=1", "", nil, 400, onced.CodeInvalidRequest, "expected none"},
		{"semicolon", "GET", "/v1/keys/k?wait=1s;stale=true", "", nil, 400, onced.CodeInvalidRequest, "cannot be read"},
		{"bad escape in the query", "GET", "/v1/keys/k?wait=%zz", "", nil, 400, onced.CodeInvalidRequest, "cannot be read"},
		{"wait", "GET", "/v1/keys/k?wait=61s", "", nil, 400, onced.CodeInvalidRequest, "wait is"},
		{"wait without unit", "GET", "/v1/keys/k?wait=5", "", nil, 400, onced.CodeInvalidRequest, "wait is"},
		{"wait empty", "GET", "/v1/keys/k?wait=", "", nil, 400, onced.CodeInvalidRequest, "wait is"},
		{"stale", "GET", "/v1/keys/k?stale=1", "", nil, 400, onced.CodeInvalidRequest, "stale is"},
		{"stale empty", "GET", "/v1/keys/k?stale", "", nil, 400, onced.CodeInvalidRequest, "stale is"},
		{"force", "DELETE", "/v1/keys/k?force=yes", "", nil, 400, onced.CodeInvalidRequest, "force is"},
		{"reason long", "DELETE", "/v1/keys/k?reason=" + strings.Repeat("r", 1025), "", nil, 400, onced.CodeInvalidRequest, "reason has 1025"},
		{"limit", "GET", "/v1/keys?limit=1001", "", nil, 400, onced.CodeInvalidRequest, "limit is"},
		{"limit none", "GET", "/v1/keys?limit=0", "", nil, 400, onced.CodeInvalidRequest, "limit is"},
		{"state", "GET", "/v1/keys?state=absent", "", nil, 400, onced.CodeInvalidRequest, "state is"},
		{"state empty", "GET", "/v1/keys?state=", "", nil, 400, onced.CodeInvalidRequest, "state is"},
		{"prefix", "GET", "/v1/keys?prefix=%0A", "", nil, 400, onced.CodeInvalidRequest, "prefix is"},
		{"body empty", "POST", reserve, "", nil, 400, onced.CodeInvalidRequest, "the body is empty"},
		{"body unknown member", "POST", reserve, `{"fingerprint":"","leese":"1s"}`, nil, 400, onced.CodeInvalidRequest, "leese"},
		{"complete without token", "POST", complete, `{"outcome":"unknown"}`, nil, 400, onced.CodeInvalidRequest, "token"},
		{"release without either", "POST", "/v1/keys/k/release", `{}`, nil, 400, onced.CodeInvalidRequest, "token"},
		{"renew without token", "POST", "/v1/keys/k/renew", `{}`, nil, 400, onced.CodeInvalidRequest, "token"},
		{"resolve without reason", "POST", "/v1/keys/k/resolve", `{"outcome":"released"}`, nil, 400, onced.CodeInvalidRequest, "reason"},
		{"a form", "POST", reserve, fine, []string{"Content-Type", "application/x-www-form-urlencoded"}, 400, onced.CodeInvalidRequest, "expected application/json"},
		{"text", "POST", reserve, fine, []string{"Content-Type", "text/plain;x=application/json"}, 400, onced.CodeInvalidRequest, "expected application/json"},
		{"no media type", "POST", reserve, fine, []string{"Content-Type", ""}, 400, onced.CodeInvalidRequest, "expected application/json"},
		{"two media types", "POST", reserve, fine, []string{"Content-Type", "application/json", "Content-Type", "application/json"}, 400, onced.CodeInvalidRequest, "expected application/json"},
		{"charset", "POST", reserve, fine, []string{"Content-Type", "application/json; charset=latin1"}, 400, onced.CodeInvalidRequest, "expected application/json"},
		{"gzip", "POST", reserve, fine, []string{"Content-Encoding", "gzip"}, 400, onced.CodeInvalidRequest, "without compression"},
		{"tenant no name", "POST", reserve, fine, []string{"Onced-Tenant", "a b"}, 400, onced.CodeInvalidRequest, "the tenant"},
		{"tenant empty", "POST", reserve, fine, []string{"Onced-Tenant", ""}, 400, onced.CodeInvalidRequest, "the tenant"},
		{"two tenants", "POST", reserve, fine, []string{"Onced-Tenant", "a", "onced-tenant", "a"}, 400, onced.CodeInvalidRequest, "2 Onced-Tenant lines"},
		{"two credentials", "POST", reserve, fine, []string{"Authorization", "Bearer a", "authorization", "Bearer a"}, 401, onced.CodeUnauthenticated, "2 Authorization lines"},
		{"a foreign page", "POST", reserve, fine, []string{"Sec-Fetch-Site", "cross-site"}, 403, onced.CodeForbidden, "another origin"},
		{"a foreign page of an old browser", "DELETE", "/v1/keys/k", "", []string{"Origin", "http://evil.example"}, 403, onced.CodeForbidden, "another origin"},
	}
}

// What is wrong with a request is told by name, and the Keeper is never asked.
func TestRefusals(t *testing.T) {
	for _, c := range refusals() {
		t.Run(c.name, func(t *testing.T) {
			keeper := &scripted{}
			w := do(config(keeper), c.method, c.path, c.body, c.headers...)
			checkProblem(t, w, c.status, c.code, c.wants)
			if keeper.calls != 0 {
				t.Error("the Keeper was asked")
			}
		})
	}
}

func TestTakenMedia(t *testing.T) {
	for _, media := range []string{"application/json", "Application/JSON; charset=UTF-8"} {
		w := do(config(&scripted{result: onced.ReserveResult{Record: running}}), "POST", "/v1/keys/k/reserve", `{"fingerprint":""}`, "Content-Type", media, "Content-Encoding", "identity")
		if w.Code != 201 {
			t.Errorf("%s: %d %s", media, w.Code, w.Body)
		}
	}
}

// A key is decoded once, whatever it looks like.
func TestKeys(t *testing.T) {
	for encoded, want := range map[string]onced.Key{"a%2Fb": "a/b", "..": "..", ".": ".", "%2E%2e": "..", "a%20b": "a b", "a+b": "a+b", "%252F": "%2F", "a%25b": "a%b",
		"reserve": "reserve", "%22q%22": `"q"`, "a,b": "a,b", "a;b=c": "a;b=c", "a:b@c": "a:b@c", "%61": "a", "a%3Fb%23": "a?b#", "k%5C": `k\`, "%7Etilde": "~tilde", "[a]": "[a]", strings.Repeat("k", 255): onced.Key(strings.Repeat("k", 255))} {
		for _, suffix := range []string{"", "/reserve"} {
			keeper := &scripted{result: onced.ReserveResult{Record: running}, record: running}
			if suffix == "" {
				do(config(keeper), "GET", "/v1/keys/"+encoded, "")
			} else {
				do(config(keeper), "POST", "/v1/keys/"+encoded+suffix, `{"fingerprint":""}`)
			}
			var got onced.Key
			switch asked := keeper.asked.(type) {
			case onced.GetRequest:
				got = asked.Key
			case onced.ReserveRequest:
				got = asked.Key
			}
			if got != want {
				t.Errorf("%s%s: got %q, want %q", encoded, suffix, got, want)
			}
		}
	}
}

func TestMethods(t *testing.T) {
	for path, allow := range map[string]string{"/v1/keys/k/reserve": "POST", "/v1/keys/k": "DELETE, GET, HEAD", "/v1/keys": "GET, HEAD", "/v1/cluster": "GET, HEAD", "/healthz": "GET, HEAD",
		"/readyz": "GET, HEAD", "/problems/unavailable": "GET, HEAD", "/v1/keys/k/resolve": "POST"} {
		w := do(config(&scripted{}), "PUT", path, "")
		checkProblem(t, w, 405, onced.CodeInvalidRequest, allow)
		if got := w.Header().Get("Allow"); got != allow {
			t.Errorf("%s: Allow is %q, want %q", path, got, allow)
		}
	}
	if w := do(config(&scripted{record: running}), "HEAD", "/v1/keys/k", ""); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

// The authority comes first: no answer of a caller that it refuses depends on key, query, body or table.
func TestAuthorityComesFirst(t *testing.T) {
	refuse := authorityFunc(func(*http.Request) (Caller, error) {
		return Caller{}, onced.Problemf(onced.CodeUnauthenticated, "no credentials")
	})
	var first string
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/keys/k/reserve", `{"fingerprint":""}`}, {"POST", "/v1/keys/%00/reserve", `{`}, {"POST", "/v1/keys/k/complete?x=1", ""}, {"GET", "/v1/keys/k", ""},
		{"GET", "/v1/keys/k?wait=bad", ""}, {"DELETE", "/v1/keys/k", ""}, {"POST", "/v1/keys/k/resolve", `{}`}, {"GET", "/v1/keys?cursor=x", ""}, {"GET", "/v1/cluster", ""},
	} {
		keeper := &scripted{}
		cfg := config(keeper)
		cfg.Authority = refuse
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Body = io.NopCloser(unreadable{t})
		w := httptest.NewRecorder()
		New(cfg).ServeHTTP(w, r)
		checkProblem(t, w, 401, onced.CodeUnauthenticated, "no credentials")
		if w.Header().Get("WWW-Authenticate") != "Bearer" || keeper.calls != 0 {
			t.Errorf("%s: %v, the Keeper was asked %d times", c.path, w.Header(), keeper.calls)
		}
		if first == "" {
			first = w.Body.String()
		}
		if w.Body.String() != first {
			t.Errorf("%s: got %s, others %s", c.path, w.Body, first)
		}
	}
}

// unreadable is a body that must not be read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestRoles(t *testing.T) {
	for _, role := range []Role{RoleClient, RoleGateway, ""} {
		cfg := config(&scripted{record: running})
		cfg.Authority = authorityFunc(func(*http.Request) (Caller, error) { return Caller{Name: "n", Tenant: "t", Role: role}, nil })
		checkProblem(t, do(cfg, "DELETE", "/v1/keys/k", ""), 403, onced.CodeForbidden, "operator")
		checkProblem(t, do(cfg, "POST", "/v1/keys/k/resolve", `{`), 403, onced.CodeForbidden, "operator")
		if w := do(cfg, "GET", "/v1/keys/k", ""); w.Code != 200 {
			t.Errorf("%q may not read: %d", role, w.Code)
		}
	}
}

func TestSizes(t *testing.T) {
	cfg := config(&scripted{record: completed, result: onced.ReserveResult{Record: running}})
	cfg.MaxRequestBytes, cfg.MaxResponseBytes = 100, 300
	pad := func(n int) string { return `{"fingerprint":""` + strings.Repeat(" ", n-18) + `}` }
	body := func(n int) string {
		return `{"token":1,"response":{"status":200,"body":"` + strings.Repeat("b", n) + `"}}`
	}
	resolve := func(n int) string {
		return `{"outcome":"completed","reason":"r","response":{"status":200,"body":"` + strings.Repeat("b", n) + `"}}`
	}
	cases := []struct {
		path, body string
		status     int
		code       onced.Code
	}{
		{"reserve", pad(100), 201, ""},
		{"reserve", pad(101), 413, onced.CodeRequestTooLarge},
		{"complete", body(300), 200, ""},
		{"complete", body(301), 413, onced.CodeResponseTooLarge},
		{"complete", body(100_000), 413, onced.CodeResponseTooLarge},
		{"complete", `{"token":1,"response":{"status":200,"body":"` + strings.Repeat(`\u0062`, 300) + `"}}`, 200, ""},
		{"resolve", resolve(300), 200, ""},
		{"resolve", resolve(301), 413, onced.CodeResponseTooLarge},
	}
	for _, c := range cases {
		for _, chunked := range []bool{false, true} {
			r := httptest.NewRequest("POST", "/v1/keys/k/"+c.path, strings.NewReader(c.body))
			if chunked {
				r.ContentLength = -1
			}
			w := httptest.NewRecorder()
			New(cfg).ServeHTTP(w, r)
			if c.code != "" {
				checkProblem(t, w, c.status, c.code, "")
			} else if w.Code != c.status {
				t.Errorf("%s of %d bytes: %d %s", c.path, len(c.body), w.Code, w.Body)
			}
		}
	}
}

func TestPanic(t *testing.T) {
	var log strings.Builder
	cfg := config(&scripted{block: func(context.Context) { panic("broken") }})
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w := do(cfg, "POST", "/v1/keys/k/release", `{"token":1}`, RequestIDHeader, "r-1")
	checkProblem(t, w, 503, onced.CodeUnavailable, "r-1")
	if !strings.Contains(log.String(), "broken") || !strings.Contains(log.String(), "stack=") || !strings.Contains(log.String(), "outcome=unavailable") || strings.Contains(w.Body.String(), "broken") {
		t.Errorf("log %q, body %s", log.String(), w.Body)
	}
}

func TestRequestIDs(t *testing.T) {
	cfg := config(&scripted{record: running})
	if got := do(cfg, "GET", "/v1/keys/k", "", RequestIDHeader, "a-B_c.1:@/+=").Header().Get(RequestIDHeader); got != "a-B_c.1:@/+=" {
		t.Errorf("got %q", got)
	}
	for _, lines := range [][]string{{RequestIDHeader, "a b"}, {RequestIDHeader, ""}, {RequestIDHeader, strings.Repeat("x", 129)}, {RequestIDHeader, "a", RequestIDHeader, "b"}, {RequestIDHeader, "é"}, nil} {
		if got := do(cfg, "GET", "/v1/keys/k", "", lines...).Header().Get(RequestIDHeader); len(got) != 26 {
			t.Errorf("%v: got %q, want one of our own", lines, got)
		}
	}
}

func TestAudit(t *testing.T) {
	cases := []struct {
		method, path, body string
		err                error
		wants              []string
	}{
		{"DELETE", "/v1/keys/a%2Fb?scope=s&reason=gdpr&force=true", "", nil, []string{"verb=forget", "key=a/b", "scope=s", "reason=gdpr", "force=true", "outcome=ok"}},
		{"DELETE", "/v1/keys/k", "", onced.Problemf(onced.CodeKeyNotFound, "none"), []string{"outcome=key_not_found"}},
		{"POST", "/v1/keys/k/resolve", `{"outcome":"released","reason":"never sent"}`, nil, []string{`verb="resolve released"`, `reason="never sent"`, "tenant=acme", "who=anonymous", "request_id=r-1"}},
		{"POST", "/v1/keys/k/resolve", `{"outcome":"completed","response":{"status":200},"reason":"r"}`, nil, []string{`verb="resolve completed"`}},
	}
	for _, c := range cases {
		var log strings.Builder
		cfg := config(&scripted{record: running, err: c.err})
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		do(cfg, c.method, c.path, c.body, "Onced-Tenant", "acme", RequestIDHeader, "r-1")
		if strings.Count(log.String(), "msg=audit") != 1 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s %s: expected one line: %s", c.method, c.path, log.String())
		}
		for _, want := range c.wants {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s %s: no %s in %s", c.method, c.path, want, log.String())
			}
		}
	}
}

func TestAccessLog(t *testing.T) {
	var log strings.Builder
	cfg := config(&scripted{err: onced.Problemf(onced.CodeKeyNotFound, "none")})
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	do(cfg, "GET", "/v1/keys/a%2Fb", "", RequestIDHeader, "r-1")
	for _, want := range []string{"level=DEBUG", "request_id=r-1", "method=GET", "call=get", "key_digest=3428ecefaaad1f3e", "tenant=default", "status=404", "outcome=key_not_found"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log.String())
		}
	}
}

func TestHealth(t *testing.T) {
	cfg := config(&scripted{})
	cfg.Authority = authorityFunc(func(*http.Request) (Caller, error) { return Caller{}, errors.New("nobody") })
	if w := do(cfg, "GET", "/healthz", ""); w.Code != 200 || w.Body.String() != `{"status":"ok"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := do(cfg, "GET", "/readyz", ""); w.Code != 200 || w.Body.String() != `{"status":"ready"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	cfg.Cluster = fixed{err: errors.New("no leader")}
	checkProblem(t, do(cfg, "GET", "/readyz", ""), 503, onced.CodeUnavailable, "not ready: no leader")
	if w := do(cfg, "GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("not ready is still alive: %d", w.Code)
	}
}

func TestCluster(t *testing.T) {
	cfg := config(&scripted{})
	if w := do(cfg, "GET", "/v1/cluster", ""); w.Body.String() != `{"cluster_id":"","node_id":"","role":"","leader":"","term":0,"members":[],"commit_index":0,"applied_index":0,"last_snapshot_index":0}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	cfg.Cluster = fixed{status: onced.ClusterStatus{ClusterID: "c", NodeID: "n1", Role: "leader", Leader: "n1", Term: 3, Members: []onced.Member{{ID: "n1", Address: "h:1", Voter: true, Role: "leader"}}, CommitIndex: 9, AppliedIndex: 8, LastSnapshotIndex: 7}}
	want := `{"cluster_id":"c","node_id":"n1","role":"leader","leader":"n1","term":3,"members":[{"id":"n1","address":"h:1","voter":true,"role":"leader"}],"commit_index":9,"applied_index":8,"last_snapshot_index":7}`
	if w := do(cfg, "GET", "/v1/cluster", ""); w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestMetrics(t *testing.T) {
	keeper := &scripted{}
	cfg := config(keeper)
	cfg.Metrics = metrics.New(metrics.Options{Registry: prometheus.NewRegistry()})
	handler := New(cfg)
	send := func(method, path, body string) string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w.Body.String()
	}
	answers := []struct {
		result onced.ReserveResult
		err    error
	}{{onced.ReserveResult{Record: running}, nil}, {onced.ReserveResult{Record: running, Repeated: true}, nil}, {onced.ReserveResult{Record: completed, Replayed: true}, nil},
		{onced.ReserveResult{}, &onced.Problem{Code: onced.CodeConflict}}}
	for _, a := range answers {
		keeper.result, keeper.err = a.result, a.err
		send("POST", "/v1/keys/k/reserve", `{"fingerprint":""}`)
	}
	send("POST", "/v1/keys/k/reserve", `{`)
	send("GET", "/healthz", "")
	text := send("GET", "/metrics", "")
	for _, want := range []string{"onced_executed_total 1", "onced_replayed_total 1", "onced_in_progress_total 0", "onced_conflicts_total 1", "onced_unknown_total 0",
		`onced_request_duration_seconds_count{call="reserve",outcome="reserved"} 2`, `onced_request_duration_seconds_count{call="reserve",outcome="replayed"} 1`,
		`onced_request_duration_seconds_count{call="reserve",outcome="idempotency_conflict"} 1`, `onced_request_duration_seconds_count{call="reserve",outcome="invalid_request"} 1`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `call=""`) || strings.Contains(text, `outcome=""`) {
		t.Errorf("a label is empty:\n%s", text)
	}
	checkProblem(t, do(config(keeper), "GET", "/metrics", ""), 404, onced.CodeInvalidRequest, "nothing")
}

func TestProblemPages(t *testing.T) {
	cfg := config(&scripted{})
	for _, info := range onced.Codes {
		w := do(cfg, "GET", "/problems/"+string(info.Code), "", "Accept", "text/html,*/*")
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || !strings.Contains(w.Body.String(), "<code>"+string(info.Code)) || !strings.Contains(w.Body.String(), "With which key?") {
			t.Errorf("%s: %d %s", info.Code, w.Code, w.Body)
		}
		w = do(cfg, "GET", "/problems/"+string(info.Code), "", "Accept", "text/plain")
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || !strings.Contains(w.Body.String(), "With which key?") || strings.Contains(w.Body.String(), "<") {
			t.Errorf("%s: %s", info.Code, w.Body)
		}
	}
	if w := do(cfg, "GET", "/problems/", ""); strings.Count(w.Body.String(), "<article") != len(onced.Codes) {
		t.Errorf("the list: %d %s", w.Code, w.Body)
	}
	checkProblem(t, do(cfg, "GET", "/problems/%3Cscript%3E", ""), 404, onced.CodeInvalidRequest, "is no code of a problem")
}
