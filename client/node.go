package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// node is one node of the cluster.
type node struct {
	base string // scheme and host
}

// parseNodes reads the addresses of the nodes.
func parseNodes(addresses []string) ([]*node, error) {
	if len(addresses) == 0 {
		return nil, errors.New("there is no node: expected at least one http://HOST:PORT")
	}
	var nodes []*node
	for _, address := range addresses {
		base, err := ParseNode(address)
		if err != nil {
			return nil, err
		}
		for _, other := range nodes {
			if other.base == base {
				return nil, fmt.Errorf("the node %s is named twice", base)
			}
		}
		nodes = append(nodes, &node{base})
	}
	return nodes, nil
}

// ParseNodes returns the base URLs of a list of nodes that are separated by commas.
//
// Errors: those of ParseNode.
func ParseNodes(list string) ([]string, error) {
	var all []string
	for address := range strings.SplitSeq(list, ",") {
		base, err := ParseNode(address)
		if err != nil {
			return nil, err
		}
		all = append(all, base)
	}
	return all, nil
}

// ParseNode returns the base URL of a node: http://HOST:PORT or https://HOST:PORT, without a
// slash at the end. White space around it counts for nothing.
//
// Errors say what is expected.
func ParseNode(address string) (string, error) {
	base := strings.TrimSuffix(strings.TrimSpace(address), "/")
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Hostname() == "" ||
		u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("%.80q is no node's address: expected http://HOST:PORT or https://HOST:PORT", address)
	}
	return base, nil
}

const (
	dialTimeout     = 2 * time.Second
	tlsTimeout      = 3 * time.Second
	idleTimeout     = 60 * time.Second // shorter than a node's, so that it is not the node that ends a connection
	idlePerNode     = 512
	maxAnswerHeader = 64 << 10
)

// NewTransport returns a transport as a Client makes it for itself, for callers who share one
// between several Clients. It speaks HTTP/1.1, so that one dead connection is one call's trouble. roots are the
// authorities of https:// nodes, nil for the system's.
func NewTransport(roots *x509.CertPool) *http.Transport {
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		Protocols:              http1,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    tlsTimeout,
		MaxIdleConnsPerHost:    idlePerNode,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswerHeader,
	}
}
