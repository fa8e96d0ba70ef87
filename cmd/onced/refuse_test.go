package main

import (
	"net"
	"strings"
	"testing"
)

// TestRefused is about starts that never begin: exit code 2 and one line that says why.
func TestRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // only after the parallel cases
	busy := taken.Addr().String()
	free := []string{"ONCED_HTTP_ADDR=127.0.0.1:0", "ONCED_CLUSTER_ADDR=" + freeAddr(t)}
	routes := func(extra string) string {
		return writeFile(t, "gateway:\n  addr: 127.0.0.1:0\n  upstream: http://127.0.0.1:3000\n  tenant: header:X-Account\n  routes:\n    - match: POST /charge\n"+extra)
	}
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"no command", nil, nil, `expected one of "serve"`},
		{"unknown command", nil, []string{"sevre"}, "sevre"},
		{"unknown flag", nil, []string{"serve", "--data"}, "unknown flag --data"},
		{"flag's value", nil, []string{"serve", "--election-timeout", "soon"}, "--election-timeout"},
		{"variable's value", []string{"ONCED_ELECTION_TIMEOUT=soon"}, []string{"serve"}, "from ONCED_ELECTION_TIMEOUT"},
		{"variable's bool", []string{"ONCED_NO_AUTH=perhaps"}, []string{"serve"}, "no-auth"},
		{"flag's bound", nil, []string{"serve", "--request-timeout", "0s"}, "request_timeout: is 0s"},
		{"file's key", nil, []string{"serve", "--config", writeFile(t, "\nnode: n1\n")}, `onced.yaml:2: unknown field "node"`},
		{"file's value", nil, []string{"serve", "--config", writeFile(t, "request_timeout: soon\n")}, "onced.yaml:1: request_timeout: expected a duration"},
		{"file missing", nil, []string{"serve", "--config", "none.yaml"}, "none.yaml"},
		{"route's key", free, []string{"serve", "--config", routes("      retenton: 1h\n")}, `unknown option "retenton"`},
		{"route's value", free, []string{"serve", "--config", routes("      lease: soon\n")}, "lease"},
		{"tenant not said", free, []string{"serve", "--config", writeFile(t, "gateway:\n  upstream: http://127.0.0.1:3000\n")}, "tenant"},
		{"open without no-auth", nil, []string{"serve", "--http-addr", "0.0.0.0:0"}, "tokens_file: (or no_auth"},
		{"tokens and none", nil, []string{"serve", "--no-auth", "--tokens-file", "x"}, "no_auth: is set beside tokens_file"},
		{"no tokens file", nil, []string{"serve", "--tokens-file", "/nonexistent/tokens"}, "tokens_file: opening the tokens file"},
		{"certificate without its key", nil, []string{"serve", "--http-tls-cert", "x"}, "http_tls_cert, http_tls_key: expected both or none"},
		{"no certificate", nil, []string{"serve", "--http-tls-cert", "/nonexistent/c", "--http-tls-key", "/nonexistent/k"}, "http_tls_cert, http_tls_key: reading the certificate /nonexistent/c"},
		{"open with TLS alone", nil, []string{"serve", "--http-addr", "0.0.0.0:0", "--http-tls-cert", "x", "--http-tls-key", "x"}, "tokens_file: (or no_auth"},
		{"no authorities", nil, []string{"status", "--ca", "/nonexistent/ca"}, "--ca: reading the authorities"},
		{"authorities' shape", nil, []string{"keys", "list", "--ca", writeFile(t, "no PEM")}, "no PEM certificate in it"},
		{"gateway without routes", nil, []string{"gateway"}, "gateway: is missing: expected a gateway block"},
		{"gateway's node", nil, []string{"gateway", "--config", routes(""), "--nodes", "n1:8480"}, "nodes: "},
		{"gateway's nodes twice", nil, []string{"gateway", "--config", routes(""), "--nodes", "http://n1:8480,http://n1:8480/"}, "named twice"},
		{"gateway's tokens", []string{"ONCED_TOKEN=x"}, []string{"gateway", "--config", routes(""), "--token-file", "x"}, "token: is set beside token_file"},
		{"gateway's token file", nil, []string{"gateway", "--config", routes(""), "--token-file", "/nonexistent/t"}, "token_file: open /nonexistent/t"},
		{"gateway's empty token", nil, []string{"gateway", "--config", routes(""), "--token-file", writeFile(t, "\n")}, "is empty: expected a token"},
		{"gateway's secret", nil, []string{"gateway", "--config", routes(""), "--gateway-secret-file", writeFile(t, "short")}, "gateway_secret_file: the secret has 5 bytes"},
		{"gateway's authorities", nil, []string{"gateway", "--config", routes(""), "--ca", "/nonexistent/ca"}, "ca: reading the authorities"},
		{"a node's key in a gateway's file", nil, []string{"gateway", "--config", routes("data_dir: x\n")}, `unknown field "data_dir"`},
		{"gateway's health port taken", nil, []string{"gateway", "--config", routes(""), "--http-addr", busy}, "http_addr: listen tcp " + busy},
		{"gateway's port taken, alone", nil, []string{"gateway", "--config", routes(""), "--http-addr", "127.0.0.1:0", "--gateway-addr", busy}, "gateway_addr: listen tcp " + busy},
		{"rate", nil, []string{"serve", "--tenant-rate=-1"}, "tenant_rate: is -1"},
		{"open cluster", nil, []string{"serve", "--no-auth", "--cluster-addr", "0.0.0.0:0", "--cluster-advertise", "10.0.0.1:8481"}, "cluster_secret_file"},
		{"not in its peers", nil, []string{"serve", "--node-id", "n9", "--peers", "n1=127.0.0.1:8481"}, "does not list this node, n9"},
		{"API's port taken", free, []string{"serve", "--http-addr", busy}, "http_addr: listen tcp " + busy},
		{"gateway's port taken", free, []string{"serve", "--config", routes(""), "--gateway-addr", busy}, "gateway_addr: listen tcp " + busy},
		{"cluster's port taken", free, []string{"serve", "--node-id", "n1", "--cluster-addr", busy}, busy},
		{"demo's size", nil, []string{"demo", "--keys", "0"}, "--keys: is 0"},
		{"token of no tenant", nil, []string{"token", "new", "--tenant", "a b", "--role", "client"}, `tenant: the tenant "a b" is not a name`},
		{"token of no role", nil, []string{"token", "new", "--tenant", "a", "--role", "root"}, `role: "root" is no role: expected client, operator or gateway`},
		{"token without a role", nil, []string{"token", "new", "--tenant", "a"}, "--role"},
		{"status of nothing", nil, []string{"status", "--nodes", "127.0.0.1:8480"}, "--nodes"},
		{"keys of nothing", nil, []string{"keys"}, `expected one of "get"`},
		{"no key", nil, []string{"keys", "get"}, "<key>"},
		{"no such key", nil, []string{"keys", "get", "schlüssel"}, "printable ASCII"},
		{"bad tenant", nil, []string{"keys", "get", "--tenant", "a b", "k"}, "tenant"},
		{"bad token", []string{"ONCED_TOKEN=a b"}, []string{"keys", "get", "k"}, "token"},
		{"bad scope", nil, []string{"keys", "get", "--scope", "ü", "k"}, "scope"},
		{"long wait", nil, []string{"keys", "get", "--wait", "2m", "k"}, "--wait: is 2m0s"},
		{"state", nil, []string{"keys", "list", "--state", "done"}, `--state: is "done": expected in_progress, completed, unknown or expired`},
		{"variable's state", []string{"ONCED_STATE=done"}, []string{"keys", "list"}, "from ONCED_STATE"},
		{"limit", nil, []string{"keys", "list", "--limit", "1001"}, "--limit: is 1001"},
		{"no outcome", nil, []string{"keys", "resolve", "--reason", "r", "k"}, "--outcome"},
		{"no reason", nil, []string{"keys", "resolve", "--outcome", "released", "k"}, "--reason"},
		{"empty reason", nil, []string{"keys", "resolve", "--outcome", "released", "--reason", "", "k"}, "--reason: is empty"},
		{"outcome", nil, []string{"keys", "resolve", "--outcome", "done", "--reason", "r", "k"}, `--outcome: is "done": expected completed or released`},
		{"no response", nil, []string{"keys", "resolve", "--outcome", "completed", "--reason", "r", "k"}, "without a response"},
		{"response and status", nil, []string{"keys", "resolve", "--outcome", "completed", "--reason", "r", "--response", "f", "--status", "200", "k"}, "either"},
		{"response of released", nil, []string{"keys", "resolve", "--outcome", "released", "--reason", "r", "--status", "200", "k"}, "only with completed"},
		{"response's shape", nil, []string{"keys", "resolve", "--outcome", "completed", "--reason", "r", "--response", writeFile(t, `{"state":200}`), "k"}, `unknown member "state"`},
		{"response's header", nil, []string{"keys", "resolve", "--outcome", "completed", "--reason", "r", "--status", "200", "--header", "none", "k"}, "--header"},
		{"response's status", nil, []string{"keys", "resolve", "--outcome", "completed", "--reason", "r", "--status", "99", "k"}, "--status: is 99"},
		{"bench of what", nil, []string{"bench", "--mode", "all"}, "--mode: is \"all\""},
		{"bench of nobody", nil, []string{"bench", "--concurrency", "0"}, "--concurrency: is 0"},
		{"no shell", nil, []string{"completion"}, "<shell>"},
		{"another shell", nil, []string{"completion", "csh"}, "csh"},
		{"status in what", nil, []string{"status", "--output", "xml"}, "--output"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := invoke(t, c.env, c.args...)
			if code != exitRefused || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			if !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "onced: ") {
				t.Errorf("stderr %q, want one line with %q", stderr, c.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"demo", "-h"}, {"keys", "-h"}, {"keys", "resolve", "-h"}} {
		stdout, stderr, code := invoke(t, []string{"ONCED_HELP=1"}, args...)
		if code != exitDone || !strings.HasPrefix(stdout, "Usage: onced") || stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	stdout, stderr, code := invoke(t, nil, "version")
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for i, want := range []string{"onced ", "commit ", "go go1.", "log format 1"} {
		if lines := strings.Split(stdout, "\n"); len(lines) != 5 || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d of %q, want %q", i, stdout, want)
		}
	}
}
