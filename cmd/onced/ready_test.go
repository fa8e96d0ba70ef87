package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestStatusReady asks a node that is ready, one that is not and one that is not there.
func TestStatusReady(t *testing.T) {
	r := startServe(t, nil)
	waiting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"code":"unavailable","detail":"this node is not ready: it has no leader"}`)
	}))
	t.Cleanup(waiting.Close)
	nobody := "http://" + freeAddr(t)
	stdout, stderr, code := invoke(t, nil, "status", "--ready", "--nodes", r.api)
	if code != exitDone || stderr != "" || stdout != r.api+"  ready\n" {
		t.Errorf("exit code %d, stderr %q, stdout %q", code, stderr, stdout)
	}
	stdout, stderr, code = invoke(t, nil, "status", "--ready", "--nodes", r.api+","+waiting.URL+","+nobody)
	if code != exitFailed || stderr != "onced: 2 of 3 nodes not ready\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	for i, want := range []string{" ready", " not ready: " + waiting.URL + "/readyz: unavailable: this node is not ready: it has no leader", " not ready: Get "} {
		if len(lines) != 3 || !strings.Contains(lines[i], want) {
			t.Fatalf("no %q in line %d of\n%s", want, i+1, stdout)
		}
	}
	stdout, _, code = invoke(t, nil, "status", "--ready", "--output", "json", "--nodes", r.api+","+waiting.URL)
	var all []readiness
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != exitFailed || len(all) != 2 || !all[0].Ready || all[1].Ready || all[1].Why == "" {
		t.Errorf("exit code %d, %v, %s", code, err, stdout)
	}
}

// TestStatusReadyNeedsNoToken is the health check of a node that asks for tokens: the container has none.
func TestStatusReadyNeedsNoToken(t *testing.T) {
	r := startServe(t, nil, "--tokens-file", writeFile(t, ""))
	if _, stderr, code := invoke(t, nil, "status", "--ready", "--nodes", r.api); code != exitDone {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if _, _, code := invoke(t, nil, "status", "--nodes", r.api); code != exitFailed {
		t.Errorf("status without a token: exit code %d, want 1", code)
	}
}
