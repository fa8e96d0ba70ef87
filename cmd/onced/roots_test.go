package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// TestRootsWithoutAny is a machine that has no certificates of public authorities, as a container from scratch.
// The roots of a process are read once, so it is one of its own.
func TestRootsWithoutAny(t *testing.T) {
	if os.Getenv("SSL_CERT_FILE") != os.DevNull {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRootsWithoutAny$", "-test.v")
		cmd.Env = append(plainEnv(), "SSL_CERT_FILE="+os.DevNull, "SSL_CERT_DIR="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for root := range bundle.Roots() {
		authority, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if root.Constraint != nil {
			continue // not for every certificate
		}
		if _, err := authority.Verify(x509.VerifyOptions{CurrentTime: authority.NotBefore.AddDate(0, 1, 0)}); err != nil {
			t.Fatalf("%s is not trusted: %v", authority.Subject, err)
		}
		return
	}
	t.Fatal("the bundle is empty")
}
