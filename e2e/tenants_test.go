//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// credential is a token and the line of the tokens file that makes it one.
type credential struct{ tenant, token, line string }

// makeToken has the command make a credential.
func makeToken(t *testing.T, tenant, role string) credential {
	t.Helper()
	s := command(t, nil, "token", "new", "--tenant", tenant, "--role", role, "--name", tenant+"-"+role).expect(t, 0)
	token, line, ok := strings.Cut(s.stdout, "\n")
	if !ok || !strings.HasPrefix(line, "sha256:") {
		t.Fatalf("token new prints %q", s.stdout)
	}
	return credential{tenant, token, line}
}

// writeTokens makes these credentials the only ones of the file.
func writeTokens(t *testing.T, file string, all ...credential) {
	t.Helper()
	var lines strings.Builder
	for _, c := range all {
		lines.WriteString(c.line)
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// secured is what a node needs to ask for the tokens of file; its gateway stands before upstream.
func secured(file, upstream string) func(int, *node) {
	return func(_ int, n *node) {
		n.replace, n.level = "no_auth", "debug"
		n.settings = append(n.settings, "election_timeout: 5s", fmt.Sprintf("tokens_file: %q", file),
			fmt.Sprintf("gateway:\n  addr: %s\n  upstream: %s\n  tenant: header:X-Account\n  routes:\n    - match: POST /charge", n.gate, upstream))
	}
}

// as sends a request with more header lines, as name, value, name, value.
func (n *node) as(method, url string, body any, header ...string) answer {
	raw, err := json.Marshal(body)
	if err != nil {
		return answer{err: err}
	}
	if body == nil {
		raw = nil
	}
	r, err := http.NewRequest(method, "http://"+url, bytes.NewReader(raw))
	if err != nil {
		return answer{err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return do(r)
}

// by sends a call to the API with a credential.
func (n *node) by(c credential, method, path string, body any) answer {
	return n.as(method, n.api+path, body, "Authorization", "Bearer "+c.token)
}

// apart is two tenants on one cluster, and what each of them was told.
type apart struct {
	*cluster
	told map[string]*strings.Builder
}

// want sends a call and wants this status and, where it is a refusal, this code.
func (a *apart) want(status int, code string, n *node, c credential, method, path string, body any) answer {
	a.t.Helper()
	got := n.by(c, method, path, body)
	if got.status != status || got.code() != code {
		a.t.Errorf("%s %s by %s: %s, expected %d %s", method, path, c.tenant, got, status, code)
	}
	fmt.Fprintf(a.told[c.tenant], "%v\n%s\n", got.header, got.body)
	return got
}

// TestTenantsApart: two tenants use one key, with one owner, on real nodes and their gateways. Neither moves or sees anything of the
// other's: in no call, list, log or metric. A client does no operator's work, and a token that is revoked is told what an unknown one is.
func TestTenantsApart(t *testing.T) {
	t.Parallel()
	shop := newShop(t)
	acme, globex := makeToken(t, "acme", "client"), makeToken(t, "globex", "client")
	chief, rival := makeToken(t, "acme", "operator"), makeToken(t, "globex", "operator")
	stranger := makeToken(t, "acme", "client")
	file := filepath.Join(scratch(t), "tokens")
	writeTokens(t, file, acme, globex, chief, rival)
	a := &apart{begin(t, secured(file, shop.URL)), map[string]*strings.Builder{"acme": {}, "globex": {}}}

	a.reserveBoth(acme, globex)
	a.holdOff(acme, globex, rival)
	a.finishBoth(acme, globex)
	a.buyBoth(shop)
	a.list(chief, rival)
	a.noOperator(acme)
	for _, n := range a.nodes {
		a.want(200, "", n, acme, "GET", "/metrics", nil)
		a.want(200, "", n, globex, "GET", "/metrics", nil)
	}
	if strings.Contains(a.told["acme"].String(), "globex") || strings.Contains(a.told["globex"].String(), "acme") {
		t.Errorf("they have met:\n%s\n\n%s", a.told["acme"], a.told["globex"])
	}
	a.revoke(file, acme, stranger, globex, chief, rival)
	a.logsAreClean(acme, globex, chief, rival, stranger)
	if t.Failed() {
		return
	}
	a.nodes[0].stop()
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Error(err)
	}
}

// sharedKey is the key of both; each says its own name in what it stores.
const sharedKey = "/v1/keys/one-key"

func (a *apart) reserveBoth(both ...credential) {
	a.t.Helper()
	for i, c := range both {
		r := a.want(201, "", a.nodes[i], c, "POST", sharedKey+"/reserve", object{"fingerprint": "of " + c.tenant, "owner": "same", "lease": "10m"}).record()
		if r.Token == 0 || r.Repeated {
			a.t.Errorf("%s got %+v", c.tenant, r)
		}
	}
}

// token is that of c's reservation.
func (a *apart) token(c credential) uint64 {
	return a.nodes[2].by(c, "GET", sharedKey, nil).record().Token
}

// holdOff has one tenant try everything with the other's token, and an operator of its own.
func (a *apart) holdOff(victim, thief, operator credential) {
	a.t.Helper()
	token := a.token(victim)
	for _, n := range a.nodes {
		for verb, body := range map[string]object{
			"complete": {"token": token, "response": object{"status": 200}}, "renew": {"token": token}, "release": {"token": token},
		} {
			a.want(409, "stale_token", n, thief, "POST", sharedKey+"/"+verb, body)
		}
		a.want(409, "idempotency_conflict", n, thief, "POST", sharedKey+"/reserve", object{"fingerprint": "of " + victim.tenant})
		// What the other's key is under another name: nothing.
		a.want(201, "", n, victim, "POST", "/v1/keys/only-"+n.id+"/reserve", object{"fingerprint": ""})
		a.want(404, "key_not_found", n, thief, "GET", "/v1/keys/only-"+n.id, nil)
		a.want(409, "stale_token", n, thief, "POST", "/v1/keys/only-"+n.id+"/renew", object{"token": token})
		a.want(404, "key_not_found", n, operator, "DELETE", "/v1/keys/only-"+n.id+"?force=true", nil)
		a.want(404, "key_not_found", n, operator, "POST", "/v1/keys/only-"+n.id+"/resolve", object{"outcome": "released", "reason": "r", "force": true})
		got := n.as("GET", n.api+sharedKey, nil, "Authorization", "Bearer "+thief.token, "Onced-Tenant", victim.tenant)
		if got.status != 403 || got.code() != "forbidden" {
			a.t.Errorf("acting for the other tenant: %s", got)
		}
	}
	if after := a.token(victim); after != token {
		a.t.Errorf("the token of %s was %d and is %d", victim.tenant, token, after)
	}
}

func (a *apart) finishBoth(both ...credential) {
	a.t.Helper()
	for i, c := range both {
		a.want(200, "", a.nodes[i+1], c, "POST", sharedKey+"/complete", object{"token": a.token(c), "response": object{"status": 201, "body": "of " + c.tenant}})
	}
	for _, n := range a.nodes {
		for _, c := range both {
			r := a.want(200, "", n, c, "POST", sharedKey+"/reserve", object{"fingerprint": "of " + c.tenant})
			if !strings.Contains(string(r.record().Response), "of "+c.tenant) {
				a.t.Errorf("%s is replayed %s", c.tenant, r)
			}
		}
	}
}

// buyBoth sends one key and payload through the gateways: each account is charged once, and has its own answer.
func (a *apart) buyBoth(p *shop) {
	a.t.Helper()
	for _, tenant := range []string{"acme", "globex"} {
		first := ""
		for i, n := range a.nodes {
			got := n.as("POST", n.gate+"/charge", object{"amount": 1299}, "Idempotency-Key", "one-purchase", "X-Account", tenant)
			if i == 0 {
				first = string(got.body)
			}
			if got.status != 201 || string(got.body) != first || got.header.Get("Idempotency-Replayed") != fmt.Sprint(i > 0) {
				a.t.Errorf("%s at %s: %s %v", tenant, n.id, got, got.header)
			}
		}
	}
	if n := p.of("one-purchase"); n != 2 {
		a.t.Errorf("two accounts with one key were charged %d times", n)
	}
}

// list looks at both tenants' lists over HTTP and by the command, also with a cursor of the other's.
func (a *apart) list(both ...credential) {
	a.t.Helper()
	for i, c := range both {
		var page struct {
			Records []struct{ Tenant, Key string }
			Next    string `json:"next_cursor"`
		}
		for _, n := range a.nodes {
			if err := a.want(200, "", n, c, "GET", "/v1/keys", nil).decode(&page); err != nil || len(page.Records) != 5-3*i {
				a.t.Errorf("%s sees %v: %v", c.tenant, page.Records, err)
			}
		}
		if err := a.want(200, "", a.nodes[0], both[1-i], "GET", "/v1/keys?limit=1", nil).decode(&page); err != nil || page.Next == "" {
			a.t.Errorf("no cursor: %v", err)
		}
		if err := a.want(200, "", a.nodes[0], c, "GET", "/v1/keys?cursor="+page.Next, nil).decode(&page); err != nil {
			a.t.Error(err)
		}
		for _, r := range page.Records {
			if r.Tenant != c.tenant {
				a.t.Errorf("%s sees a record of %s", c.tenant, r.Tenant)
			}
		}
		s := command(a.t, nil, "keys", "list", "--nodes", urls(a.nodes...), "--token", c.token).expect(a.t, 0, "one-key")
		a.told[c.tenant].WriteString(s.stdout + s.stderr)
		s = command(a.t, nil, "keys", "get", "--nodes", urls(a.nodes...), "--token", c.token, "one-key").expect(a.t, 0, "of "+c.tenant)
		a.told[c.tenant].WriteString(s.stdout + s.stderr)
		command(a.t, nil, "keys", "list", "--nodes", urls(a.nodes...), "--token", c.token, "--tenant", both[1-i].tenant).expect(a.t, 1, "forbidden")
	}
}

// noOperator has a client try an operator's work, on a key that is there and on one that is not: it cannot tell them apart.
func (a *apart) noOperator(c credential) {
	a.t.Helper()
	for _, n := range a.nodes {
		for _, call := range []struct {
			method, path string
			body         any
		}{
			{"POST", "%s/resolve", object{"outcome": "released", "reason": "r", "force": true}},
			{"DELETE", "%s?force=true", nil},
		} {
			there := a.want(403, "forbidden", n, c, call.method, fmt.Sprintf(call.path, sharedKey), call.body)
			absent := a.want(403, "forbidden", n, c, call.method, fmt.Sprintf(call.path, "/v1/keys/absent"), call.body)
			if !bytes.Equal(there.body, absent.body) {
				a.t.Errorf("a hint that a key is there: %s, %s", there, absent)
			}
		}
		a.want(403, "forbidden", n, c, "GET", "/v1/backup", nil)
		a.want(403, "forbidden", n, c, "POST", "/v1/cluster/members", object{"id": "n9", "address": "127.0.0.1:1"})
		a.want(403, "forbidden", n, c, "DELETE", "/v1/cluster/members/"+n.id+"?force=true", nil)
	}
	nodes, out := urls(a.nodes...), filepath.Join(a.dir, "backup")
	for _, args := range [][]string{
		{"keys", "resolve", "--outcome", "released", "--reason", "r", "--force", "one-key"}, {"keys", "forget", "--force", "one-key"},
		{"members", "remove", "n1"}, {"members", "add", "n9", "127.0.0.1:1"}, {"backup", out},
	} {
		command(a.t, nil, append(args, "--nodes", nodes, "--token", c.token)...).expect(a.t, 1, "forbidden")
	}
	if _, err := os.Stat(out); err == nil {
		a.t.Error("a client has a backup")
	}
	a.want(200, "", a.nodes[0], c, "GET", sharedKey, nil)
}

// revoke takes c's line out on every node.
func (a *apart) revoke(file string, c, unknown credential, stay ...credential) {
	a.t.Helper()
	writeTokens(a.t, file, stay...)
	for _, n := range a.nodes {
		from := n.size()
		n.signal(syscall.SIGHUP)
		n.waitLog(from, "the tokens are in force")
		told := ""
		for _, who := range []credential{c, unknown} {
			for _, path := range []string{sharedKey, "/v1/keys/absent", "/v1/keys", "/metrics", "/v1/cluster", "/v1/backup"} {
				got := a.want(401, "unauthenticated", n, who, "GET", path, nil)
				if told == "" {
					told = string(got.body)
				}
				if string(got.body) != told {
					a.t.Errorf("a hint to a token that is none: %s, %s", got, told)
				}
			}
		}
		a.want(200, "", n, stay[0], "GET", sharedKey, nil)
	}
}

// logsAreClean reads every node's log, which has a line for each request.
func (a *apart) logsAreClean(all ...credential) {
	a.t.Helper()
	for _, n := range a.nodes {
		if len(n.logged(0, "tenant=acme")) == 0 || len(n.logged(0, "tenant=globex")) == 0 {
			a.t.Errorf("the log of %s names no tenant: it proves nothing", n.id)
		}
		for _, line := range n.logged(0, "") {
			if strings.Contains(line, "tenant=acme") && strings.Contains(line, "globex") || strings.Contains(line, "tenant=globex") && strings.Contains(line, "acme") {
				a.t.Errorf("they meet in a line: %s", line)
			}
			if !strings.Contains(line, "msg=audit") && (strings.Contains(line, "one-key") || strings.Contains(line, "one-purchase")) {
				a.t.Errorf("a key is in the log: %s", line)
			}
			for _, c := range all {
				if strings.Contains(line, c.token) {
					a.t.Errorf("a token is in the log: %s", line)
				}
			}
		}
	}
}
