package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// aloneDefaults are what the command line's parser hands over for a gateway when nothing is said.
func aloneDefaults(file string) Gateway {
	g := Gateway{Config: file, RequestTimeout: 10 * time.Second}
	v := reflect.ValueOf(&g).Elem()
	for i := range v.NumField() {
		if d, ok := v.Type().Field(i).Tag.Lookup("default"); ok && v.Field(i).Kind() == reflect.String {
			v.Field(i).SetString(d)
		}
	}
	return g
}

func TestLoadGateway(t *testing.T) {
	g := aloneDefaults(write(t, "nodes: http://a:8480, https://b:8480/\nrequest_timeout: 5s\nlog_format: json\ngateway_secret_file: "+write(t, " 0123456789abcdef\n")+"\n"+block))
	g.LogFormat = "text"
	got, err := LoadGateway(g, func(flag string) bool { return flag == "log-format" })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"http://a:8480", "https://b:8480"}; !reflect.DeepEqual(got.NodeList, want) {
		t.Errorf("nodes %q", got.NodeList)
	}
	if got.RequestTimeout != 5*time.Second || got.LogFormat != "text" || string(got.Secret) != "0123456789abcdef" || got.HTTPAddr != "127.0.0.1:8482" {
		t.Errorf("%+v", got)
	}
	if got.GatewayAddr != "127.0.0.1:9999" || got.DrainTimeout != 45*time.Second || got.Gateway.Upstream == "" {
		t.Errorf("gateway_addr %s, drain_timeout %s", got.GatewayAddr, got.DrainTimeout)
	}
}

func TestLoadGatewayRefuses(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"no block", "log_level: info\n", "gateway: is missing"},
		{"a node's key", "node_id: n1\n" + block, `unknown field "node_id"`},
		{"no node", "nodes: \"\"\n" + block, "nodes: "},
		{"no address", "http_addr: here\n" + block, "http_addr: "},
		{"no time", "request_timeout: 0s\n" + block, "request_timeout: is 0s"},
		{"two tokens", "token: a\ntoken_file: b\n" + block, "token: is set beside token_file"},
		{"log", "log_level: loud\n" + block, "log_level: "},
		{"route", "gateway:\n  upstream: http://127.0.0.1:1\n", "tenant"},
	} {
		if _, err := LoadGateway(aloneDefaults(write(t, c.content)), none); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", c.name, err, c.want)
		}
	}
}

func TestInClear(t *testing.T) {
	for _, c := range []struct {
		g    Gateway
		want bool
	}{
		{Gateway{NodeList: []string{"http://n1:8480"}}, false},
		{Gateway{Token: "t", NodeList: []string{"https://n1:8480", "http://127.0.0.1:8480", "http://localhost"}}, false},
		{Gateway{Token: "t", NodeList: []string{"https://n1:8480", "http://n2"}}, true},
		{Gateway{TokenFile: "f", NodeList: []string{"http://10.0.0.1:8480"}}, true},
	} {
		if got := c.g.TokenInClear(); got != c.want {
			t.Errorf("%+v: %t", c.g, got)
		}
	}
	for _, c := range []struct {
		s    Serve
		want bool
	}{
		{Serve{TokensFile: "t", HTTPAddr: "0.0.0.0:1"}, true},
		{Serve{TokensFile: "t", HTTPAddr: "0.0.0.0:1", HTTPTLSCert: "c"}, false},
		{Serve{TokensFile: "t", HTTPAddr: "127.0.0.1:1"}, false},
		{Serve{NoAuth: true, HTTPAddr: "0.0.0.0:1"}, false},
	} {
		if got := c.s.TokensInClear(); got != c.want {
			t.Errorf("%+v: %t", c.s, got)
		}
	}
}
