package gateway

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

// listener takes the connections of clients.
type listener struct {
	net.Listener
	g *Gateway
}

// Listener returns a listener on port whose connections the server of [Gateway.Server] can serve: with TLS where the
// configuration in force has a certificate, and such that an HTTP/1 answer's lines can be sent in their order.
func (g *Gateway) Listener(port net.Listener) net.Listener { return listener{port, g} }

// Accept is part of net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.g.table.Load().certificate == nil {
		return &arranged{Conn: c}, nil
	}
	return tls.Server(c, l.g.secure), nil // net/http knows HTTP/2 by this type
}

// secureConfig is the TLS of the listener. Each connection gets the certificate that is in force then.
func (g *Gateway) secureConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := g.table.Load().certificate; c != nil {
				return c, nil
			}
			return nil, fmt.Errorf("the gateway has no certificate any more")
		},
	}
}

// readCertificate reads the listener's certificate and key; none where neither is said.
func readCertificate(cert, key string) (*tls.Certificate, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, fmt.Errorf("tls_cert and tls_key belong together: expected both or neither")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// protocols are what clients may speak: HTTP/1.1, and HTTP/2 with TLS or, with prior knowledge, without.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

const (
	headWithin  = 10 * time.Second // for a request's head
	idleFor     = 2 * time.Minute
	requestHead = 64 << 10 // in bytes
)
