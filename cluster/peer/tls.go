package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
)

// TLS is how a port proves who it is and checks who the others are: TLS 1.3 in
// both directions, each side showing a certificate of the same authority. Make it
// with SecretTLS or FileTLS. A nil *TLS is cleartext.
type TLS struct {
	material atomic.Pointer[material]
	load     func() (*material, error) // reads the files anew; nil = nothing to read
	trust    string                    // what the two sides have to have in common, in words
	name     string                    // the server name to check; "" = the host that was dialled
}

// material is what one handshake uses.
type material struct {
	cert  tls.Certificate
	roots *x509.CertPool
}

// Reload reads the files anew. When they are broken the old ones stay in force and
// the error says why. A secret has nothing to reload.
func (t *TLS) Reload() error {
	_, err := t.reload()
	return err
}

// reload is Reload, and tells whether the files are others than before.
func (t *TLS) reload() (changed bool, err error) {
	if t.load == nil {
		return false, nil
	}
	m, err := t.load()
	if err != nil {
		return false, err
	}
	old := t.material.Swap(m)
	return old == nil || !old.same(m), nil
}

// same tells whether a handshake would go the same way.
func (m *material) same(other *material) bool {
	return slices.EqualFunc(m.cert.Certificate, other.cert.Certificate, bytes.Equal) && m.roots.Equal(other.roots)
}

// config returns the settings of one handshake. There is no session resumption: it
// would let a peer in on a certificate that was checked under older files.
func (t *TLS) config() *tls.Config {
	m := t.material.Load()
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{m.cert},
		RootCAs:                m.roots,
		ClientCAs:              m.roots,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
		// Full records from the start: frames are large, and nobody renders them early.
		DynamicRecordSizingDisabled: true,
	}
}

// accept does the server's half of the handshake on an accepted connection.
func (t *TLS) accept(ctx context.Context, raw net.Conn) (net.Conn, error) {
	if t == nil {
		return raw, nil
	}
	c := tls.Server(raw, t.config())
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, t.explain(err, "the caller")
	}
	return c, nil
}

// dial does the client's half on a connection to addr.
func (t *TLS) dial(ctx context.Context, raw net.Conn, addr string) (net.Conn, error) {
	if t == nil {
		return raw, nil
	}
	cfg := t.config()
	cfg.ServerName = t.name
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		cfg.ServerName = host
	}
	c := tls.Client(raw, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, t.explain(silence(err), addr)
	}
	return c, nil
}

// explain puts the usual causes of a failed handshake into a sentence. In TLS 1.3 the
// caller learns only after its own handshake that its certificate was not accepted,
// so the error may be that of the first read.
func (t *TLS) explain(err error, who string) error {
	if t == nil || err == nil {
		return err
	}
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch text := err.Error(); {
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s is of another authority: its %s differs from this node's: %w", who, t.trust, err)
	case strings.Contains(text, "remote error: tls: unknown certificate authority"),
		strings.Contains(text, "remote error: tls: bad certificate"):
		return fmt.Errorf("%s does not accept this node's certificate: its %s differs from this node's: %w", who, t.trust, err)
	case errors.As(err, &record):
		return fmt.Errorf("%s speaks no TLS: it has no %s, or is no onced node: %w", who, t.trust, err)
	}
	return fmt.Errorf("TLS handshake with %s: %w", who, err)
}
