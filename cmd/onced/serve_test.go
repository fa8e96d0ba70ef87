package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"onced"
)

// TestPrecedence says one setting three times, and another twice.
func TestPrecedence(t *testing.T) {
	file := writeFile(t, "node_id: of-file\nlog_format: json\nlog_level: warn\nhttp_addr: 127.0.0.1:1\n")
	r := startServe(t, []string{"ONCED_LOG_LEVEL=info"}, "--config", file, "--node-id", "of-flag")
	r.mu.Lock()
	defer r.mu.Unlock()
	var line struct{ Msg, Node, API string }
	for _, text := range r.lines {
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("the file's log_format is not in force: %s", text)
		}
		if line.Msg == "serving" {
			break
		}
	}
	if line.Node != "of-flag" {
		t.Errorf("node_id is %s, want the flag's", line.Node)
	}
	if line.Msg != "serving" || line.API == "http://127.0.0.1:1" {
		t.Errorf("the environment does not win over the file: %+v", line)
	}
}

func TestStatus(t *testing.T) {
	r := startServe(t, nil)
	nobody := "http://" + freeAddr(t)
	stdout, stderr, code := invoke(t, nil, "status", "--nodes", nobody+","+r.api)
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for _, want := range []string{"leader n1", "NODE", "LAG", "n1    leader", "no answer: ", nobody} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	stdout, _, code = invoke(t, []string{"ONCED_NODES=" + r.api}, "status", "--output", "json")
	var s onced.ClusterStatus
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || code != exitDone || s.NodeID != "n1" || s.Leader != "n1" || len(s.Members) != 1 {
		t.Errorf("exit code %d, %v, %s", code, err, stdout)
	}
	stdout, stderr, code = invoke(t, nil, "status", "--nodes", nobody)
	if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no node tells how the cluster is") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// upstream counts its requests and answers once it is allowed to.
type upstream struct {
	*httptest.Server
	hits    atomic.Int64
	arrived chan struct{}
	release chan struct{}
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{arrived: make(chan struct{}, 100), release: make(chan struct{})}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.hits.Add(1)
		u.arrived <- struct{}{}
		<-u.release
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "charged")
	}))
	t.Cleanup(u.Close)
	return u
}

// routes is a configuration with one protected route.
func routes(upstream, match string) string {
	return "gateway:\n  addr: 127.0.0.1:0\n  upstream: " + upstream + "\n  tenant: header:X-Account\n  routes:\n    - match: " + match + "\n"
}

func post(t *testing.T, url, key string) (status int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Account", "acme")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0, "", nil
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(raw), response.Header
}

func TestGatewayIsServed(t *testing.T) {
	u := newUpstream(t)
	close(u.release)
	r := startServe(t, nil, "--config", writeFile(t, routes(u.URL, "POST /charge")))
	for i, replayed := range []string{"false", "true"} {
		status, body, header := post(t, r.gate+"/charge", "k-1")
		if status != 201 || body != "charged" || header.Get("Idempotency-Replayed") != replayed {
			t.Errorf("request %d: %d %q, replayed %q", i, status, body, header.Get("Idempotency-Replayed"))
		}
	}
	if u.hits.Load() != 1 {
		t.Errorf("the upstream saw %d requests", u.hits.Load())
	}
}

// TestStopDrains sends SIGTERM while an operation runs: it ends, its client gets the
// answer, new ones are refused meanwhile, and the exit code is 0.
func TestStopDrains(t *testing.T) {
	u := newUpstream(t)
	r := startServe(t, nil, "--config", writeFile(t, routes(u.URL, "POST /charge")))
	answered := make(chan int, 1)
	go func() {
		status, _, _ := post(t, r.gate+"/charge", "k-1")
		answered <- status
	}()
	<-u.arrived
	r.signal(t, syscall.SIGTERM)
	r.waitLine(t, "msg=stopping")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		response, err := http.Get(r.api + "/readyz")
		if err != nil {
			break
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is still ready")
		}
	}
	close(u.release)
	if status := <-answered; status != http.StatusCreated {
		t.Errorf("the operation under way got %d", status)
	}
	if code := r.exit(t); code != exitDone {
		t.Errorf("exit code %d:\n%s", code, strings.Join(r.lines, "\n"))
	}
}

// TestDrainTimeout holds an operation for longer than the drain lasts: the process
// ends all the same, and says that something was cut.
func TestDrainTimeout(t *testing.T) {
	u := newUpstream(t)
	defer close(u.release)
	r := startServe(t, nil, "--drain-timeout", "200ms", "--config", writeFile(t, routes(u.URL, "POST /charge")))
	go http.Post(r.gate+"/charge", "application/json", nil) // unprotected by a key: refused
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		request, _ := http.NewRequest(http.MethodPost, r.gate+"/charge", strings.NewReader("{}"))
		request.Header.Set("Idempotency-Key", "k-1")
		request.Header.Set("X-Account", "acme")
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
		}
	}()
	<-u.arrived
	r.signal(t, syscall.SIGTERM)
	if code := r.exit(t); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	<-hung
}

// TestSecondSignal ends the process at once, whatever is under way.
func TestSecondSignal(t *testing.T) {
	u := newUpstream(t)
	defer close(u.release)
	r := startServe(t, nil, "--config", writeFile(t, routes(u.URL, "POST /charge")))
	go func() {
		request, _ := http.NewRequest(http.MethodPost, r.gate+"/charge", strings.NewReader("{}"))
		request.Header.Set("Idempotency-Key", "k-1")
		request.Header.Set("X-Account", "acme")
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
		}
	}()
	<-u.arrived
	r.signal(t, syscall.SIGTERM)
	r.waitLine(t, "msg=stopping")
	r.signal(t, syscall.SIGTERM)
	if code := r.exit(t); code != -1 {
		t.Errorf("exit code %d, want a death by the signal", code)
	}
}

// TestHangupDuringStart sends SIGHUP to a node that is still reading its tokens: the start goes on, and they are read anew after it.
func TestHangupDuringStart(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := syscall.Mkfifo(tokens, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(told func()) {
		t.Helper()
		pipe, err := os.OpenFile(tokens, os.O_WRONLY, 0) // waits until the node opens it
		if err != nil {
			t.Fatal(err)
		}
		told()
		pipe.Close() // an empty file: nobody has a token
	}
	r := launch(t, []string{"ONCED_HTTP_ADDR=127.0.0.1:0", "ONCED_CLUSTER_ADDR=" + freeAddr(t)},
		"serve", "--data-dir", t.TempDir(), "--node-id", "n1", "--tokens-file", tokens)
	read(func() { r.signal(t, syscall.SIGHUP) })
	r.waitServing(t)
	read(func() {})
	r.waitLine(t, "reload: the tokens are in force")
}

// TestNobodyReadsTheLog goes on without a log, and ends in order.
func TestNobodyReadsTheLog(t *testing.T) {
	u := newUpstream(t)
	for name, args := range map[string][]string{
		"node":    {"serve", "--data-dir", t.TempDir(), "--node-id", "n1", "--no-auth", "--cluster-addr", freeAddr(t)},
		"gateway": {"gateway", "--config", writeFile(t, routes(u.URL, "POST /charge"))},
	} {
		t.Run(name, func(t *testing.T) {
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(binary, append(args, "--http-addr", "127.0.0.1:0")...)
			cmd.Env, cmd.Stderr = plainEnv(), in
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			in.Close()
			t.Cleanup(func() { cmd.Process.Kill() })
			for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), "msg=serving"); {
			}
			out.Close()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil { // to which it says "stopping"
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ended with %v, want an end in order", err)
			}
		})
	}
}

// TestReload changes the routes, breaks them, and changes what only a restart can.
func TestReload(t *testing.T) {
	u := newUpstream(t)
	close(u.release)
	file := writeFile(t, routes(u.URL, "POST /charge"))
	r := startServe(t, nil, "--config", file)
	change := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r.signal(t, syscall.SIGHUP)
	}
	post(t, r.gate+"/refund", "k-1")
	if _, _, header := post(t, r.gate+"/refund", "k-1"); header.Get("Idempotency-Replayed") != "" {
		t.Fatal("/refund is protected from the start")
	}
	change(strings.ReplaceAll(routes(u.URL, "POST /refund"), "match", "mtach"))
	r.waitLine(t, "the old settings stay in force")
	post(t, r.gate+"/charge", "k-2")
	if _, _, header := post(t, r.gate+"/charge", "k-2"); header.Get("Idempotency-Replayed") != "true" {
		t.Error("a broken file took the old routes away")
	}
	change("request_timeout: 5s\n" + routes(u.URL, "POST /refund"))
	r.waitLine(t, "need a restart")
	r.waitLine(t, "the routes are in force")
	post(t, r.gate+"/refund", "k-3")
	if _, _, header := post(t, r.gate+"/refund", "k-3"); header.Get("Idempotency-Replayed") != "true" {
		t.Error("the new routes are not in force")
	}
}
