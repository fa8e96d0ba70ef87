package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"onced"
	"onced/fsm/memkeeper"
	"onced/internal/tokens"
	"onced/metrics"
)

// keyring is a tokens file and the tokens to its lines.
type keyring struct {
	t     *testing.T
	lines []string
}

// add makes a token.
func (k *keyring) add(tenant string, role Role, name string) (token string) {
	k.t.Helper()
	token, line, err := tokens.New(tenant, role, name)
	if err != nil {
		k.t.Fatal(err)
	}
	k.lines = append(k.lines, line)
	return token
}

func (k *keyring) table() *tokens.Table {
	k.t.Helper()
	table, err := tokens.Parse([]byte(strings.Join(k.lines, "\n")))
	if err != nil {
		k.t.Fatal(err)
	}
	return table
}

// everyCall is one request for each call, well formed.
var everyCall = []struct{ name, method, path, body string }{
	{"reserve", "POST", "/v1/keys/k/reserve", `{"fingerprint":"f"}`},
	{"complete", "POST", "/v1/keys/k/complete", `{"token":1,"response":{"status":200}}`},
	{"release", "POST", "/v1/keys/k/release", `{"owner":"o"}`},
	{"renew", "POST", "/v1/keys/k/renew", `{"token":1}`},
	{"get", "GET", "/v1/keys/k", ""},
	{"list", "GET", "/v1/keys", ""},
	{"batch", "POST", "/v1/batch", `{"operations":[{"op":"reserve","key":"k","fingerprint":"f"}]}`},
	{"resolve", "POST", "/v1/keys/k/resolve", `{"outcome":"released","reason":"r","force":true}`},
	{"forget", "DELETE", "/v1/keys/k?force=true", ""},
	{"cluster", "GET", "/v1/cluster", ""},
	{"metrics", "GET", "/metrics", ""},
}

func secured(k *keyring, keeper onced.Keeper, byTenant bool) Config {
	cfg := config(keeper)
	cfg.Authority = NewCredentials(k.table())
	cfg.Metrics = metrics.New(metrics.Options{Registry: prometheus.NewRegistry(), ByTenant: byTenant})
	return cfg
}

// Who may do what: a row for each call, a column for each kind of caller.
func TestWhoMay(t *testing.T) {
	ring := &keyring{t: t}
	client, operator, gateway := ring.add("acme", RoleClient, ""), ring.add("acme", RoleOperator, "ann"), ring.add("edge", RoleGateway, "")
	for _, c := range everyCall {
		work := c.name == "resolve" || c.name == "forget"
		for _, who := range []struct {
			name, token, tenant string
			may                 bool
			code                onced.Code // of the refusal
			asked               string     // the tenant that the Keeper is asked for
		}{
			{"nobody", "", "", false, onced.CodeUnauthenticated, ""},
			{"nobody, for a tenant", "", "acme", false, onced.CodeUnauthenticated, ""},
			{"a stranger", "onced_" + strings.Repeat("a", 52), "", false, onced.CodeUnauthenticated, ""},
			{"a client", client, "", !work, onced.CodeForbidden, "acme"},
			{"a client, by name", client, "acme", !work, onced.CodeForbidden, "acme"},
			{"a client, for another", client, "globex", false, onced.CodeForbidden, ""},
			{"an operator", operator, "", true, "", "acme"},
			{"an operator, for another", operator, "globex", false, onced.CodeForbidden, ""},
			{"a gateway", gateway, "", !work, onced.CodeForbidden, "edge"},
			{"a gateway, for a tenant", gateway, "globex", !work, onced.CodeForbidden, "globex"},
		} {
			keeper := &scripted{record: running, result: onced.ReserveResult{Record: running}}
			var headers []string
			if who.token != "" {
				headers = append(headers, "Authorization", "Bearer "+who.token)
			}
			if who.tenant != "" {
				headers = append(headers, "Onced-Tenant", who.tenant)
			}
			w := do(secured(ring, keeper, false), c.method, c.path, c.body, headers...)
			switch {
			case who.may && w.Code >= 300:
				t.Errorf("%s by %s: %d %s", c.name, who.name, w.Code, w.Body)
			case !who.may:
				checkProblem(t, w, who.code.Info().Status, who.code, "")
				if keeper.calls != 0 {
					t.Errorf("%s by %s: the Keeper was asked", c.name, who.name)
				}
			case keeper.calls > 0 && tenantAsked(keeper.asked) != who.asked:
				t.Errorf("%s by %s: the tenant is %q, want %q", c.name, who.name, tenantAsked(keeper.asked), who.asked)
			}
		}
	}
}

func tenantAsked(request any) string {
	switch r := request.(type) {
	case onced.ReserveRequest:
		return r.Tenant
	case onced.CompleteRequest:
		return r.Tenant
	case onced.ReleaseRequest:
		return r.Tenant
	case onced.RenewRequest:
		return r.Tenant
	case onced.ResolveRequest:
		return r.Tenant
	case onced.ForgetRequest:
		return r.Tenant
	case onced.GetRequest:
		return r.Tenant
	case onced.ListRequest:
		return r.Tenant
	}
	return fmt.Sprintf("%T", request)
}

// Metrics that name tenants are not for a client of one of them.
func TestMetricsByTenantAreNotForClients(t *testing.T) {
	ring := &keyring{t: t}
	for role, status := range map[Role]int{RoleClient: 403, RoleOperator: 200, RoleGateway: 200} {
		token := ring.add("acme", role, "")
		if w := do(secured(ring, &scripted{}, true), "GET", "/metrics", "", "Authorization", "Bearer "+token); w.Code != status {
			t.Errorf("%s: %d %s", role, w.Code, w.Body)
		}
	}
}

// Nobody has to say who it is to be told that the node lives, or what a refusal means.
func TestOpenToAll(t *testing.T) {
	for _, path := range []string{"/healthz", "/readyz", "/problems/", "/problems/unauthenticated", "/openapi.yaml"} {
		for _, headers := range [][]string{nil, {"Authorization", "Bearer nonsense"}} {
			if w := do(secured(&keyring{t: t}, &scripted{}, false), "GET", path, "", headers...); w.Code != 200 {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	}
}

func TestWrittenCredentials(t *testing.T) {
	ring := &keyring{t: t}
	token := ring.add("acme", RoleClient, "")
	for line, status := range map[string]int{
		"Bearer " + token:               200,
		"bearer " + token:               200,
		"BEARER   " + token + " ":       200,
		token:                           401,
		"Basic " + token:                401,
		"Bearer":                        401,
		"Bearer ":                       401,
		"Bearer " + token + "x":         401,
		"Bearer " + token[:50]:          401,
		"Bearer\t" + token:              401,
		"Bearer " + token + ",x":        401,
		"Bearer " + ring.lines[0]:       401,
		"Bearer " + token + " " + token: 401,
	} {
		if w := do(secured(ring, &scripted{record: running}, false), "GET", "/v1/keys/k", "", "Authorization", line); w.Code != status {
			t.Errorf("%q: %d, want %d", line, w.Code, status)
		}
	}
	w := do(secured(ring, &scripted{}, false), "GET", "/v1/keys/k", "", "Authorization", "Bearer "+token, "Onced-Tenant", "a b")
	checkProblem(t, w, 400, onced.CodeInvalidRequest, "the tenant")
}

// A revoked token is refused from the next call on, in the words for one that never was, whether
// or not the key exists.
func TestRevoked(t *testing.T) {
	ring := &keyring{t: t}
	token, other := ring.add("acme", RoleClient, ""), ring.add("acme", RoleClient, "")
	cfg := secured(ring, memkeeper.New(func() onced.Instant { return at }), false)
	credentials := cfg.Authority.(*Credentials)
	handler := New(cfg)
	send := func(token, method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	if w := send(token, "POST", "/v1/keys/there/reserve", `{"fingerprint":""}`); w.Code != 201 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	ring.lines = ring.lines[1:]
	credentials.Use(ring.table())
	stranger := send("onced_nobody", "GET", "/v1/keys/there", "").Body.String()
	for _, path := range []string{"/v1/keys/there", "/v1/keys/absent", "/v1/keys/%00", "/v1/keys", "/v1/keys/there?wait=nonsense"} {
		w := send(token, "GET", path, "")
		checkProblem(t, w, 401, onced.CodeUnauthenticated, "not known")
		if w.Body.String() != stranger {
			t.Errorf("%s: %s\na stranger is told %s", path, w.Body, stranger)
		}
	}
	if w := send(other, "GET", "/v1/keys/there", ""); w.Code != 200 {
		t.Errorf("the other token: %d %s", w.Code, w.Body)
	}
}

// The audit line names who did it, as the file does, and never a token.
func TestAuditNamesTheCredential(t *testing.T) {
	ring := &keyring{t: t}
	token := ring.add("acme", RoleOperator, "ann@example")
	cfg := secured(ring, &scripted{}, false)
	log := &strings.Builder{}
	cfg.Logger = textLogger(log)
	if w := do(cfg, "DELETE", "/v1/keys/k?reason=gdpr", "", "Authorization", "Bearer "+token); w.Code != http.StatusNoContent {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "msg=audit who=ann@example") || !strings.Contains(log.String(), "tenant=acme") || strings.Contains(log.String(), token) {
		t.Error(log)
	}
}
