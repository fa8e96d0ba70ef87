package httpapi

import (
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"onced"
	"onced/fsm/memkeeper"
)

// textLogger writes every line to w.
func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Two tenants use the same keys in the same scopes; neither ever sees a trace of the other's, in any
// call, list, log or metric.
func TestTenantsNeverMeet(t *testing.T) {
	ring := &keyring{t: t}
	type side struct{ tenant, token, secret string }
	sides := []side{{"acme", ring.add("acme", RoleOperator, ""), "acme-secret"}, {"globex", ring.add("globex", RoleOperator, ""), "globex-secret"}}
	cfg := secured(ring, memkeeper.New(func() onced.Instant { return at }), false)
	log := &strings.Builder{}
	cfg.Logger = textLogger(log)
	handler := New(cfg)
	send := func(s side, method, path, body string) string {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+s.token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return fmt.Sprintf("%d %s", w.Code, w.Body)
	}
	told := map[string]string{} // to each tenant, everything
	tokens := map[string]int{"acme": 1, "globex": 2}
	say := func(s side, want, method, path, body string) {
		t.Helper()
		answer := send(s, method, path, body)
		told[s.tenant] += answer + "\n"
		if !strings.HasPrefix(answer, want) {
			t.Errorf("%s %s of %s: %s, want %s", method, path, s.tenant, answer, want)
		}
	}
	for _, scope := range []string{"", "?scope=s"} {
		path := "/v1/keys/one-key"
		for _, s := range sides {
			say(s, "201", "POST", path+"/reserve"+scope, fmt.Sprintf(`{"fingerprint":"%s","owner":"%s"}`, s.secret, s.secret))
		}
		for i, s := range sides {
			other := tokens[sides[1-i].tenant]
			say(s, "409", "POST", path+"/complete"+scope, fmt.Sprintf(`{"token":%d,"response":{"status":200}}`, other))
			say(s, "409", "POST", path+"/renew"+scope, fmt.Sprintf(`{"token":%d}`, other))
			say(s, "409", "POST", path+"/release"+scope, fmt.Sprintf(`{"token":%d}`, other))
			say(s, "200", "POST", path+"/release"+scope, fmt.Sprintf(`{"owner":"%s"}`, sides[1-i].secret))
			say(s, "200", "POST", "/v1/batch", batchOf(fmt.Sprintf(`{"op":"renew","key":"one-key","token":%d}`, other)))
		}
		for _, s := range sides {
			say(s, "200", "POST", path+"/renew"+scope, fmt.Sprintf(`{"token":%d}`, tokens[s.tenant]))
			say(s, "200", "POST", path+"/complete"+scope, fmt.Sprintf(`{"token":%d,"response":{"status":200,"body":"%s"}}`, tokens[s.tenant], s.secret))
			tokens[s.tenant] += 2
		}
		for _, s := range sides {
			say(s, "200", "GET", path+scope, "")
			say(s, "200", "GET", "/v1/keys"+scope, "")
			say(s, "200", "POST", path+"/reserve"+scope, fmt.Sprintf(`{"fingerprint":"%s"}`, s.secret))
		}
	}
	say(sides[0], "204", "DELETE", "/v1/keys/one-key", "")
	say(sides[0], "404", "GET", "/v1/keys/one-key", "")
	say(sides[1], "200", "GET", "/v1/keys/one-key", "")
	for _, s := range sides {
		say(s, "200", "GET", "/metrics", "")
	}
	if strings.Contains(told["acme"], "globex") || strings.Contains(told["globex"], "acme") {
		t.Errorf("they have met:\n%s\n\n%s", told["acme"], told["globex"])
	}
	digests := map[string]map[string]bool{"acme": {}, "globex": {}}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "acme") && strings.Contains(line, "globex") {
			t.Errorf("they meet in a line of the log: %s", line)
		}
		if strings.Contains(line, "one-key") && !strings.Contains(line, "msg=audit") {
			t.Errorf("a key is in the log: %s", line)
		}
		if _, digest, ok := strings.Cut(line, "key_digest="); ok {
			for tenant, seen := range digests {
				if strings.Contains(line, "tenant="+tenant) {
					seen[digest[:16]] = true
				}
			}
		}
	}
	for digest := range digests["acme"] {
		if digests["globex"][digest] {
			t.Errorf("two tenants have one digest: %s", digest)
		}
	}
	if len(digests["acme"]) != 2 || len(digests["globex"]) != 2 {
		t.Errorf("digests %v, want one for each scope", digests)
	}
}

// No line but an audit tells a key, however the request ends.
func TestKeysAreNotLogged(t *testing.T) {
	log := &strings.Builder{}
	cfg := config(&scripted{err: onced.Problemf(onced.CodeUnavailable, "no leader"), record: running})
	cfg.Logger = textLogger(log)
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/v1/keys/private/reserve", `{"fingerprint":""}`},
		{"POST", "/v1/keys/private/reserve", `{`},
		{"POST", "/v1/keys/private/reserve/", ``},
		{"POST", "/v1/keys/private/more", ``},
		{"POST", "//v1/keys/private/reserve", ``},
		{"PUT", "/v1/keys/private", ``},
		{"GET", "/v1/keys/private%00", ``},
		{"GET", "/v1/keys?prefix=private", ``},
		{"GET", "/problems/private", ``},
		{"GET", "/private", ``},
		{"POST", "/v1/batch", batchOf(`{"op":"renew","key":"private","token":1}`)},
	} {
		do(cfg, r.method, r.path, r.body)
	}
	if log.Len() == 0 || strings.Contains(log.String(), "private") {
		t.Error(log)
	}
}
