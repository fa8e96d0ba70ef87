package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"onced"
)

// decode reads a configuration file as the command does.
func decode(text string) (Config, error) {
	var file struct {
		Gateway Config `yaml:"gateway"`
	}
	err := yaml.UnmarshalWithOptions([]byte(text), &file, yaml.Strict())
	return file.Gateway, err
}

const sample = `
gateway:
  addr: 127.0.0.1:8080
  upstream: http://127.0.0.1:3000
  tenant: header:X-Account  # header:NAME | authorization | single ; must be said: there is no silent shared bucket
  routes:                 # first match wins; {name} stands for one path segment, a last * for the rest
    - match: POST /charge
      key: required       # required | optional | off
      key_pattern: ""
      scope: account      # account | route
      contract: default   # default | ietf | stripe | realtime
      lease: 30s
      timeout: 30s
      retention: 24h
      tombstone: 0s
      wait: 0s
      on_unknown: hold    # hold | retry | probe
      probe: "GET /charges?key={key}"
      store: [2xx, 3xx, 4xx]
      release: [401, 408, 421, 425, 429, 503]
      fingerprint: {body: auto, headers: [], ignore_fields: []}   # body: auto | raw | none; fields as JSON pointers
      keep_headers: []    # of those that are never replayed by default
      max_request: 1MiB
      max_response: 1MiB
      reuse_connections: false
      retention_by_status: {}   # e.g. {4xx: 10s}: a short negative entry against retry storms
`

func TestTheContractsSampleIsTheDefault(t *testing.T) {
	c, err := decode(sample)
	if err != nil {
		t.Fatal(err)
	}
	said, err := compile(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Routes = []Route{{Match: "POST /charge"}}
	unsaid, err := compile(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := cmp.Options{cmp.AllowUnexported(route{}, pattern{}, segment{}, statusSet{}), cmp.Comparer(func(a, b *contract) bool { return a == b }), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".digest" }, cmp.Ignore())}
	if diff := cmp.Diff(unsaid.routes[0], said.routes[0], opts); diff != "" {
		t.Fatal(diff)
	}
	rt := said.routes[0]
	if rt.lease != 30*time.Second || rt.timeout != 30*time.Second || rt.retention != 24*time.Hour || rt.maxRequest != 1<<20 || rt.maxResponse != 1<<20 || rt.onLapse != onced.Hold {
		t.Fatalf("the defaults are %+v", rt)
	}
	if d := c.LongestTimeout(); d != 30*time.Second {
		t.Fatalf("the longest time-out is %v", d)
	}
}

func TestBadBlocksAreRefusedByName(t *testing.T) {
	route := func(lines string) string {
		return "upstream: http://127.0.0.1:3000, tenant: single, routes: [{match: POST /charge, " + lines + "}]"
	}
	for block, want := range map[string]string{
		"tenant: single": "upstream",
		"upstream: 'http://h:1/base', tenant: single":                       "more than scheme, host and port",
		"upstream: ftp://h, tenant: single":                                 "upstream",
		"upstream: http://h":                                                "tenant: it must be said",
		"upstream: http://h, tenant: everyone":                              "tenant",
		"upstream: http://h, tenant: 'header:'":                             "tenant",
		"upstream: http://h, tenant: 'header:A B'":                          "tenant",
		"upstream: http://h, tenant: header:authorization":                  "tenant: authorization",
		"upstream: http://h, tenant: single, route: []":                     `unknown field "route"`,
		route("keys: required"):                                             `unknown field "keys"`,
		route("blob_store: s3"):                                             `unknown field "blob_store"`,
		route("key: maybe"):                                                 "routes[0] (POST /charge): key",
		route("key_pattern: '('"):                                           "key_pattern",
		route("scope: tenant"):                                              "scope",
		route("contract: other"):                                            `contract: "other": expected one of default, ietf, stripe, realtime`,
		route("on_unknown: probe"):                                          `probe: on_unknown: probe needs it`,
		route("on_unknown: free"):                                           "on_unknown",
		route("lease: 30"):                                                  `lease: "30" is no duration`,
		route("lease: 10ms"):                                                "lease: 10ms is out of bounds",
		route("lease: 0s"):                                                  "lease",
		route("timeout: 0s"):                                                "timeout",
		route("timeout: -1s"):                                               "timeout",
		route("retention: 500ms"):                                           "retention",
		route("tombstone: -1s"):                                             "tombstone",
		route("wait: 61s"):                                                  "wait",
		route("store: [2xx, 600]"):                                          `store: "600"`,
		route("store: [1xx]"):                                               `store: "1xx"`,
		route("store: 2xx"):                                                 "store",
		route("store: [2xx, 429]"):                                          "store: 429 stands in store and in release",
		route("store: [4xx], release: [200]"):                               "release: it has 200: a success that frees its key",
		route("store: [4xx], release: [3xx]"):                               "release: it has 300",
		"upstream: \"http://u:99999\", tenant: single, routes: []":          "the port is 99999",
		"upstream: \"http://u\", tenant: \"header:Connection\", routes: []": "names no account",
		route("release: [4xx]"):                                             "4xx stands in store and in release",
		route("fingerprint: {body: some}"):                                  "fingerprint: body",
		route("fingerprint: {headers: ['a b']}"):                            "fingerprint: headers",
		route("fingerprint: {ignore_fields: [a]}"):                          "fingerprint: ignore_fields",
		route("fingerprint: {ignore_fields: ['/a~2']}"):                     "fingerprint: ignore_fields",
		route("fingerprint: {body: raw, ignore_fields: [/a]}"):              "needs body: auto",
		route("keep_headers: [Connection]"):                                 "keep_headers",
		route("keep_headers: [X-Mine]"):                                     "keep_headers",
		route("max_request: 1MB"):                                           "max_request",
		route("max_request: 0"):                                             "max_request",
		route("max_response: 9999999999GiB"):                                "max_response",
		route("retention_by_status: {9xx: 10s}"):                            "retention_by_status",
		route("retention_by_status: {4xx: 10ms}"):                           "retention_by_status: 4xx",
		route("reuse_connections: perhaps"):                                 "bool",
	} {
		c, err := decode("gateway: {" + block + "}")
		if err == nil {
			err = c.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected something with %q", block, err, want)
		}
	}
}

func TestBadMatches(t *testing.T) {
	for _, match := range []string{"", "charge", "GET /a", "HEAD /a", "OPTIONS /a", "TRACE /a", "CONNECT /a", "post /a", " /a", "POST  /a", "POST /a/", "POST //a", "POST /a/../b",
		"POST /a?b", "POST /a;b", "POST /{a", "POST /{}", "POST /x{a}", "POST /{a}:cancel", "POST /{a}/{a}", "POST /*/a", "POST /a*", "POST /%zz", "POST http://h/a"} {
		c := Config{Upstream: "http://h", Tenant: "single", Routes: []Route{{Match: match}}}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "match") {
			t.Errorf("%q: got %v", match, err)
		}
	}
}

func TestUnreachableRoutes(t *testing.T) {
	for _, tc := range []struct {
		first, second string
		bad           bool
	}{
		{"POST /a", "POST /a", true}, {"POST /a", "POST /A", true}, {"/a", "POST /a", true}, {"POST /a", "/a", false}, {"POST /*", "POST /a/{b}", true},
		{"POST /{x}", "POST /a", true}, {"POST /a", "POST /{x}", false}, {"POST /a/*", "POST /a", true}, {"POST /a/b", "POST /a/*", false},
		{"POST /a/{x}", "POST /a/*", false}, {"POST /a/*", "POST /a/{x}/*", true}, {"PUT /a", "POST /a", false}, {"POST /%61", "POST /a", true},
	} {
		c := Config{Upstream: "http://h", Tenant: "single", Routes: []Route{{Match: tc.first}, {Match: tc.second}}}
		if err := c.Validate(); (err != nil) != tc.bad || err != nil && !strings.Contains(err.Error(), "routes[1]") {
			t.Errorf("%q before %q: got %v", tc.first, tc.second, err)
		}
	}
}

func TestReload(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	c := Config{Upstream: "http://" + up.ln.Addr().String(), Tenant: "header:X-Account", Routes: []Route{{Match: "nonsense"}}}
	if err := b.g.Reload(c); err == nil {
		t.Fatal("a broken configuration was taken")
	}
	b.send(charge("", "x")).expect(t, 400, onced.CodeKeyRequired)
	c.Routes = []Route{{Match: "POST /other"}}
	if err := b.g.Reload(c); err != nil {
		t.Fatal(err)
	}
	b.send(charge("", "x")).expect(t, 201, "")
}

func TestNewNeedsAKeeper(t *testing.T) {
	if _, err := New(Config{Upstream: "http://h", Tenant: "single"}, Deps{}); err == nil {
		t.Fatal("no error")
	}
}
