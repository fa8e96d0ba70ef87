//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// advice is what each refusal of the API says to do next.
var advice = map[string]string{
	"idempotency_key_invalid": "fix", "invalid_request": "fix", "key_not_found": "fix", "request_too_large": "fix", "response_too_large": "fix",
	"request_in_progress": "same_key", "outcome_unknown": "same_key", "rate_limited": "same_key", "quota_exceeded": "same_key",
	"idempotency_conflict": "new_key", "key_expired": "new_key", "stale_token": "stop", "already_completed": "stop",
}

// surface calls the API of a cluster, each call at the next node, and notes what was exercised.
type surface struct {
	*cluster
	turn        int
	operations  map[string]bool // by the operationId of the description
	codes       map[string]bool
	explanation map[string]bool // codes whose page was read
}

// ok sends a call and wants this status, and these texts in its answer.
func (s *surface) ok(operation, method, path string, body any, status int, texts ...string) answer {
	s.t.Helper()
	n := s.nodes[s.turn%len(s.nodes)]
	s.turn++
	a := n.as(method, n.api+path, body)
	s.operations[operation] = true
	if a.status != status {
		s.t.Errorf("%s %s %v at %s: %s, expected %d", method, path, body, n.id, a, status)
	}
	for _, text := range texts {
		if !strings.Contains(string(a.body), text) {
			s.t.Errorf("%s %s %v at %s: %s, which lacks %s", method, path, body, n.id, a, text)
		}
	}
	return a
}

// refused is ok for a problem, whose advice and page it looks at.
func (s *surface) refused(operation, method, path string, body any, status int, code string) {
	s.t.Helper()
	a := s.ok(operation, method, path, body, status)
	s.problem(a, code)
}

func (s *surface) problem(a answer, code string) {
	s.t.Helper()
	var p struct {
		Type, Title, Detail, Code, Retry string
		Status                           int
		After                            int `json:"retry_after"`
	}
	if err := a.decode(&p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		s.t.Errorf("no problem: %v %s", a.header, a)
	}
	if p.Code != code || p.Retry != advice[code] || p.Type != "/problems/"+code || p.Status != a.status || p.Title == "" || p.Detail == "" {
		s.t.Errorf("the problem is %s, expected %s with the advice %s", a, code, advice[code])
	}
	if header := a.header.Get("Retry-After"); (header != "" || p.After != 0) && header != strconv.Itoa(p.After) || code == "request_in_progress" && p.After < 1 {
		s.t.Errorf("Retry-After is %q and retry_after %d: %s", header, p.After, a)
	}
	s.codes[code] = true
	if !s.explanation[code] {
		s.explanation[code] = true
		s.ok("problem", "GET", p.Type, nil, 200, code)
	}
}

// reserve makes a reservation and returns its token.
func (s *surface) reserve(key string, more object) uint64 {
	s.t.Helper()
	body := object{"fingerprint": "f"}
	for name, value := range more {
		body[name] = value
	}
	return s.ok("reserve", "POST", "/v1/keys/"+key+"/reserve", body, 201, `"outcome":"reserved","replayed":false`).record().Token
}

// TestEveryCall goes over every call of the API and every refusal, on three real nodes, each call at the next one. What it leaves
// out of the served description is an error.
func TestEveryCall(t *testing.T) {
	t.Parallel()
	s := &surface{begin(t, func(_ int, n *node) {
		n.settings = append(n.settings, "election_timeout: 5s", "max_response_bytes: 64KiB", "max_request_bytes: 64KiB", "tenant_rate: 0.001", "tenant_burst: 200", "tenant_max_keys: 60")
	}), 0, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	s.life()
	s.takeover()
	s.checkpoints()
	s.expiry()
	s.malformed()
	s.operator()
	s.batches()
	s.limits()
	s.node()
	for _, m := range regexp.MustCompile(`operationId: (\w+)`).FindAllStringSubmatch(string(s.ok("openapi", "GET", "/openapi.yaml", nil, 200, "openapi: 3.1").body), -1) {
		if !s.operations[m[1]] {
			t.Errorf("the operation %s is in the description and was not exercised", m[1])
		}
	}
	if len(s.operations) < 19 {
		t.Errorf("only %d operations were exercised", len(s.operations))
	}
	for code := range advice {
		if !s.codes[code] {
			t.Errorf("nothing was refused with %s", code)
		}
	}
	s.equalTables()
}

// life is a key from its first reserve to its replay, and what a duplicate and a stranger are told meanwhile.
func (s *surface) life() {
	s.t.Helper()
	token := s.reserve("life", object{"owner": "o"})
	if again := s.ok("reserve", "POST", "/v1/keys/life/reserve", object{"fingerprint": "f", "owner": "o"}, 201, `"repeated":true`).record(); again.Token != token || again.Attempt != 1 {
		s.t.Errorf("the same owner got %+v after token %d", again, token)
	}
	s.refused("reserve", "POST", "/v1/keys/life/reserve", object{"fingerprint": "f"}, 409, "request_in_progress")
	s.refused("reserve", "POST", "/v1/keys/life/reserve", object{"fingerprint": "g"}, 409, "idempotency_conflict")
	s.refused("complete", "POST", "/v1/keys/life/complete", object{"token": token + 1, "response": object{"status": 200}}, 409, "stale_token")
	s.ok("renew", "POST", "/v1/keys/life/renew", object{"token": token, "lease": "1m"}, 200, "lease_expires_at")
	s.ok("reserve", "POST", "/v1/keys/life/reserve?scope=other", object{"fingerprint": "f"}, 201) // another record
	s.ok("get", "GET", "/v1/keys/life", nil, 200, `"state":"in_progress"`)
	waited := make(chan answer, 1)
	first := s.nodes[0]
	go func() {
		waited <- first.as("POST", first.api+"/v1/keys/life/reserve", object{"fingerprint": "f", "wait": "30s"})
	}()
	response := object{"status": 201, "headers": [][]string{{"X-A", "1"}, {"X-A", "2"}}, "body_base64": "/w=="}
	s.ok("complete", "POST", "/v1/keys/life/complete", object{"token": token, "response": response}, 200, `"state":"completed"`)
	s.ok("complete", "POST", "/v1/keys/life/complete", object{"token": token, "response": response}, 200, `"state":"completed"`)
	kept := `"response":{"status":201,"headers":[["X-A","1"],["X-A","2"]],"body_base64":"/w=="}`
	if a := <-waited; a.status != 200 || !strings.Contains(string(a.body), kept) {
		s.t.Errorf("a duplicate that waited: %s", a)
	}
	for range s.nodes {
		s.ok("reserve", "POST", "/v1/keys/life/reserve", object{"fingerprint": "f"}, 200, `"outcome":"replayed","replayed":true`, kept, "expires_at")
		s.ok("get", "GET", "/v1/keys/life?stale=false", nil, 200, kept)
	}
	s.refused("complete", "POST", "/v1/keys/life/complete", object{"token": token, "response": object{"status": 500}}, 409, "already_completed")
	s.refused("renew", "POST", "/v1/keys/life/renew", object{"token": token}, 409, "already_completed")
	s.refused("release", "POST", "/v1/keys/life/release", object{"token": token}, 409, "already_completed")

	token = s.reserve("freed", nil)
	for range 2 {
		s.ok("release", "POST", "/v1/keys/freed/release", object{"token": token}, 200, `"state":"absent"`)
	}
	s.refused("renew", "POST", "/v1/keys/freed/renew", object{"token": token}, 409, "stale_token")
	s.refused("get", "GET", "/v1/keys/freed", nil, 404, "key_not_found")
	if next := s.reserve("freed", nil); next <= token {
		s.t.Errorf("token %d after %d", next, token)
	}
	s.ok("release", "POST", "/v1/keys/cancelled/release", object{"owner": "c"}, 200)
	s.refused("reserve", "POST", "/v1/keys/cancelled/reserve", object{"fingerprint": "f", "owner": "c"}, 409, "stale_token")
}

// takeover is an operation whose outcome is unknown, and was found never to have happened.
func (s *surface) takeover() {
	s.t.Helper()
	token := s.reserve("lost", nil)
	s.ok("complete", "POST", "/v1/keys/lost/complete", object{"token": token, "outcome": "unknown"}, 200, `"state":"unknown"`)
	s.refused("reserve", "POST", "/v1/keys/lost/reserve", object{"fingerprint": "f"}, 409, "outcome_unknown")
	s.refused("renew", "POST", "/v1/keys/lost/renew", object{"token": token}, 409, "outcome_unknown")
	s.refused("reserve", "POST", "/v1/keys/lost/reserve", object{"fingerprint": "f", "takeover": token + 1}, 409, "stale_token")
	next := s.ok("reserve", "POST", "/v1/keys/lost/reserve", object{"fingerprint": "f", "takeover": token}, 201, `"attempt":2`).record().Token
	s.refused("complete", "POST", "/v1/keys/lost/complete", object{"token": token, "response": object{"status": 200}}, 409, "stale_token")
	s.ok("complete", "POST", "/v1/keys/lost/complete", object{"token": next, "response": object{"status": 200, "body_omitted": true, "reference": "r"}}, 200)
	s.ok("reserve", "POST", "/v1/keys/lost/reserve", object{"fingerprint": "f"}, 200, `"body_omitted":true`, `"reference":"r"`)
}

// checkpoints hands what one attempt has done to the next, under retry.
func (s *surface) checkpoints() {
	s.t.Helper()
	token := s.reserve("steps", object{"on_lapse": "retry"})
	s.ok("renew", "POST", "/v1/keys/steps/renew", object{"token": token, "checkpoint": object{"page": 7}}, 200)
	s.refused("renew", "POST", "/v1/keys/steps/renew", object{"token": token, "checkpoint": strings.Repeat("x", 4097)}, 400, "invalid_request")
	s.ok("complete", "POST", "/v1/keys/steps/complete", object{"token": token, "outcome": "unknown"}, 200, `"state":"in_progress"`)
	s.ok("reserve", "POST", "/v1/keys/steps/reserve", object{"fingerprint": "f"}, 201, `"attempt":2`, `"checkpoint":{"page":7}`)
}

// expiry waits for the end of a retention, under a tombstone.
func (s *surface) expiry() {
	s.t.Helper()
	token := s.reserve("old", object{"retention": "1s", "tombstone": "1h"})
	s.ok("complete", "POST", "/v1/keys/old/complete", object{"token": token, "response": object{"status": 200}}, 200)
	eventually(s.t, "the record is expired", func() error {
		if a := s.ok("get", "GET", "/v1/keys/old", nil, 200); a.record().State != "expired" {
			return fmt.Errorf("it is %s", a)
		}
		return nil
	})
	s.refused("reserve", "POST", "/v1/keys/old/reserve", object{"fingerprint": "other"}, 409, "key_expired")
	s.ok("complete", "POST", "/v1/keys/old/complete", object{"token": token, "response": object{"status": 200}}, 200)
}

// malformed is one bad form for each rule of the request itself.
func (s *surface) malformed() {
	s.t.Helper()
	long := strings.Repeat("k", 256)
	for _, key := range []string{"%00", "%C3%A9", long} {
		s.refused("reserve", "POST", "/v1/keys/"+key+"/reserve", object{"fingerprint": "f"}, 400, "idempotency_key_invalid")
	}
	s.reserve(long[1:], nil)
	s.reserve("a%2Fb%20c", nil)
	s.ok("get", "GET", "/v1/keys/a%2Fb%20c", nil, 200, `"key":"a/b c"`)
	for _, body := range []any{
		nil, object{}, object{"fingerprint": "f", "leese": "1s"}, object{"fingerprint": 1}, object{"fingerprint": strings.Repeat("f", 257)},
		object{"fingerprint": "f", "owner": strings.Repeat("o", 65)}, object{"fingerprint": "f", "lease": "99ms"}, object{"fingerprint": "f", "lease": "24h1s"},
		object{"fingerprint": "f", "retention": "999ms"}, object{"fingerprint": "f", "retention": "9601h"}, object{"fingerprint": "f", "wait": "61s"},
		object{"fingerprint": "f", "on_lapse": "drop"}, object{"fingerprint": "f", "takeover": 0}, []string{"f"},
	} {
		s.refused("reserve", "POST", "/v1/keys/malformed/reserve", body, 400, "invalid_request")
	}
	s.refused("get", "GET", "/v1/keys/malformed", nil, 404, "key_not_found") // none of them left a trace
	for _, query := range []string{"limit=0", "limit=1001", "state=done", "cursor=bm90IG91cnM", "page=2"} {
		s.refused("list", "GET", "/v1/keys?"+query, nil, 400, "invalid_request")
	}
	s.refused("get", "GET", "/v1/keys/malformed?wait=61s", nil, 400, "invalid_request")
	s.refused("reserve", "PUT", "/v1/keys/malformed/reserve", nil, 405, "invalid_request")
	s.refused("reserve", "GET", "/v1/nothing", nil, 404, "invalid_request")
}

// operator resolves and deletes, and is kept from what is still at work.
func (s *surface) operator() {
	s.t.Helper()
	released := object{"outcome": "released", "reason": "never arrived"}
	token := s.reserve("settle", nil)
	s.refused("resolve", "POST", "/v1/keys/settle/resolve", released, 409, "request_in_progress")
	s.refused("forget", "DELETE", "/v1/keys/settle", nil, 409, "request_in_progress")
	s.ok("complete", "POST", "/v1/keys/settle/complete", object{"token": token, "outcome": "unknown"}, 200)
	s.refused("forget", "DELETE", "/v1/keys/settle", nil, 409, "outcome_unknown")
	s.refused("resolve", "POST", "/v1/keys/settle/resolve", object{"outcome": "released"}, 400, "invalid_request")
	s.ok("list", "GET", "/v1/keys?state=unknown", nil, 200, `"key":"settle"`)
	s.ok("resolve", "POST", "/v1/keys/settle/resolve", object{"outcome": "completed", "reason": "found", "response": object{"status": 201, "body": "ch_1"}}, 200, `"state":"completed"`)
	s.ok("reserve", "POST", "/v1/keys/settle/reserve", object{"fingerprint": "f"}, 200, `"body":"ch_1"`)
	s.refused("resolve", "POST", "/v1/keys/settle/resolve", released, 409, "already_completed")
	s.ok("forget", "DELETE", "/v1/keys/settle?reason=again", nil, 204)
	s.refused("forget", "DELETE", "/v1/keys/settle", nil, 404, "key_not_found")
	s.refused("resolve", "POST", "/v1/keys/settle/resolve", released, 404, "key_not_found")
	for range s.nodes { // one that lags may still replay; a read waits until it has caught up
		s.refused("get", "GET", "/v1/keys/settle", nil, 404, "key_not_found")
	}
	s.reserve("settle", nil)
	released["force"] = true
	s.ok("resolve", "POST", "/v1/keys/settle/resolve", released, 200, `"state":"absent"`)
	s.reserve("settle", nil)
	s.ok("forget", "DELETE", "/v1/keys/settle?force=true", nil, 204)
	audits := 0
	for _, n := range s.nodes {
		audits += len(n.logged(0, "msg=audit"))
	}
	if audits != 10 { // what is malformed is none
		s.t.Errorf("%d audit lines of 10 verbs that were asked for", audits)
	}
}

// batches sends all four operations in one request, in order for one key.
func (s *surface) batches() {
	s.t.Helper()
	token := s.reserve("batched", nil)
	a := s.ok("batch", "POST", "/v1/batch", object{"operations": []object{
		{"op": "renew", "key": "batched", "token": token},
		{"op": "complete", "key": "batched", "token": token, "response": object{"status": 200}},
		{"op": "reserve", "key": "batched", "fingerprint": "f"},
		{"op": "release", "key": "batched", "token": token},
		{"op": "reserve", "key": "batched", "scope": "s", "fingerprint": "f"},
		{"op": "reserve", "key": "", "fingerprint": "f"},
		{"op": "reserve", "key": "waits", "fingerprint": "f", "wait": "1s"},
		{"op": "resolve", "key": "batched"},
	}}, 200)
	s.statuses(a, 200, 200, 200, 409, 201, 400, 400, 400)
	many := make([]object, 1001)
	for i := range many {
		many[i] = object{"op": "release", "key": fmt.Sprintf("k-%d", i), "token": 1}
	}
	s.refused("batch", "POST", "/v1/batch", object{"operations": many}, 400, "invalid_request")
	s.statuses(s.ok("batch", "POST", "/v1/batch", object{"operations": many[1:]}, 200), slices.Repeat([]int{200}, 1000)...)
}

// statuses wants these, in this order, of a batch's results.
func (s *surface) statuses(a answer, want ...int) {
	s.t.Helper()
	var batch struct{ Results []struct{ Status int } }
	if err := json.Unmarshal(a.body, &batch); err != nil || len(batch.Results) != len(want) {
		s.t.Errorf("%d results, expected %d: %s", len(batch.Results), len(want), a)
		return
	}
	for i, r := range batch.Results {
		if r.Status != want[i] {
			s.t.Errorf("result %d is %d, expected %d: %s", i, r.Status, want[i], a)
		}
	}
}

// limits runs into each of them; a holder stays free.
func (s *surface) limits() {
	s.t.Helper()
	token := s.reserve("large", nil)
	s.refused("complete", "POST", "/v1/keys/large/complete", object{"token": token, "response": object{"status": 200, "body": strings.Repeat("x", 64<<10+1)}}, 413, "response_too_large")
	s.refused("complete", "POST", "/v1/keys/large/complete", object{"token": token, "response": object{"status": 200, "body": strings.Repeat("x", 200<<10)}}, 413, "response_too_large")
	s.refused("reserve", "POST", "/v1/keys/large/reserve", object{"fingerprint": "f", "owner": strings.Repeat("x", 64<<10)}, 413, "request_too_large")
	n := s.nodes[1]
	as := func(key, verb string, body object) answer {
		return n.as("POST", n.api+"/v1/keys/"+key+"/"+verb, body, "Onced-Tenant", "busy")
	}
	held := as("held", "reserve", object{"fingerprint": "f"}).record().Token
	fill := func(count int) answer {
		var operations []object
		for i := range count {
			operations = append(operations, object{"op": "reserve", "key": fmt.Sprintf("fill-%d", i), "fingerprint": "f"})
		}
		return n.as("POST", n.api+"/v1/batch", object{"operations": operations}, "Onced-Tenant", "busy")
	}
	if a := fill(80); strings.Count(string(a.body), `"status":201`) != 59 || strings.Count(string(a.body), `"quota_exceeded"`) != 21 {
		s.t.Errorf("80 reserves with room for 59: %s", a)
	}
	s.problem(as("one-more", "reserve", object{"fingerprint": "f"}), "quota_exceeded")
	fill(120)
	s.problem(as("one-more", "reserve", object{"fingerprint": "f"}), "rate_limited")
	if a := as("held", "renew", object{"token": held}); a.status != 200 {
		s.t.Errorf("a renew over both limits: %s", a)
	}
	if a := as("held", "complete", object{"token": held, "response": object{"status": 200}}); a.status != 200 {
		s.t.Errorf("a complete over both limits: %s", a)
	}
}

// node is what is of the node and the cluster rather than of a key. Its last call makes the cluster smaller.
func (s *surface) node() {
	s.t.Helper()
	for range s.nodes {
		s.ok("healthz", "GET", "/healthz", nil, 200)
		s.ok("readyz", "GET", "/readyz", nil, 200)
		s.ok("cluster", "GET", "/v1/cluster", nil, 200, `"cluster_id"`, `"node_id"`, `"role"`, `"leader"`, `"term"`, `"voter":true`, `"commit_index"`, `"applied_index"`, `"last_snapshot_index"`)
		s.ok("metrics", "GET", "/metrics", nil, 200, "onced_executed_total", "onced_replayed_total", "onced_in_progress_total", "onced_conflicts_total", "onced_unknown_total")
		s.ok("problems", "GET", "/problems/", nil, 200, "idempotency_conflict", "response_not_kept")
		s.ok("backup", "GET", "/v1/backup", nil, 200)
	}
	leader := s.leader()
	other := s.others(leader)[0]
	s.ok("member_add", "POST", "/v1/cluster/members", object{"id": other.id, "address": other.peer}, 200, other.peer)
	s.refused("member_add", "POST", "/v1/cluster/members", object{"id": "n 9", "address": "127.0.0.1:1"}, 400, "invalid_request")
	s.refused("member_add", "POST", "/v1/cluster/members", object{"id": "n9", "address": other.peer}, 409, "invalid_request")
	s.refused("member_remove", "DELETE", "/v1/cluster/members/n9", nil, 404, "invalid_request")
	s.nodes = s.others(other)
	from := other.size()
	s.ok("member_remove", "DELETE", "/v1/cluster/members/"+other.id+"?reason=retired", nil, 204)
	other.gone(from)
	s.reserve("after", nil)
}
