package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// selfSigned writes a certificate for 127.0.0.1 that is its own authority, and its key, and returns who trusts it.
func selfSigned(t *testing.T, certFile, keyFile string) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		roots.AppendCertsFromPEM(pem.EncodeToMemory(block))
	}
	return roots
}

// charge sends the same protected request over HTTP/2 and TLS, and returns whether it was replayed.
func charge(gate string, roots *x509.CertPool) (string, error) {
	h2 := new(http.Protocols)
	h2.SetHTTP2(true)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: h2}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodPost, gate+"/charge", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	request.Header.Set("Idempotency-Key", "k-1")
	request.Header.Set("X-Account", "acme")
	response, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	return response.Proto + " " + response.Header.Get("Idempotency-Replayed"), nil
}

// TestGatewayTLS serves the gateway over TLS, and changes its certificate at SIGHUP.
func TestGatewayTLS(t *testing.T) {
	u := newUpstream(t)
	close(u.release)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	one := selfSigned(t, cert, key)
	secured := strings.Replace(routes(u.URL, "POST /charge"), "gateway:\n", "gateway:\n  tls_cert: "+cert+"\n  tls_key: "+key+"\n", 1)
	r := startServe(t, nil, "--config", writeFile(t, secured))
	if !strings.HasPrefix(r.gate, "https://") {
		t.Fatalf("the log says that the gateway is at %s", r.gate)
	}
	for _, want := range []string{"HTTP/2.0 false", "HTTP/2.0 true"} {
		if got, err := charge(r.gate, one); err != nil || got != want {
			t.Fatalf("got %q, %v, expected %q", got, err, want)
		}
	}
	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.signal(t, syscall.SIGHUP)
	r.waitLine(t, "stay in force")
	if _, err := charge(r.gate, one); err != nil {
		t.Fatalf("a broken key took the old certificate away: %v", err)
	}
	two := selfSigned(t, cert, key)
	r.signal(t, syscall.SIGHUP)
	r.waitLine(t, "the routes are in force")
	if got, err := charge(r.gate, two); err != nil || got != "HTTP/2.0 true" {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := charge(r.gate, one); err == nil {
		t.Error("the old certificate is still shown")
	}
	if u.hits.Load() != 1 {
		t.Errorf("the upstream was asked %d times", u.hits.Load())
	}
	r.signal(t, syscall.SIGTERM)
	if code := r.exit(t); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}

// TestGatewayTLSRefused starts with half a pair, and with a file that is not there.
func TestGatewayTLSRefused(t *testing.T) {
	for lines, want := range map[string]string{
		"  tls_cert: /nowhere/cert.pem\n":                              "both or neither",
		"  tls_cert: /nowhere/cert.pem\n  tls_key: /nowhere/key.pem\n": "/nowhere/cert.pem",
		"  upstream_ca: /nowhere/ca.pem\n":                             "expected https://",
	} {
		file := writeFile(t, strings.Replace(routes("http://127.0.0.1:1", "POST /charge"), "gateway:\n", "gateway:\n"+lines, 1))
		_, stderr, code := invoke(t, nil, "serve", "--data-dir", t.TempDir(), "--config", file)
		if code != exitRefused || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q", lines, code, stderr)
		}
	}
}
