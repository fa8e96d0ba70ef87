// Package certificate holds the certificate that a listener shows, read from two PEM files, and exchanges it
// while the listener runs.
//
// Invariants:
//
//   - What is in force is always a certificate with the key that belongs to it: files that are broken, or of which only one
//     has been exchanged yet, leave the old one in force.
//   - A handshake that begins after Reload returned uses what it read.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Roots reads the certificates of authorities out of a PEM file; nil, for the system's, where file is "".
//
// Errors name the file and what is wrong with it.
func Roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the authorities: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading the authorities of %s: no PEM certificate in it", file)
	}
	return roots, nil
}

// Pair is a certificate, with its intermediates, and its key. It may be used by many at once.
type Pair struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// Load reads the two PEM files.
//
// Errors name the files and what is wrong with them.
func Load(certFile, keyFile string) (*Pair, error) {
	p := &Pair{certFile: certFile, keyFile: keyFile}
	if err := p.Reload(); err != nil {
		return nil, err
	}
	return p, nil
}

// Reload reads the files anew. After an error the old certificate stays in force.
func (p *Pair) Reload() error {
	cert, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err == nil && cert.Leaf == nil {
		cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0])
	}
	if err != nil {
		return fmt.Errorf("reading the certificate %s and its key %s: %w", p.certFile, p.keyFile, err)
	}
	p.current.Store(&cert)
	return nil
}

// Config returns a server's settings: TLS 1.2 or later, and HTTP/2 where the caller speaks it.
func (p *Pair) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current.Load(), nil },
	}
}

// Flaw returns why every caller will refuse the certificate that is in force at now, or nil. It is no reason
// not to show it: the clock that is wrong may be this machine's.
func (p *Pair) Flaw(now time.Time) error {
	leaf := p.current.Load().Leaf
	const form = "2006-01-02 15:04:05 UTC"
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate %s was valid until %s", p.certFile, leaf.NotAfter.UTC().Format(form))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate %s is not valid before %s", p.certFile, leaf.NotBefore.UTC().Format(form))
	case len(leaf.DNSNames)+len(leaf.IPAddresses) == 0:
		return fmt.Errorf("the certificate %s names no host (subject alternative name)", p.certFile)
	}
	return nil
}
