package client_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"onced"
	"onced/client"
	"onced/httpapi"
	"onced/internal/certificate/certtest"
	"onced/internal/tokens"
)

// TestReady: one node that is ready is enough, and nobody is waited for longer than bounded.
func TestReady(t *testing.T) {
	for _, c := range []struct {
		name string
		acts map[string]act
		code onced.Code
		said string
		took time.Duration
	}{
		{"all", nil, "", "", 0},
		{"one", map[string]act{"n1": refuse, "n2": hang}, "", "", 0},
		{"none", map[string]act{"n1": refuse, "n2": shed, "n3": refuse}, onced.CodeUnavailable, "http://n2:1: no leader", 0},
		{"silence", map[string]act{"n1": hang, "n2": hang, "n3": hang}, onced.CodeUnavailable, "http://n3:1", 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(byHost(c.acts))
				cl := newClient(t, n)
				start := time.Now()
				err := cl.Ready(t.Context(), true)
				wantCode(t, err, c.code)
				if took := time.Since(start); took != c.took || err != nil && !strings.Contains(err.Error(), c.said) {
					t.Errorf("%v after %s", err, took)
				}
				finish(t, cl, n)
			})
		})
	}
}

// TestReadyCredentials asks with credentials of each kind, and exchanges them.
func TestReadyCredentials(t *testing.T) {
	var lines []string
	add := func(role tokens.Role) string {
		token, line, err := tokens.New("acme", role, "")
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
		return token
	}
	own, every := add(tokens.RoleClient), add(tokens.RoleGateway)
	table, err := tokens.Parse([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	n := newNetwork(always(deliver))
	n.handler = httpapi.New(httpapi.Config{Keeper: n.keeper, Cluster: oneCluster{}, Authority: httpapi.NewCredentials(table)})
	c := newClient(t, n)
	defer finish(t, c, n)
	for _, tc := range []struct {
		token string
		every bool
		code  onced.Code
	}{
		{"", false, onced.CodeUnauthenticated},
		{"stranger", true, onced.CodeUnauthenticated},
		{own, false, ""}, {own, true, onced.CodeForbidden},
		{every, false, ""}, {every, true, ""},
	} {
		if err := c.UseToken(tc.token); err != nil {
			t.Fatal(err)
		}
		wantCode(t, c.Ready(t.Context(), tc.every), tc.code)
	}
	if err := c.UseToken("a b"); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a token with a space: %v", err)
	}
	wantCode(t, c.Ready(t.Context(), true), "")
}

// TestRefusedCertificate: a node whose certificate is of another authority was sent nothing.
func TestRefusedCertificate(t *testing.T) {
	n := newNetwork(always(deliver))
	var asked atomic.Int64
	strange := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	strange.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // the handshakes that fail are meant to
	strange.StartTLS()
	defer strange.Close()
	good := httptest.NewServer(n.handler)
	defer good.Close()
	c, err := client.New(client.Config{Nodes: []string{strange.URL, good.URL}, RootCAs: certtest.New(t).Pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer finish(t, c, n)
	// It would not be repeated if it might have arrived.
	wantCode(t, c.Forget(within(t, 10*time.Second), onced.ForgetRequest{ID: keyOf("none")}), onced.CodeKeyNotFound)
	if asked.Load() != 0 {
		t.Errorf("the strange node was asked %d times", asked.Load())
	}
}

func TestParseNodes(t *testing.T) {
	nodes, err := client.ParseNodes("http://n1:1/, https://n2")
	if err != nil || len(nodes) != 2 || nodes[0] != "http://n1:1" || nodes[1] != "https://n2" {
		t.Errorf("%q, %v", nodes, err)
	}
	if _, err := client.ParseNodes("http://n1:1,"); err == nil || !strings.Contains(err.Error(), "expected http://HOST:PORT") {
		t.Errorf("%v", err)
	}
}
