package peer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestSecret(t *testing.T) {
	if _, err := SecretTLS([]byte("0123456789abcde\n\n"), "n1"); err == nil || !strings.Contains(err.Error(), "cluster secret of 15 bytes: expected at least 16") {
		t.Errorf("short secret: %v", err)
	}
	one, key, err := authority([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	two, _, _ := authority([]byte("0123456789abcdef"))
	if !bytes.Equal(one.Raw, two.Raw) {
		t.Error("the same secret made two authorities")
	}
	other, _, _ := authority([]byte("0123456789abcdeg"))
	if one.Equal(other) || bytes.Equal(one.SubjectKeyId, other.SubjectKeyId) {
		t.Error("two secrets made the same authority")
	}
	// Nodes of every version have to derive the same key.
	if got, want := hex.EncodeToString(key.Seed()), "cbbb342b284824075565b9e0ad6de82959aaf45501d6a960f36f8a7495cd9d83"; got != want {
		t.Errorf("seed %s, want %s", got, want)
	}
	leaf, err := issue(one, key, "n1")
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(leaf.Certificate[0])
	roots := x509.NewCertPool()
	roots.AddCert(one)
	for _, now := range []time.Time{time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC), time.Now(), time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: peerName}); err != nil {
			t.Errorf("with a clock at %v: %v", now, err)
		}
	}
}

// certFiles writes a certificate of a new authority for 127.0.0.1.
type certFiles struct{ cert, key, ca string }

func newFiles(t *testing.T) certFiles {
	dir := t.TempDir()
	return certFiles{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")}
}

type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCA(t *testing.T) testCA {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	return testCA{cert, key}
}

// write issues a certificate into f; change may bend the template.
func (ca testCA) write(t *testing.T, f certFiles, change func(*x509.Certificate)) {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, _ := x509.MarshalECPrivateKey(key)
	for file, block := range map[string]*pem.Block{
		f.cert: {Type: "CERTIFICATE", Bytes: der}, f.key: {Type: "EC PRIVATE KEY", Bytes: keyDER}, f.ca: {Type: "CERTIFICATE", Bytes: ca.cert.Raw},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFileTLSRefusals(t *testing.T) {
	ca := newCA(t)
	for _, tc := range []struct {
		name   string
		change func(*x509.Certificate)
		break_ func(certFiles)
		want   string
	}{
		{"good", nil, nil, ""},
		{"expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, nil, "expired"},
		{"server only", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }, nil, "as a client certificate"},
		{"names no host", func(c *x509.Certificate) { c.IPAddresses = nil }, nil, "names no host"},
		{"no key", nil, func(f certFiles) { os.Remove(f.key) }, "and its key"},
		{"no PEM", nil, func(f certFiles) { os.WriteFile(f.ca, []byte("x"), 0o600) }, "no PEM certificate in it"},
		{"another authority", nil, func(f certFiles) {
			other := newFiles(t)
			newCA(t).write(t, other, nil)
			f.ca, other.ca = other.ca, f.ca
			b, _ := os.ReadFile(f.ca)
			os.WriteFile(other.ca, b, 0o600)
		}, "as a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFiles(t)
			ca.write(t, f, tc.change)
			if tc.break_ != nil {
				tc.break_(f)
			}
			_, err := FileTLS(f.cert, f.key, f.ca)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestReloadKeepsTheOldOnesWhenBroken(t *testing.T) {
	oldCA, nextCA := newCA(t), newCA(t)
	fa, fb := newFiles(t), newFiles(t)
	oldCA.write(t, fa, nil)
	oldCA.write(t, fb, nil)
	load := func(f certFiles) *TLS {
		s, err := FileTLS(f.cert, f.key, f.ca)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, _ := open(t, "n1", load(fa))
	b, _ := open(t, "n2", load(fb))
	b.HandleAny("/echo", echo)
	call := func() error {
		a.client.CloseIdleConnections()
		_, err := a.Call(within(t), b.Addr(), "/echo", []byte("x"))
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(fb.cert, []byte("broken"), 0o600)
	if err := b.ReloadTLS(); err == nil || !strings.Contains(err.Error(), fb.cert) {
		t.Errorf("reload of a broken file: %v", err)
	}
	if err := call(); err != nil {
		t.Fatalf("the old certificate is not in force any more: %v", err)
	}
	nextCA.write(t, fb, nil)
	if err := b.ReloadTLS(); err != nil {
		t.Fatal(err)
	}
	if err := call(); !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "certificate authority differs") {
		t.Fatalf("between the two reloads: %v", err)
	}
	nextCA.write(t, fa, nil)
	if err := a.ReloadTLS(); err != nil {
		t.Fatal(err)
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
}

func TestReloadCutsRaftsConnections(t *testing.T) {
	ca, f := newCA(t), newFiles(t)
	ca.write(t, f, nil)
	load := func() *TLS {
		s, err := FileTLS(f.cert, f.key, f.ca)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, _ := open(t, "n1", load())
	b, _ := open(t, "n2", load())
	a.SetClusterID("c")
	b.SetClusterID("c")
	ta, tb := a.RaftTransport(5*time.Second), b.RaftTransport(5*time.Second)
	go func() {
		for {
			select {
			case rpc := <-tb.Consumer():
				rpc.Respond(&raft.RequestVoteResponse{}, nil)
			case <-b.ctx.Done():
				return
			}
		}
	}()
	vote := func() {
		t.Helper()
		if err := ta.RequestVote("n2", raft.ServerAddress(b.Addr()), &raft.RequestVoteRequest{}, new(raft.RequestVoteResponse)); err != nil {
			t.Fatal(err)
		}
	}
	vote()
	if n := count(a); n != 1 {
		t.Fatalf("%d connections, want 1", n)
	}
	if err := a.ReloadTLS(); err != nil {
		t.Fatal(err)
	}
	if n := count(a); n != 1 {
		t.Errorf("%d connections after a reload of the same files, want the one that was there", n)
	}
	ca.write(t, f, nil)
	if err := a.ReloadTLS(); err != nil {
		t.Fatal(err)
	}
	if n := count(a); n != 0 {
		t.Errorf("%d connections after the reload, want none", n)
	}
	vote()
	// The accepting side cuts too, and so does the transport's own end.
	if err := b.ReloadTLS(); err != nil {
		t.Fatal(err)
	}
	if n := count(b); n != 0 {
		t.Errorf("%d accepted connections after the reload, want none", n)
	}
	_ = tb.(raft.WithClose).Close()
	if n := count(b); n != 0 {
		t.Errorf("%d connections after the transport was closed, want none", n)
	}
}

func count(p *Port) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}
