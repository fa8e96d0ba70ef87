package config

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// defaults are what the command line's parser hands over when nothing is said.
func defaults(t *testing.T) Serve {
	t.Helper()
	s := Serve{NodeID: "n1", RequestTimeout: 10 * time.Second, ElectionTimeout: 400 * time.Millisecond}
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		if d, ok := v.Type().Field(i).Tag.Lookup("default"); ok && v.Field(i).Kind() == reflect.String {
			v.Field(i).SetString(d)
		}
	}
	s.MaxRequestBytes, s.MaxResponseBytes = 1<<20, 1<<20
	return s
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "onced.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func none(string) bool { return false }

// TestNames holds the flag and the YAML key of every setting to one name.
func TestNames(t *testing.T) {
	fields := append(reflect.VisibleFields(reflect.TypeFor[Serve]()), reflect.VisibleFields(reflect.TypeFor[Gateway]())...)
	for _, f := range fields {
		name, key := f.Tag.Get("name"), f.Tag.Get("yaml")
		switch {
		case name == "" && f.Tag.Get("kong") != "-":
			t.Errorf("%s has neither a name nor kong:\"-\"", f.Name)
		case name != "" && name != "config" && key != strings.ReplaceAll(name, "-", "_"):
			t.Errorf("%s is --%s and %s:", f.Name, name, key)
		case name != "" && f.Tag.Get("help") == "":
			t.Errorf("--%s has no help", name)
		}
	}
}

func TestEnvName(t *testing.T) {
	if got := EnvName("node-id"); got != "ONCED_NODE_ID" {
		t.Errorf("EnvName = %s", got)
	}
}

func TestLoadFillsInTheRest(t *testing.T) {
	s := defaults(t)
	s.ClusterAddr = "0.0.0.0:8481"
	s.NoAuth = true
	s.ClusterSecretFile = write(t, "  0123456789abcdef0123456789abcdef\n")
	s.Peers = Peers{List: []Peer{{"n1", "a.example:8481"}, {"n2", "b.example:8481"}, {"n3", "c.example:8481"}}}
	got, err := Load(s, none)
	if err != nil {
		t.Fatal(err)
	}
	if got.ClusterAdvertise != "a.example:8481" {
		t.Errorf("cluster_advertise = %q, want the entry of the peers", got.ClusterAdvertise)
	}
	if string(got.Secret) != "0123456789abcdef0123456789abcdef" {
		t.Errorf("secret = %q", got.Secret)
	}
	if got.GatewayAddr != DefaultGatewayAddr || got.DrainTimeout != 10*time.Second {
		t.Errorf("gateway_addr %q, drain_timeout %s", got.GatewayAddr, got.DrainTimeout)
	}
}

func TestFlagWinsOverFileWinsOverDefault(t *testing.T) {
	s := defaults(t)
	s.Config = write(t, "http_addr: 127.0.0.1:1111\nlog_level: warn\nrequest_timeout: 7s\nmax_request_bytes: 2MiB\npeers: n1=127.0.0.1:8481\ngateway_addr: 127.0.0.1:2222\n"+block)
	s.HTTPAddr = "127.0.0.1:3333"
	got, err := Load(s, func(flag string) bool { return flag == "http-addr" })
	if err != nil {
		t.Fatal(err)
	}
	if got.HTTPAddr != "127.0.0.1:3333" || got.LogLevel != "warn" || got.LogFormat != "text" {
		t.Errorf("http_addr %s, log_level %s, log_format %s", got.HTTPAddr, got.LogLevel, got.LogFormat)
	}
	if got.RequestTimeout != 7*time.Second || got.MaxRequestBytes != 2<<20 || len(got.Peers.List) != 1 {
		t.Errorf("request_timeout %s, max_request_bytes %s, peers %v", got.RequestTimeout, got.MaxRequestBytes, got.Peers)
	}
	if got.GatewayAddr != "127.0.0.1:2222" || got.Gateway.Addr != got.GatewayAddr {
		t.Errorf("gateway_addr %s, gateway.addr %s", got.GatewayAddr, got.Gateway.Addr)
	}
	if got.DrainTimeout != 45*time.Second {
		t.Errorf("drain_timeout %s, want that of the longest route", got.DrainTimeout)
	}
}

const block = `gateway:
  addr: 127.0.0.1:9999
  upstream: http://127.0.0.1:3000
  tenant: header:X-Account
  routes:
    - match: POST /charge
      timeout: 45s
`

func TestGatewayAddressOfTheBlock(t *testing.T) {
	s := defaults(t)
	s.Config = write(t, block)
	got, err := Load(s, none)
	if err != nil || got.GatewayAddr != "127.0.0.1:9999" {
		t.Errorf("gateway_addr %q, %v", got.GatewayAddr, err)
	}
}

// TestOpenWithTokens lets a node be reached from outside once callers have to say who they are.
func TestOpenWithTokens(t *testing.T) {
	s := defaults(t)
	s.Config = write(t, "tokens_file: tokens\nhttp_addr: 0.0.0.0:8480\ntenant_rate: 2.5\ntenant_burst: 10\ntenant_max_keys: 1000000\n")
	got, err := Load(s, none)
	if err != nil || got.TokensFile != "tokens" || got.TenantRate != 2.5 || got.TenantBurst != 10 || got.TenantMaxKeys != 1_000_000 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestEmptyFile(t *testing.T) {
	for _, content := range []string{"", "# nothing yet\n", "---\n"} {
		s := defaults(t)
		s.Config = write(t, content)
		if _, err := Load(s, none); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"unknown key", "node_id: n1\nnod: x\n", `onced.yaml:2: unknown field "nod"`},
		{"unknown key of the gateway", "gateway:\n  tenat: single\n", `onced.yaml:2: gateway: unknown option "tenat": expected one of addr, blobs`},
		{"flag spelling", "node-id: n1\n", `unknown field "node-id"`},
		{"wrong type", "node_id: [1]\n", "onced.yaml:1: "},
		{"twice", "node_id: a\nnode_id: b\n", "onced.yaml:2: "},
		{"no YAML", "node_id: 'a\n", "onced.yaml:1: "},
		{"two documents", "node_id: a\n---\nnode_id: b\n", "more than one YAML document"},
		{"bad duration", "\nrequest_timeout: soon\n", "onced.yaml:2: request_timeout: "},
		{"bare duration", "request_timeout: 10\n", "onced.yaml:1: request_timeout: expected a duration"},
		{"bad bool", "no_auth: perhaps\n", "no_auth: expected true or false"},
		{"bad number", "tenant_rate: many\n", "onced.yaml:1: tenant_rate: expected a number"},
		{"no whole number", "tenant_burst: 1.5\n", "onced.yaml:1: tenant_burst: expected a whole number"},
		{"null", "request_timeout:\n", "request_timeout: is 0s"},
		{"null address", "http_addr:\n", "http_addr"},
		{"a list", "- node_id\n", "onced.yaml:1: expected"},
		{"bad size", "max_request_bytes: 1 MB\n", "onced.yaml:1: max_request_bytes: \"1 MB\" is no size"},
		{"a list of peers", "peers: [a, b]\n", "onced.yaml:1: peers: expected a text on one line, not a list"},
		{"bad peers", "peers: n1\n", "onced.yaml:1: peers: \"n1\" is no peer"},
		{"gateway judged", "gateway:\n  upstream: http://127.0.0.1:1\n", "gateway: tenant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := defaults(t)
			s.Config = write(t, c.content)
			_, err := Load(s, none)
			wantLine(t, err, c.want)
		})
	}
	s := defaults(t)
	s.Config = filepath.Join(t.TempDir(), "none.yaml")
	_, err := Load(s, none)
	wantLine(t, err, "none.yaml")
}

func wantLine(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q in it", err, want)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
}

func TestRefusedSettings(t *testing.T) {
	three := Peers{List: []Peer{{"n1", "127.0.0.1:1"}, {"n2", "127.0.0.1:2"}, {"n3", "127.0.0.1:3"}}}
	for _, c := range []struct {
		name   string
		change func(s *Serve)
		want   string
	}{
		{"node id", func(s *Serve) { s.NodeID = "a b" }, "node_id"},
		{"data dir", func(s *Serve) { s.DataDir = "" }, "data_dir"},
		{"no port", func(s *Serve) { s.HTTPAddr = "127.0.0.1" }, "http_addr"},
		{"bad port", func(s *Serve) { s.HTTPAddr = "127.0.0.1:http" }, "http_addr"},
		{"high port", func(s *Serve) { s.ClusterAddr = "127.0.0.1:65536" }, "cluster_addr"},
		{"peers and port 0", func(s *Serve) { s.Peers, s.ClusterAddr = three, "127.0.0.1:0" }, "cluster_addr"},
		{"unspecified", func(s *Serve) { s.ClusterAddr = "0.0.0.0:8481" }, "cluster_advertise"},
		{"not a member", func(s *Serve) { s.Peers, s.NodeID = three, "n4" }, "does not list this node"},
		{"other advertise", func(s *Serve) { s.Peers, s.ClusterAdvertise = three, "127.0.0.1:9" }, "expected the same"},
		{"peer twice", func(s *Serve) {
			s.Peers.List = []Peer{{"n1", "127.0.0.1:1"}, {"n1", "127.0.0.1:2"}}
		}, "repeats"},
		{"peer's address twice", func(s *Serve) {
			s.Peers.List = []Peer{{"n1", "127.0.0.1:1"}, {"n2", "127.0.0.1:1"}}
		}, "repeats"},
		{"peer's port", func(s *Serve) { s.Peers.List = []Peer{{"n1", "127.0.0.1:1"}, {"n2", "127.0.0.1:0"}} }, "peers"},
		{"open cluster", func(s *Serve) { s.ClusterAddr, s.NoAuth = "10.0.0.1:8481", true }, "cluster_secret_file"},
		{"open peers", func(s *Serve) {
			s.NoAuth = true
			s.Peers.List = []Peer{{"n1", "127.0.0.1:1"}, {"n2", "10.0.0.2:1"}}
		}, "cluster_secret_file"},
		{"open API", func(s *Serve) { s.HTTPAddr = ":8480" }, "tokens_file"},
		{"named API", func(s *Serve) { s.HTTPAddr = "me.example:8480" }, "tokens_file"},
		{"open cluster with a secret", func(s *Serve) {
			s.ClusterAddr, s.ClusterSecretFile = "10.0.0.1:8481", write(t, strings.Repeat("s", 32))
		}, "tokens_file"},
		{"tokens and none", func(s *Serve) { s.TokensFile, s.NoAuth = "tokens", true }, "no_auth: is set beside tokens_file"},
		{"rate", func(s *Serve) { s.TenantRate = -1 }, "tenant_rate"},
		{"rate near nothing", func(s *Serve) { s.TenantRate = 0.0001 }, "tenant_rate"},
		{"rate that is no number", func(s *Serve) { s.TenantRate = math.NaN() }, "tenant_rate"},
		{"rate without end", func(s *Serve) { s.TenantRate = math.Inf(1) }, "tenant_rate"},
		{"burst", func(s *Serve) { s.TenantRate, s.TenantBurst = 1, -1 }, "tenant_burst"},
		{"burst without a rate", func(s *Serve) { s.TenantBurst = 5 }, "without tenant_rate"},
		{"quota", func(s *Serve) { s.TenantMaxKeys = -1 }, "tenant_max_keys"},
		{"short secret", func(s *Serve) { s.ClusterSecretFile = write(t, "short \n") }, "the secret has 5 bytes"},
		{"no secret's file", func(s *Serve) { s.ClusterSecretFile = "/nonexistent/secret" }, "cluster_secret_file"},
		{"join and peers", func(s *Serve) { s.Peers, s.Join = three, "127.0.0.1:9" }, "join"},
		{"join nothing", func(s *Serve) { s.Join = "127.0.0.1" }, "join"},
		{"join a stranger", func(s *Serve) { s.Join = "10.0.0.1:8481" }, "cluster_secret_file"},
		{"half of the certificates", func(s *Serve) { s.ClusterTLSCert = "a.pem" }, "all three or none"},
		{"request timeout 0", func(s *Serve) { s.RequestTimeout = 0 }, "request_timeout"},
		{"election timeout", func(s *Serve) { s.ElectionTimeout = time.Millisecond }, "election_timeout"},
		{"drain timeout", func(s *Serve) { s.DrainTimeout = -time.Second }, "drain_timeout"},
		{"request bytes", func(s *Serve) { s.MaxRequestBytes = 0 }, "max_request_bytes"},
		{"response bytes", func(s *Serve) { s.MaxResponseBytes = MaxBodyBytes + 1 }, "max_response_bytes"},
		{"log level", func(s *Serve) { s.LogLevel = "loud" }, "log_level"},
		{"log store", func(s *Serve) { s.LogStore = "lmdb" }, "log_store"},
		{"log format", func(s *Serve) { s.LogFormat = "xml" }, "log_format"},
		{"gateway without routes", func(s *Serve) { s.GatewayAddr = "127.0.0.1:1" }, "gateway_addr"},
		{"open gateway", func(s *Serve) {
			s.Config = write(t, strings.Replace(block, "127.0.0.1:9999", "0.0.0.0:9999", 1))
		}, "tokens_file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := defaults(t)
			c.change(&s)
			_, err := Load(s, none)
			wantLine(t, err, c.want)
		})
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "node.example:1": false,
	} {
		if got := isLoopback(addr); got != want {
			t.Errorf("isLoopback(%s) = %t", addr, got)
		}
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "7": 7, "1KiB": 1 << 10, "3MiB": 3 << 20, "2GiB": 2 << 30} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want || b.String() != text {
			t.Errorf("%s: %d, %v, written %s", text, b, err, b)
		}
	}
	for _, text := range []string{"", "-1", "1.5MiB", "1MB", "MiB", "9223372036854775807KiB", "1 MiB"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken as %d", text, b)
		}
	}
}
