package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// startThree starts a cluster of three and returns its --nodes, and its nodes.
func startThree(t *testing.T) (string, []*running) {
	t.Helper()
	var addresses, peers []string
	for i := range 3 {
		addresses = append(addresses, freeAddr(t))
		peers = append(peers, fmt.Sprintf("n%d=%s", i+1, addresses[i]))
	}
	nodes := make([]*running, 3)
	var starting sync.WaitGroup
	for i := range nodes {
		starting.Go(func() {
			nodes[i] = startServe(t, []string{"ONCED_CLUSTER_ADDR=" + addresses[i]}, "--node-id", fmt.Sprintf("n%d", i+1), "--peers", strings.Join(peers, ","))
		})
	}
	starting.Wait()
	var urls []string
	for _, n := range nodes {
		if n == nil {
			t.Fatal("a node did not start")
		}
		urls = append(urls, n.api)
	}
	return strings.Join(urls, ","), nodes
}

// call sends one call of the API, for the tenant default.
func call(t *testing.T, api, key, verb, body string, answer any) {
	t.Helper()
	response, err := http.Post(api+"/v1/keys/"+url.PathEscape(key)+"/"+verb, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Errorf("%s %s: %d %s %v", verb, key, response.StatusCode, raw, err)
		return
	}
	if answer != nil {
		if err := json.Unmarshal(raw, answer); err != nil {
			t.Error(err)
		}
	}
}

// hold reserves key and returns its token.
func hold(t *testing.T, api, key string) (token uint64) {
	t.Helper()
	var reserved struct{ Token uint64 }
	call(t, api, key, "reserve", `{"fingerprint":"f"}`, &reserved)
	return reserved.Token
}

func complete(t *testing.T, api, key, body string) {
	t.Helper()
	token := hold(t, api, key)
	call(t, api, key, "complete", fmt.Sprintf(`{"token":%d,"response":{"status":201,"headers":[["Content-Type","text/plain"]],"body":%q}}`, token, body), nil)
}

func unknown(t *testing.T, api, key string) {
	t.Helper()
	call(t, api, key, "complete", fmt.Sprintf(`{"token":%d,"outcome":"unknown"}`, hold(t, api, key)), nil)
}

// record is what a test looks at of a record's JSON.
type record struct {
	Key, Scope, State string
	Token             uint64
	Response          *struct {
		Status  int
		Headers [][]string
		Body    string
	}
}

// ask runs a command that must end well, and returns its output.
func ask(t *testing.T, nodes string, args ...string) string {
	t.Helper()
	stdout, stderr, code := invoke(t, []string{"ONCED_NODES=" + nodes}, args...)
	if code != exitDone || stderr != "" {
		t.Fatalf("%v: exit code %d, %s", args, code, stderr)
	}
	return stdout
}

// wantFields wants each line of text to be a line of got, however many spaces stand between.
func wantFields(t *testing.T, got, text string) {
	t.Helper()
	squeeze := func(line string) string { return strings.Join(strings.Fields(line), " ") }
	var lines []string
	for line := range strings.SplitSeq(got, "\n") {
		lines = append(lines, squeeze(line))
	}
	for line := range strings.SplitSeq(text, "\n") {
		if want := squeeze(line); want != "" && !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
}

// TestKeys goes through an operator's day on one node, and on three of which one does not answer.
func TestKeys(t *testing.T) {
	one := startServe(t, nil)
	three, nodes := startThree(t)
	for name, c := range map[string]struct{ api, nodes string }{
		"one node": {one.api, one.api},
		"three":    {nodes[1].api, "http://" + freeAddr(t) + "," + three},
	} {
		t.Run(name, func(t *testing.T) { operate(t, c.api, c.nodes) })
	}
}

func operate(t *testing.T, api, nodes string) {
	complete(t, api, "order/1 a", "charge ch_1\n")
	unknown(t, api, "order-2")
	unknown(t, api, "order-3")
	held := hold(t, api, "order-4")

	got := ask(t, nodes, "keys", "get", "order/1 a")
	wantFields(t, got, "key order/1 a\ntenant default\nstate completed\nattempt 1\nfingerprint f\nresponse status 201, body of 12 bytes\nContent-Type: text/plain\ncharge ch_1")
	if strings.Contains(got, "lease") || !strings.Contains(got, "(in 23h59m)") {
		t.Errorf("times in\n%s", got)
	}
	var rec record
	if err := json.Unmarshal([]byte(ask(t, nodes, "keys", "get", "--stale", "--output", "json", "order-2")), &rec); err != nil || rec.State != "unknown" || rec.Key != "order-2" {
		t.Errorf("%+v, %v", rec, err)
	}

	got = ask(t, nodes, "keys", "list")
	wantFields(t, got, "SCOPE KEY STATE ATTEMPT AGE DUE\n- order-2 unknown 1\n- order-4 in_progress 1\n- order/1 a completed 1\n4 records")
	if !strings.Contains(got, "never, until it is settled") || !strings.Contains(got, "lease ends in 2") || !strings.Contains(got, "expires in 23h59m") {
		t.Errorf("what is due in\n%s", got)
	}
	wantFields(t, ask(t, nodes, "keys", "list", "--state", "unknown", "--prefix", "order-3"), "- order-3 unknown\n1 record")
	wantFields(t, ask(t, nodes, "keys", "list", "--prefix", "none"), "no record matches")
	wantFields(t, ask(t, nodes, "keys", "list", "--tenant", "other"), "no records")
	wantFields(t, ask(t, nodes, "keys", "list", "--scope=POST /x"), "no record matches")
	wantFields(t, ask(t, nodes, "keys", "list", "--limit", "1"), "1 record; there are more: --all, or --cursor ")

	response := filepath.Join(t.TempDir(), "response.json")
	if err := os.WriteFile(response, []byte(`{"status":200,"headers":[["A","b"]],"body":"found"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFields(t, ask(t, nodes, "keys", "resolve", "--outcome", "completed", "--reason", "seen at the provider", "--response", response, "order-2"), "state completed")
	wantFields(t, ask(t, nodes, "keys", "get", "order-2"), "state completed\nresponse status 200, body of 5 bytes\nA: b\nfound")
	got = ask(t, nodes, "keys", "resolve", "--outcome", "released", "--reason", "never arrived", "--output", "json", "order-3")
	if err := json.Unmarshal([]byte(got), &rec); err != nil || rec.State != "absent" {
		t.Errorf("%s, %v", got, err)
	}

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "order-3"}, "key_not_found: "},
		{[]string{"forget", "order-4"}, "request_in_progress: "},
		{[]string{"resolve", "--outcome", "released", "--reason", "r", "order-4"}, "request_in_progress: "},
		{[]string{"resolve", "--outcome", "completed", "--status", "200", "--reason", "r", "order/1 a"}, "already_completed: "},
		{[]string{"list", "--cursor", "?"}, "invalid_request: "},
	} {
		stdout, stderr, code := invoke(t, []string{"ONCED_NODES=" + nodes}, append([]string{"keys"}, c.args...)...)
		if code != exitFailed || stdout != "" || !strings.HasPrefix(stderr, "onced: "+c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}

	ask(t, nodes, "keys", "resolve", "--outcome", "completed", "--status", "201", "--header", "X-A: a, b", "--header", "X-B:c:d", "--body", "by hand", "--reason", "r", "--force", "order-4")
	if err := json.Unmarshal([]byte(ask(t, nodes, "keys", "get", "--output", "json", "order-4")), &rec); err != nil || rec.Token != held ||
		fmt.Sprint(*rec.Response) != "{201 [[X-A a, b] [X-B c:d]] by hand}" {
		t.Errorf("%+v, %v", rec, err)
	}
	wantFields(t, ask(t, nodes, "keys", "forget", "--reason", "asked for", "order-4"), "key order-4\nstate absent")
	hold(t, api, "order-4") // unused again
}

// TestKeysNobody: no node answers.
func TestKeysNobody(t *testing.T) {
	nobody := "http://" + freeAddr(t) + ",http://" + freeAddr(t)
	begun := time.Now()
	for _, args := range [][]string{{"get", "k"}, {"list"}, {"forget", "k"}, {"resolve", "--outcome", "released", "--reason", "r", "k"}} {
		stdout, stderr, code := invoke(t, []string{"ONCED_NODES=" + nobody}, append([]string{"keys"}, args...)...)
		if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Count(stderr, "http://") != 2 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestKeysPaged lists 250 keys in small pages while others come and go: each of the 250 is there once.
func TestKeysPaged(t *testing.T) {
	nodes, running := startThree(t)
	var writing sync.WaitGroup
	for w := range 10 {
		writing.Go(func() {
			for i := range 25 {
				complete(t, running[w%3].api, fmt.Sprintf("stays-%03d", w*25+i), "x")
			}
		})
	}
	writing.Wait()
	stop := make(chan struct{})
	for w := range 3 {
		writing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// Names that fall before, between and after those that stay.
				key := fmt.Sprintf("%s-%d-%d", []string{"goes", "stays-100", "zeta"}[i%3], w, i)
				token := hold(t, running[w].api, key)
				call(t, running[w].api, key, "release", fmt.Sprintf(`{"token":%d}`, token), nil)
			}
		})
	}
	for round := range 5 {
		for format, read := range map[string]func(string) []string{"json": keysOfJSON, "table": keysOfTable} {
			keys := read(ask(t, nodes, "keys", "list", "--all", "--limit", "20", "--output", format))
			seen := map[string]int{}
			for _, key := range keys {
				seen[key]++
			}
			for i := range 250 {
				if key := fmt.Sprintf("stays-%03d", i); seen[key] != 1 {
					t.Errorf("round %d, %s: %s appears %d times", round, format, key, seen[key])
				}
			}
			if !slices.IsSorted(keys) {
				t.Errorf("round %d, %s: out of order", round, format)
			}
		}
	}
	close(stop)
	writing.Wait()
}

func keysOfJSON(out string) (keys []string) {
	var list struct {
		Records    []record
		NextCursor *string `json:"next_cursor"`
	}
	if json.Unmarshal([]byte(out), &list) != nil || list.NextCursor == nil || *list.NextCursor != "" {
		return nil
	}
	for _, rec := range list.Records {
		keys = append(keys, rec.Key)
	}
	return keys
}

func keysOfTable(out string) (keys []string) {
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[0] == "-" {
			keys = append(keys, fields[1])
		}
	}
	return keys
}

// TestKeysPageByPage follows the cursor by hand.
func TestKeysPageByPage(t *testing.T) {
	r := startServe(t, nil)
	for i := range 5 {
		complete(t, r.api, fmt.Sprintf("k%d", i), "x")
	}
	var keys []string
	for cursor, pages := "", 0; ; pages++ {
		var list struct {
			Records    []record
			NextCursor string `json:"next_cursor"`
		}
		args := []string{"keys", "list", "--limit", "2", "--output", "json"}
		if cursor != "" {
			args = append(args, "--cursor", cursor)
		}
		if err := json.Unmarshal([]byte(ask(t, r.api, args...)), &list); err != nil || len(list.Records) > 2 || pages > 3 {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, rec := range list.Records {
			keys = append(keys, rec.Key)
		}
		if cursor = list.NextCursor; cursor == "" {
			break
		}
	}
	if strings.Join(keys, " ") != "k0 k1 k2 k3 k4" {
		t.Error(keys)
	}
}
