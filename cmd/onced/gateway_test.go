package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"onced/internal/certificate/certtest"
	"onced/internal/tokens"
)

// startGateway starts a gateway on its own, on free ports, before the node at nodes.
func startGateway(t *testing.T, nodes, file string, args ...string) *running {
	t.Helper()
	args = append([]string{"gateway", "--nodes", nodes, "--http-addr", "127.0.0.1:0", "--config", file}, args...)
	return startOnced(t, nil, args...)
}

// sent is one request with a key through a gateway, and its answer.
type sent struct {
	status   int
	replayed string
	code     string
	body     []byte
}

func send(t *testing.T, gate, account, key, body string) sent {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, gate+"/charge", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Account", account)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return sent{}
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	code := ""
	if _, rest, ok := strings.Cut(string(raw), `"code":"`); ok && response.StatusCode >= 400 {
		code = rest[:strings.IndexByte(rest, '"')]
	}
	return sent{response.StatusCode, response.Header.Get("Idempotency-Replayed"), code, raw}
}

// want checks an answer's status, and whether it is a replay or which problem.
func (s sent) want(t *testing.T, what string, status int, marker string) {
	t.Helper()
	if s.status != status || s.replayed != marker && s.code != marker {
		t.Errorf("%s: %d, replayed %q, code %q, %.200s; want %d %s", what, s.status, s.replayed, s.code, s.body, status, marker)
	}
}

// counting is an upstream that counts its charges and says which one it is.
func counting(t *testing.T) (url string, charges *atomic.Int64) {
	charges = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d", charges.Add(1))
	}))
	t.Cleanup(s.Close)
	return s.URL, charges
}

// TestGatewayAlone protects an upstream before a node that asks for tokens, as two accounts.
func TestGatewayAlone(t *testing.T) {
	upstream, charges := counting(t)
	path := filepath.Join(t.TempDir(), "tokens")
	token, line := makeToken(t, "edge", tokens.RoleGateway)
	acme, acmeLine := makeToken(t, "acme", tokens.RoleClient)
	if err := os.WriteFile(path, []byte(line+acmeLine), 0o600); err != nil {
		t.Fatal(err)
	}
	node := startServe(t, nil, "--tokens-file", path)
	tokenFile := writeFile(t, token+"\n")
	g := startGateway(t, node.api, writeFile(t, routes(upstream, "POST /charge")), "--token-file", tokenFile)
	g.waitLine(t, "takes this gateway's credentials")
	send(t, g.gate, "acme", "k", "{}").want(t, "the first", 201, "false")
	send(t, g.gate, "acme", "k", "{ }").want(t, "the repeat", 201, "true")
	send(t, g.gate, "acme", "k", `{"more":1}`).want(t, "another request", 409, "idempotency_conflict")
	send(t, g.gate, "globex", "k", "{}").want(t, "another account", 201, "false")
	if charges.Load() != 2 {
		t.Errorf("%d charges", charges.Load())
	}
	if status, body := askAs(t, "GET", node.api+"/v1/keys/k", acme, ""); status != 200 || !strings.Contains(body, `"state":"completed"`) || !strings.Contains(body, "charge 1") {
		t.Errorf("the node has %d %s", status, body)
	}
	waitReady(t, g.api)
	if status, body := askAs(t, "GET", g.api+"/healthz", "", ""); status != 200 {
		t.Errorf("healthz: %d %s", status, body)
	}
	_, figures := askAs(t, "GET", g.api+"/metrics", "", "")
	for _, want := range []string{"onced_executed_total 2\n", "onced_replayed_total 1\n", "onced_conflicts_total 1\n", "onced_unknown_total 0\n",
		`onced_gateway_request_duration_seconds_count{outcome="replayed",route="POST /charge"} 1`} {
		if !strings.Contains(figures, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	if status, _ := askAs(t, "GET", g.api+"/v1/keys/k", "", ""); status != 404 {
		t.Errorf("the health address answers a call of a key with %d", status)
	}
	g.signal(t, syscall.SIGTERM)
	if code := g.exit(t); code != exitDone {
		t.Errorf("exit code %d:\n%s", code, strings.Join(g.lines, "\n"))
	}
	for _, line := range g.lines {
		if strings.Contains(line, token) {
			t.Errorf("the token is in the log: %s", line)
		}
	}
}

// TestGatewayOverTLS reaches the nodes over TLS, where their certificates are of the right authority.
func TestGatewayOverTLS(t *testing.T) {
	upstream, charges := counting(t)
	node := startSecured(t)
	file := writeFile(t, "ca: "+node.authority.File+"\n"+routes(upstream, "POST /charge"))
	g := startGateway(t, node.api, file)
	send(t, g.gate, "acme", "k", "{}").want(t, "the first", 201, "false")
	send(t, g.gate, "acme", "k", "{}").want(t, "the repeat", 201, "true")
	foreign := startGateway(t, node.api, file, "--ca", certtest.New(t).File, "--request-timeout", "500ms")
	send(t, foreign.gate, "acme", "k", "{}").want(t, "with another authority", 503, "unavailable")
	if line := foreign.waitLine(t, "no node decides in time"); !strings.Contains(line, "unknown authority") {
		t.Error(line)
	}
	if charges.Load() != 1 {
		t.Errorf("%d charges", charges.Load())
	}
}

// TestGatewaysCredentials begins with a token of the wrong role: nothing is forwarded, callers are not told that their
// own credentials are wrong, and the right one is put in force without a restart. So is its successor while an operation runs.
func TestGatewaysCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	right, rightLine := makeToken(t, "edge", tokens.RoleGateway)
	next, nextLine := makeToken(t, "edge", tokens.RoleGateway)
	wrong, wrongLine := makeToken(t, "edge", tokens.RoleClient)
	put := func(path string, lines ...string) {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(path, rightLine, wrongLine)
	node := startServe(t, nil, "--tokens-file", path)
	u := newUpstream(t)
	tokenFile := writeFile(t, wrong)
	g := startGateway(t, node.api, writeFile(t, routes(u.URL, "POST /charge")), "--token-file", tokenFile, "--request-timeout", "2s")
	g.waitLine(t, "level=ERROR msg=\"the nodes do not take this gateway's credentials")
	if status, body := askAs(t, "GET", g.api+"/readyz", "", ""); status != 503 || !strings.Contains(body, "role gateway") {
		t.Errorf("readyz: %d %s", status, body)
	}
	refused := send(t, g.gate, "acme", "k", "{}")
	refused.want(t, "with a client's token", 503, "unavailable")
	if u.hits.Load() != 0 || strings.Contains(string(refused.body), node.api) {
		t.Errorf("%d requests went upstream, the client is told %s", u.hits.Load(), refused.body)
	}

	put(tokenFile, right)
	g.signal(t, syscall.SIGHUP)
	g.waitLine(t, "the token is in force")
	answers := make(chan sent, 1)
	go func() { answers <- send(t, g.gate, "acme", "k", "{}") }()
	<-u.arrived
	put(path, nextLine) // the one in use is revoked in the middle of an operation
	node.signal(t, syscall.SIGHUP)
	node.waitLine(t, "the tokens are in force")
	close(u.release)
	(<-answers).want(t, "not recorded in time", 504, "outcome_unknown")
	put(tokenFile, next)
	g.signal(t, syscall.SIGHUP)
	g.waitLine(t, "a node is ready, and takes")
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if s := send(t, g.gate, "acme", "k", "{}"); s.replayed == "true" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("it is never recorded: %d %s", s.status, s.body)
		}
	}
	if u.hits.Load() != 1 {
		t.Errorf("%d charges", u.hits.Load())
	}
}

// TestGatewaysAgree sends one key through a node's own gateway and through two on their own: with the same secret they are
// one, without one the request is another.
func TestGatewaysAgree(t *testing.T) {
	upstream, charges := counting(t)
	secret := writeFile(t, "0123456789abcdef0123456789abcdef\n")
	file := writeFile(t, routes(upstream, "POST /charge"))
	node := startServe(t, nil, "--config", file, "--cluster-secret-file", secret)
	same := startGateway(t, node.api, file, "--gateway-secret-file", secret)
	none := startGateway(t, node.api, file)
	none.waitLine(t, "gateway_secret_file: is not set")
	send(t, node.gate, "acme", "k", "{}").want(t, "the node's own", 201, "false")
	send(t, same.gate, "acme", "k", "{}").want(t, "the same secret", 201, "true")
	send(t, none.gate, "acme", "k", "{}").want(t, "no secret", 409, "idempotency_conflict")
	own := startServe(t, nil, "--config", file, "--cluster-secret-file", secret, "--gateway-secret-file", writeFile(t, "another secret of the gateways"))
	foreign := startGateway(t, own.api, file, "--gateway-secret-file", secret)
	send(t, own.gate, "acme", "k", "{}").want(t, "its own secret", 201, "false")
	send(t, foreign.gate, "acme", "k", "{}").want(t, "the cluster's secret", 409, "idempotency_conflict")
	if charges.Load() != 2 {
		t.Errorf("%d charges", charges.Load())
	}
}

// TestGatewayWithoutNodes refuses what is protected, passes what is not, and is not ready.
func TestGatewayWithoutNodes(t *testing.T) {
	upstream, charges := counting(t)
	nodes := "http://" + freeAddr(t) + ",http://" + freeAddr(t)
	g := startGateway(t, nodes, writeFile(t, routes(upstream, "POST /charge")), "--request-timeout", "500ms")
	g.waitLine(t, "no node is ready yet")
	s := send(t, g.gate, "acme", "k", "{}")
	s.want(t, "protected", 503, "unavailable")
	if charges.Load() != 0 || strings.Contains(string(s.body), "127.0.0.1") {
		t.Errorf("%d charges, the client is told %s", charges.Load(), s.body)
	}
	if line := g.waitLine(t, "no node decides in time"); !strings.Contains(line, "connection refused") {
		t.Error(line)
	}
	if status, _ := askAs(t, "GET", g.gate+"/", "", ""); status != 201 {
		t.Errorf("unprotected: %d", status)
	}
	if status, body := askAs(t, "GET", g.api+"/readyz", "", ""); status != 503 || !strings.Contains(body, "no node is ready") {
		t.Errorf("readyz: %d %s", status, body)
	}
	g.signal(t, syscall.SIGTERM)
	if code := g.exit(t); code != exitDone {
		t.Errorf("exit code %d:\n%s", code, strings.Join(g.lines, "\n"))
	}
}

// TestGatewayRecordsWhileDraining stops the node before the upstream answers, and ends the gateway: it goes on until the
// answer is stored, and only then is it gone.
func TestGatewayRecordsWhileDraining(t *testing.T) {
	u := newUpstream(t)
	node := startServe(t, nil)
	g := startGateway(t, node.api, writeFile(t, routes(u.URL, "POST /charge")), "--request-timeout", "1s")
	answers := make(chan sent, 1)
	go func() { answers <- send(t, g.gate, "acme", "k", "{}") }()
	<-u.arrived
	node.signal(t, syscall.SIGSTOP)
	close(u.release)
	(<-answers).want(t, "without a node", 504, "outcome_unknown")
	g.signal(t, syscall.SIGTERM)
	g.waitLine(t, "msg=stopping")
	select {
	case <-g.done:
		t.Error("it ended before the answer was stored")
	case <-time.After(time.Second): // more than it takes to drain when nothing is owed
	}
	node.signal(t, syscall.SIGCONT)
	if code := g.exit(t); code != exitDone {
		t.Errorf("exit code %d:\n%s", code, strings.Join(g.lines, "\n"))
	}
	stdout, stderr, code := invoke(t, nil, "keys", "get", "--nodes", node.api, "--tenant", "acme", "k")
	if code != exitDone || !strings.Contains(stdout, "completed") || !strings.Contains(stdout, "charged") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

// TestGatewayWaits has a duplicate wait at the node for the running one, and then gets its answer, all of 8 MiB.
func TestGatewayWaits(t *testing.T) {
	large := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{1}).Read(large)
	arrived, release := make(chan struct{}), make(chan struct{})
	var hits atomic.Int64
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // what is left of it would reset the connection, answer and all
		hits.Add(1)
		close(arrived)
		<-release
		w.Write(large)
	}))
	t.Cleanup(u.Close)
	node := startServe(t, nil, "--max-response-bytes", "8MiB")
	g := startGateway(t, node.api, writeFile(t, routes(u.URL, "POST /charge")+"      wait: 30s\n      max_response: 8MiB\n"))
	answers := make(chan sent, 2)
	go func() { answers <- send(t, g.gate, "acme", "k", "{}") }()
	<-arrived
	go func() { answers <- send(t, g.gate, "acme", "k", "{}") }()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, figures := askAs(t, "GET", node.api+"/metrics", "", ""); strings.Contains(figures, "onced_waiting_duplicates 1\n") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the duplicate does not wait")
		}
	}
	close(release)
	marks := map[string]int{}
	for range 2 {
		s := <-answers
		marks[s.replayed]++
		if s.status != 200 || !bytes.Equal(s.body, large) {
			t.Errorf("%d with %d bytes: %.300s", s.status, len(s.body), s.body)
		}
	}
	if hits.Load() != 1 || marks["true"] != 1 || marks["false"] != 1 {
		t.Errorf("%d charges, marked %v:\n%s", hits.Load(), marks, strings.Join(g.lines, "\n"))
	}
}

// TestGatewayReloads exchanges the routes of a gateway on its own.
func TestGatewayReloads(t *testing.T) {
	upstream, _ := counting(t)
	node := startServe(t, nil)
	file := writeFile(t, routes(upstream, "POST /refund"))
	g := startGateway(t, node.api, file)
	send(t, g.gate, "acme", "k", "{}").want(t, "unprotected", 201, "")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(routes(upstream, "POST /charge"), "match", "mtach")), 0o600); err != nil {
		t.Fatal(err)
	}
	g.signal(t, syscall.SIGHUP)
	g.waitLine(t, "reload: the old settings stay in force")
	if err := os.WriteFile(file, []byte("log_level: debug\n"+routes(upstream, "POST /charge")), 0o600); err != nil {
		t.Fatal(err)
	}
	g.signal(t, syscall.SIGHUP)
	if line := g.waitLine(t, "need a restart"); !strings.Contains(line, "log-level") {
		t.Error(line)
	}
	g.waitLine(t, "the routes are in force")
	send(t, g.gate, "acme", "k", "{}").want(t, "protected", 201, "false")
}
