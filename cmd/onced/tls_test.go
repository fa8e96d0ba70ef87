package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"onced/internal/certificate/certtest"
	"onced/internal/tokens"
)

// secured is a node whose API has TLS.
type secured struct {
	*running
	authority *certtest.Authority
	cert, key string // files
}

func startSecured(t *testing.T, args ...string) *secured {
	t.Helper()
	dir := t.TempDir()
	s := &secured{authority: certtest.New(t), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	s.authority.Issue(t, s.cert, s.key, "first", time.Now().Add(time.Hour))
	s.running = beginServe(t, nil, append([]string{"--http-tls-cert", s.cert, "--http-tls-key", s.key}, args...)...)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if status, _, _ := s.get(t, "/readyz"); status == http.StatusOK {
			return s
		}
		if time.Now().After(end) {
			t.Fatal("it is never ready")
		}
	}
}

// get asks over a new connection, and tells the protocol and the common name of the certificate that was shown.
func (s *secured) get(t *testing.T, path string) (status int, protocol, name string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.authority.Pool()}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get(s.api + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, response.Proto, response.TLS.PeerCertificates[0].Subject.CommonName
}

// TestSecuredAPI reaches a node over TLS, by HTTP/2 and by every kind of command.
func TestSecuredAPI(t *testing.T) {
	s := startSecured(t)
	if !strings.HasPrefix(s.api, "https://127.0.0.1:") {
		t.Errorf("it says that it is at %s", s.api)
	}
	if _, protocol, _ := s.get(t, "/healthz"); protocol != "HTTP/2.0" {
		t.Errorf("it speaks %s", protocol)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	for _, command := range [][]string{
		{"status"}, {"members", "list"}, {"keys", "list"}, {"bench", "--duration", "200ms", "--concurrency", "2"}, {"backup", backup},
	} {
		command = append(command, "--nodes", s.api)
		stdout, stderr, code := invoke(t, nil, command...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, "certificate signed by unknown authority") {
			t.Errorf("%s without the authority: exit code %d, stdout %q, stderr %q", command, code, stdout, stderr)
		}
		if stdout, stderr, code := invoke(t, nil, append(command, "--ca", s.authority.File)...); code != exitDone {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", command, code, stdout, stderr)
		}
	}
	plain := "http" + strings.TrimPrefix(s.api, "https")
	if _, _, code := invoke(t, nil, "status", "--nodes", plain); code != exitFailed {
		t.Errorf("in clear: exit code %d", code)
	}
	if stdout, stderr, code := invoke(t, []string{"ONCED_CA=" + s.authority.File, "ONCED_NODES=" + s.api}, "status"); code != exitDone {
		t.Errorf("by the environment: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	s.signal(t, syscall.SIGTERM)
	if code := s.exit(t); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}

// TestOperatorsVerbSurvivesABadCertificate: nothing of a call was sent to a node whose certificate was refused, so that the
// next one is asked even for what is never repeated.
func TestOperatorsVerbSurvivesABadCertificate(t *testing.T) {
	s := startSecured(t)
	stranger := startSecured(t) // of another authority
	_, stderr, code := invoke(t, nil, "keys", "forget", "--nodes", stranger.api+","+s.api, "--ca", s.authority.File, "none")
	if code != exitFailed || !strings.Contains(stderr, "key_not_found") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

// TestCertificateIsExchanged breaks the files of a running node, and mends them.
func TestCertificateIsExchanged(t *testing.T) {
	s := startSecured(t)
	want := func(name string) {
		t.Helper()
		if _, _, got := s.get(t, "/healthz"); got != name {
			t.Errorf("it shows %q, want %q", got, name)
		}
	}
	want("first")
	if err := os.WriteFile(s.cert, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signal(t, syscall.SIGHUP)
	if line := s.waitLine(t, "the old certificate of the API stays in force"); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, s.cert) {
		t.Error(line)
	}
	want("first")
	s.authority.Issue(t, s.cert, s.key, "second", time.Now().Add(-time.Hour))
	s.signal(t, syscall.SIGHUP)
	s.waitLine(t, "the certificate of the API is in force")
	if line := s.waitLine(t, "callers will refuse it"); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "was valid until") {
		t.Error(line)
	}
	s.authority.Issue(t, s.cert, s.key, "third", time.Now().Add(time.Hour))
	s.signal(t, syscall.SIGHUP)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		n := strings.Count(strings.Join(s.lines, "\n"), "the certificate of the API is in force")
		s.mu.Unlock()
		if n == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no second exchange")
		}
	}
	want("third")
}

// TestTokensInClear is warned of where the way is not this machine's alone.
func TestTokensInClear(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	token, line := makeToken(t, "acme", tokens.RoleClient)
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	const warning = "tokens travel in clear"
	open := startServe(t, []string{"ONCED_HTTP_ADDR=0.0.0.0:0"}, "--tokens-file", path)
	open.waitLine(t, warning)
	inside := startServe(t, nil, "--tokens-file", path)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "c"), filepath.Join(dir, "k")
	a := certtest.New(t)
	a.Issue(t, cert, key, "x", time.Now().Add(time.Hour))
	covered := beginServe(t, []string{"ONCED_HTTP_ADDR=0.0.0.0:0"}, "--tokens-file", path, "--http-tls-cert", cert, "--http-tls-key", key)
	address := "https://127.0.0.1" + covered.api[strings.LastIndex(covered.api, ":"):]
	stdout, stderr, code := invoke(t, []string{"ONCED_TOKEN=" + token}, "status", "--nodes", address, "--ca", a.File, "--output", "json")
	if !json.Valid([]byte(stdout)) || code != exitDone {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for name, r := range map[string]*running{"loopback": inside, "TLS": covered} {
		r.mu.Lock()
		if strings.Contains(strings.Join(r.lines, "\n"), warning) {
			t.Errorf("%s is warned of", name)
		}
		r.mu.Unlock()
	}
}

// TestSecuredAPIDrains sends SIGTERM while a call over HTTP/2 waits for a record: it is answered, and the process ends in order.
func TestSecuredAPIDrains(t *testing.T) {
	s := startSecured(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.authority.Pool()}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	h := &http.Client{Transport: transport}
	reserved, err := h.Post(s.api+"/v1/keys/k/reserve", "application/json", strings.NewReader(`{"fingerprint":""}`))
	if err != nil {
		t.Fatal(err)
	}
	reserved.Body.Close()
	answers := make(chan *http.Response, 1)
	go func() {
		response, err := h.Get(s.api + "/v1/keys/k?wait=3s")
		if err != nil {
			t.Error(err)
			response = &http.Response{Body: http.NoBody}
		}
		response.Body.Close()
		answers <- response
	}()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		response, err := h.Get(s.api + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		figures, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(figures), "onced_waiting_duplicates 1\n") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not wait")
		}
	}
	s.signal(t, syscall.SIGTERM)
	if response := <-answers; response.StatusCode != http.StatusOK || response.Proto != "HTTP/2.0" {
		t.Errorf("%d by %s", response.StatusCode, response.Proto)
	}
	if code := s.exit(t); code != exitDone {
		t.Errorf("exit code %d:\n%s", code, strings.Join(s.lines, "\n"))
	}
}
