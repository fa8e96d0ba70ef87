package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// FileTLS is mutual TLS from own PEM files: this node's certificate (with its
// intermediates) and key, and the authority that the others' are of. Whoever holds
// a certificate of that authority can write, so it has to be the cluster's own. The
// certificate is used in both directions, so it needs both extended key usages,
// and the name by which the others dial this node.
//
// The files are checked here, and again at each Reload, rather than at the first
// handshake: an error names the file and what is wrong with it.
func FileTLS(cert, key, ca string) (*TLS, error) {
	t := &TLS{trust: "certificate authority"}
	t.load = func() (*material, error) { return loadFiles(cert, key, ca) }
	if err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

func loadFiles(certFile, keyFile, caFile string) (*material, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster certificate %s and its key %s: %w", certFile, keyFile, err)
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's certificate authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading the cluster's certificate authority %s: no PEM certificate in it", caFile)
	}
	if err := checkLeaf(cert, roots); err != nil {
		return nil, fmt.Errorf("checking the cluster certificate %s against %s: %w", certFile, caFile, err)
	}
	return &material{cert: cert, roots: roots}, nil
}

// checkLeaf does what the other nodes will do with the certificate.
func checkLeaf(cert tls.Certificate, roots *x509.CertPool) error {
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		between.AddCert(c)
	}
	for usage, name := range map[x509.ExtKeyUsage]string{
		x509.ExtKeyUsageServerAuth: "server", x509.ExtKeyUsageClientAuth: "client",
	} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			return fmt.Errorf("as a %s certificate: %w", name, err)
		}
	}
	if len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 {
		return errors.New("it names no host (subject alternative name)")
	}
	return nil
}
