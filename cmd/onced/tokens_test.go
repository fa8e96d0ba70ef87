package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"onced/internal/tokens"
)

// makeToken returns a token and the line for it.
func makeToken(t *testing.T, tenant string, role tokens.Role) (token, line string) {
	t.Helper()
	stdout, stderr, code := invoke(t, nil, "token", "new", "--tenant", tenant, "--role", string(role))
	lines := strings.SplitAfter(stdout, "\n")
	if code != exitDone || stderr != "" || len(lines) != 3 || lines[2] != "" {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	return strings.TrimSpace(lines[0]), lines[1]
}

// ask sends one call to a node and returns its status and body.
func askAs(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

// TestTokensFile takes a token away from a running node, breaks the file, and mends it.
func TestTokensFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	put := func(lines ...string) {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	client, clientLine := makeToken(t, "acme", tokens.RoleClient)
	operator, operatorLine := makeToken(t, "acme", tokens.RoleOperator)
	stranger, _ := makeToken(t, "acme", tokens.RoleClient)
	put(clientLine, operatorLine)
	r := startServe(t, nil, "--tokens-file", path, "--config", writeFile(t, "metrics_by_tenant: true\n"))
	key := r.api + "/v1/keys/k"
	want := func(what string, status int, method, url, token, body string) string {
		t.Helper()
		got, answer := askAs(t, method, url, token, body)
		if got != status {
			t.Errorf("%s: %d %s, want %d", what, got, answer, status)
		}
		return answer
	}
	want("a client", 201, "POST", key+"/reserve", client, `{"fingerprint":""}`)
	want("a client's resolve", 403, "POST", key+"/resolve", client, `{"outcome":"released","reason":"r","force":true}`)
	want("a client's look at every tenant", 403, "GET", r.api+"/metrics", client, "")
	want("an operator's", 200, "GET", r.api+"/metrics", operator, "")
	want("nobody", 401, "GET", key, "", "")
	unknown := want("a stranger", 401, "GET", key, stranger, "")

	put(clientLine, "nonsense\n")
	r.signal(t, syscall.SIGHUP)
	line := r.waitLine(t, "the old tokens stay in force")
	if !strings.Contains(line, "level=ERROR") || !strings.Contains(line, path+":2: ") {
		t.Error(line)
	}
	want("a client after a broken file", 200, "GET", key, client, "")
	want("an operator after a broken file", 200, "GET", key, operator, "")

	put(operatorLine)
	r.signal(t, syscall.SIGHUP)
	r.waitLine(t, "the tokens are in force")
	for _, url := range []string{key, r.api + "/v1/keys/absent"} {
		if revoked := want("a revoked client", 401, "GET", url, client, ""); revoked != unknown {
			t.Errorf("a revoked token is told %s, an unknown one %s", revoked, unknown)
		}
	}
	want("an operator", 204, "DELETE", key+"?force=true", operator, "")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		for _, secret := range []string{client, operator, stranger} {
			if strings.Contains(line, secret) {
				t.Errorf("a token is in the log: %s", line)
			}
		}
	}
}

// TestTenantLimits sends more than a tenant may to a real node, through the API.
func TestTenantLimits(t *testing.T) {
	r := startServe(t, nil, "--tenant-rate", "0.01", "--tenant-burst", "3", "--tenant-max-keys", "2")
	reserve := func(key string) (int, string) {
		return askAs(t, "POST", r.api+"/v1/keys/"+key+"/reserve", "", `{"fingerprint":""}`)
	}
	for i, c := range []struct {
		key    string
		status int
		code   string
	}{{"a", 201, `"token":1`}, {"b", 201, `"token":2`}, {"c", 429, `"quota_exceeded"`}, {"d", 429, `"rate_limited"`}} {
		if status, body := reserve(c.key); status != c.status || !strings.Contains(body, c.code) {
			t.Errorf("reserve %d: %d %s, want %d %s", i, status, body, c.status, c.code)
		}
	}
	if status, body := askAs(t, "POST", r.api+"/v1/keys/a/complete", "", `{"token":1,"response":{"status":200}}`); status != 200 {
		t.Errorf("complete: %d %s", status, body)
	}
	if _, body := askAs(t, "GET", r.api+"/metrics", "", ""); !strings.Contains(body, "onced_rate_limited_total 1\n") || !strings.Contains(body, "onced_quota_exceeded_total 1\n") {
		t.Error("the refusals are not counted")
	}
}
