package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The options of the wire are refused by name, with what is expected.
func TestBadOptionsOfTheWire(t *testing.T) {
	certs := newPair(t, 1)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for block, want := range map[string]string{
		"upstream: 'h2://h:1', tenant: single":                                                       "expected http://host:port, https://host:port or h2c://host:port",
		"upstream: 'h2c://', tenant: single":                                                         "expected http://host:port",
		"upstream: 'h2c://h:1/path', tenant: single":                                                 "more than scheme, host and port",
		"upstream: 'http://h:1', tenant: single, upstream_ca: " + certs.cert:                         "upstream_ca: it is said, but the upstream is http://: expected https://",
		"upstream: 'h2c://h:1', tenant: single, upstream_ca: " + certs.cert:                          "upstream_ca",
		"upstream: 'https://h:1', tenant: single, upstream_ca: /nowhere":                             "upstream_ca: open /nowhere",
		"upstream: 'https://h:1', tenant: single, upstream_ca: " + empty:                             "has no certificate: expected PEM",
		"upstream: 'http://h:1', tenant: single, tls_cert: " + certs.cert:                            "tls_cert: tls_cert and tls_key belong together",
		"upstream: 'http://h:1', tenant: single, tls_key: " + certs.key:                              "tls_cert and tls_key belong together",
		"upstream: 'http://h:1', tenant: single, tls_cert: " + certs.key + ", tls_key: " + certs.key: "tls_cert: ",
		"upstream: 'http://h:1', tenant: single, cors_origins: [shop.example]":                       `cors_origins: "shop.example" is no origin`,
		"upstream: 'http://h:1', tenant: single, cors_origins: '*'":                                  "cors_origins",
	} {
		c, err := decode("gateway: {" + block + "}")
		if err == nil {
			err = c.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected something with %q", block, err, want)
		}
	}
	for _, block := range []string{
		"upstream: 'h2c://h', tenant: single", "upstream: 'https://[::1]', tenant: single, upstream_ca: " + certs.cert,
		"upstream: 'http://h', tenant: single, cors_origins: ['*'], tls_cert: " + certs.cert + ", tls_key: " + certs.key,
	} {
		c, err := decode("gateway: {" + block + "}")
		if err == nil {
			err = c.Validate()
		}
		if err != nil {
			t.Errorf("%s: %v", block, err)
		}
	}
}
