package gateway

import (
	"strings"
	"testing"
	"time"

	"onced"
)

// A route may say what its contract leaves to it, and is refused by name where it would break what
// clients rely on.
func TestWhatARouteMaySayUnderItsContract(t *testing.T) {
	for _, tc := range []struct{ contract, lines, want string }{
		{"ietf", "store: [2xx], release: [4xx], retention: 1h, on_unknown: retry, key: optional", ""},
		{"ietf", "retention_by_status: {4xx: 10s}", ""},
		{"stripe", "key: optional, on_unknown: retry, retention: 1h", ""},
		{"stripe", "release: [401, 409, 429, 503]", ""},
		{"stripe", "store: [2xx, 4xx]", ""},
		{"stripe", "release: [503]", "store: contract stripe never keeps the answer of a 409"},
		{"stripe", "release: [409]", "store: contract stripe never keeps the answer of a 429"},
		{"stripe", "store: [2xx, 409], release: [429]", "store: contract stripe never keeps the answer of a 409"},
		{"stripe", "store: [2xx, 409]", "store: 409 stands in store and in release"},
		{"realtime", "key: required, retention: 2160h, on_unknown: retry, store: [2xx, 3xx], release: [4xx]", ""},
		{"realtime", "release: []", ""},
		{"realtime", "tombstone: 1h, wait: 5s, scope: route", ""},
		{"realtime", "key: optional", "key: contract realtime refuses a request without a key"},
		{"realtime", "key: 'off'", "key: contract realtime refuses a request without a key"},
		{"realtime", "on_unknown: hold", "on_unknown: contract realtime has on_unknown: retry, never hold"},
		{"realtime", "retention: 24h", "retention: contract realtime keeps answers for 720h0m0s"},
		{"realtime", "retention_by_status: {2xx: 24h}", "retention_by_status: contract realtime keeps answers for 720h0m0s, and 24h0m0s of 2xx is less"},
		{"realtime", "retention_by_status: {201: 24h}", "of 201 is less"},
		{"realtime", "retention_by_status: {2xx: 1000h}", ""},
		{"realtime", "store: [2xx, 3xx, 404]", "store: contract realtime never keeps the answer of a 404"},
		{"realtime", "store: [2xx, 3xx, 5xx]", "store: contract realtime never keeps the answer of a 500"},
		{"realtime", "store: [2xx]", "store: contract realtime keeps the answer of every 300"},
	} {
		c, err := decode("gateway: {upstream: http://127.0.0.1:3000, tenant: single, routes: [{match: POST /charge, contract: " + tc.contract + ", " + tc.lines + "}]}")
		if err == nil {
			err = c.Validate()
		}
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), "routes[0] (POST /charge): "+tc.want) && !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s {%s}: got %v, expected %q", tc.contract, tc.lines, err, tc.want)
		}
	}
}

// What a route says wins over what its contract would have.
func TestWhatARouteSaysWins(t *testing.T) {
	rt, err := compileRoute(Route{Match: "/a", Contract: "stripe", Retention: "1h", Store: []string{"2xx", "500"}, Release: []string{"4xx"}, OnUnknown: "retry"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rt.retention != time.Hour || rt.onLapse != onced.Retry || rt.dispositionOf(500) != keepAnswer || rt.dispositionOf(502) != holdUnknown || rt.dispositionOf(402) != freeKey {
		t.Fatalf("the route is %+v", rt)
	}
}

func TestKeyPatterns(t *testing.T) {
	for _, tc := range []struct {
		contract, pattern, key string
		taken                  bool
	}{
		{"default", "[a-z]+-[0-9]+", "abc-1", true},
		{"default", "[a-z]+-[0-9]+", `"abc-1"`, true},
		{"default", "[a-z]+-[0-9]+", "abc-1x", false},
		{"default", `".+"`, `"abc"`, false}, // a key that has quotes in it
		{"default", `".+"`, `"\"abc\""`, true},
		{"ietf", "", "abc", true},
		{"ietf", "", `"abc"`, true},
		{"ietf", "[a-z]+", "abc", true},
		{"ietf", "[a-z]+", `"abc"`, true},
		{"ietf", `".+"`, "abc", false},
		{"ietf", `".+"`, `"abc"`, true},
		{"ietf", `^".+"$`, "  \"abc\"\t", true},
		{"ietf", `^".+"$`, "abc", false},
		{"ietf", `"[0-9a-f]{8}"`, `"0123abcd"`, true},
		{"ietf", `"[0-9a-f]{8}"`, `"0123abcx"`, false},
		{"ietf", `".+"`, `"abc`, false},
		{"ietf", `".+"`, `"abc";p=1`, false},
	} {
		b := newBench(t, newUpstream(t, answers(created)), Deps{}, Route{Match: "POST /charge", Contract: tc.contract, KeyPattern: tc.pattern})
		got := b.send(charge(tc.key, "x"))
		if tc.taken {
			got.expect(t, 201, "")
			continue
		}
		got.expect(t, 400, onced.CodeKeyInvalid)
		b.expectRuns(0)
	}
}

// Both forms are one key, also where a route demands the quoted one.
func TestTheQuotedFormIsTheSameKey(t *testing.T) {
	b := newBench(t, newUpstream(t, answers(created)), Deps{}, Route{Match: "POST /charge", Contract: "ietf", KeyPattern: `".+"`})
	b.send(charge(`"k\"1"`, "x")).expect(t, 201, "")
	if rec := b.record(`k"1`); rec.State != onced.StateCompleted {
		t.Fatalf("the record of the unquoted key is %+v", rec)
	}
	b.send(charge(`"k\"1"`, "x")).expect(t, 201, "").replayed(t, "true")
}
