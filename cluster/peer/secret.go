package peer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// MinSecret is the shortest cluster secret, in bytes.
const MinSecret = 16

const (
	// caSalt and caInfo separate this use of the secret from any other. A change of
	// either cuts old nodes off from new ones.
	caSalt = "onced cluster authority"
	caInfo = "ed25519 key, version 1"

	// peerName stands in every certificate made from a secret. The addresses of the
	// nodes do not: they may change, and whoever holds the secret could write any.
	peerName = "peer.onced.internal"
)

// Validity of what is made from a secret: no clock, however wrong, falls outside.
var (
	validFrom  = time.Unix(0, 0).UTC()
	validUntil = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// SecretTLS makes mutual TLS out of a secret that all nodes share: the key of a
// certificate authority is derived from it, and a certificate for this node is made
// in memory. White space at the secret's end is no part of it, so that it does not
// matter how the file was written. A secret shorter than MinSecret is refused.
func SecretTLS(secret []byte, nodeID string) (*TLS, error) {
	secret = bytes.TrimRight(secret, " \t\r\n")
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("cluster secret of %d bytes: expected at least %d (openssl rand -hex 32 makes one)", len(secret), MinSecret)
	}
	ca, key, err := authority(secret)
	if err != nil {
		return nil, fmt.Errorf("deriving the cluster's authority from its secret: %w", err)
	}
	cert, err := issue(ca, key, nodeID)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of node %s: %w", nodeID, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	t := &TLS{trust: "cluster secret", name: peerName}
	t.material.Store(&material{cert: cert, roots: roots})
	return t, nil
}

// authority derives the same key and the same certificate from the same secret, always.
func authority(secret []byte) (*x509.Certificate, ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, secret, []byte(caSalt), caInfo, ed25519.SeedSize)
	if err != nil {
		return nil, nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	id := sha256.Sum256(key.Public().(ed25519.PublicKey))
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "onced cluster authority"},
		SubjectKeyId:          id[:20],
		NotBefore:             validFrom,
		NotAfter:              validUntil,
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// issue makes a node's certificate with a key of its own, which is never written down.
func issue(ca *x509.Certificate, caKey ed25519.PrivateKey, nodeID string) (tls.Certificate, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: nodeID},
		DNSNames:     []string{peerName},
		NotBefore:    validFrom,
		NotAfter:     validUntil,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, public, caKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
