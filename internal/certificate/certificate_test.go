package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"onced/internal/certificate"
	"onced/internal/certificate/certtest"
)

// shown does a handshake with a server that has p, and returns the common name that it showed.
func shown(t *testing.T, p *certificate.Pair, roots *x509.CertPool, maxVersion uint16) (name, protocol string, err error) {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		defer theirs.Close()
		server := tls.Server(theirs, p.Config())
		if server.Handshake() == nil {
			server.Read(make([]byte, 1)) // until the caller hangs up
		}
	}()
	c := tls.Client(ours, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS10, MaxVersion: maxVersion})
	if err := c.Handshake(); err != nil {
		return "", "", err
	}
	state := c.ConnectionState()
	return state.PeerCertificates[0].Subject.CommonName, state.NegotiatedProtocol, nil
}

func TestReload(t *testing.T) {
	a := certtest.New(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.Issue(t, cert, key, "first", time.Now().Add(time.Hour))
	p, err := certificate.Load(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	want := func(name string) {
		t.Helper()
		if got, protocol, err := shown(t, p, a.Pool(), 0); err != nil || got != name || protocol != "h2" {
			t.Errorf("it shows %q for %q: %v", got, protocol, err)
		}
	}
	want("first")
	a.Issue(t, cert, filepath.Join(dir, "other.pem"), "half", time.Now().Add(time.Hour))
	if err := p.Reload(); err == nil || !strings.Contains(err.Error(), cert) || !strings.Contains(err.Error(), key) {
		t.Errorf("a certificate without its key: %v", err)
	}
	want("first")
	a.Issue(t, cert, key, "second", time.Now().Add(time.Hour))
	if err := p.Reload(); err != nil {
		t.Error(err)
	}
	want("second")
	if _, _, err := shown(t, p, a.Pool(), tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 is taken")
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if _, err := certificate.Load(cert, key); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no files: %v", err)
	}
	certtest.New(t).Issue(t, cert, key, "x", time.Now().Add(time.Hour))
	if err := os.WriteFile(key, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := certificate.Load(cert, key); err == nil || !strings.Contains(err.Error(), "PEM") {
		t.Errorf("a broken key: %v", err)
	}
}

func TestFlaw(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	end := time.Now().Add(time.Hour)
	certtest.New(t).Issue(t, cert, key, "x", end)
	p, err := certificate.Load(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Duration]string{0: "", 2 * time.Hour: "was valid until", -3 * time.Hour: "is not valid before"} {
		switch err := p.Flaw(time.Now().Add(at)); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s from now: %v, want %q", at, err, want)
		}
	}
}
