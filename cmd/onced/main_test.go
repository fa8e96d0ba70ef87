package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the command under test, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "onced-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "onced")
	code := 1
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the command: %v\n%s", err, out)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// invoke runs the command to its end.
func invoke(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(plainEnv(), env...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), complaints.String(), cmd.ProcessState.ExitCode()
}

func plainEnv() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "ONCED_") {
			env = append(env, entry)
		}
	}
	return env
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "onced.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// running is an `onced serve` that has begun to serve.
type running struct {
	cmd  *exec.Cmd
	api  string // base URLs, out of its log
	gate string
	done chan struct{} // closed when it has ended

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced at each line
}

// startServe starts a node on free ports and waits until it is ready.
func startServe(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	r := beginServe(t, env, args...)
	waitReady(t, r.api)
	return r
}

// beginServe starts a node on free ports, and does not wait until it is ready.
func beginServe(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	args = append([]string{"serve", "--data-dir", t.TempDir(), "--node-id", "n1"}, args...)
	return startOnced(t, append([]string{"ONCED_HTTP_ADDR=127.0.0.1:0", "ONCED_CLUSTER_ADDR=" + freeAddr(t)}, env...), args...)
}

// startOnced starts a command that serves, and waits until it says so.
func startOnced(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	r := launch(t, env, args...)
	r.waitServing(t)
	return r
}

// launch starts a command that serves.
func launch(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	r := &running{done: make(chan struct{}), more: make(chan struct{})}
	r.cmd = exec.Command(binary, args...)
	r.cmd.Env = append(plainEnv(), env...)
	stderr, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go r.read(stderr)
	t.Cleanup(func() { r.cmd.Process.Kill(); <-r.done })
	return r
}

// waitServing waits until it says that it serves, and where.
func (r *running) waitServing(t *testing.T) {
	t.Helper()
	line := r.waitLine(t, "msg=serving", `"msg":"serving"`)
	r.api, r.gate = attribute(line, "api")+attribute(line, "health"), attribute(line, "gateway")
}

func (r *running) read(stderr io.Reader) {
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		r.mu.Lock()
		r.lines = append(r.lines, lines.Text())
		close(r.more)
		r.more = make(chan struct{})
		r.mu.Unlock()
	}
	r.cmd.Wait()
	close(r.done)
}

// waitLine returns the first line of the log that holds one of texts.
func (r *running) waitLine(t *testing.T, texts ...string) string {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		lines, more := r.lines, r.more
		r.mu.Unlock()
		for _, line := range lines {
			for _, text := range texts {
				if strings.Contains(line, text) {
					return line
				}
			}
		}
		select {
		case <-more:
		case <-r.done:
			t.Fatalf("it ended without %q:\n%s", texts, strings.Join(lines, "\n"))
		case <-late:
			t.Fatalf("no %q in:\n%s", texts, strings.Join(lines, "\n"))
		}
	}
}

// exit waits for the end and returns the exit code, -1 for a death by signal.
func (r *running) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
	return r.cmd.ProcessState.ExitCode()
}

func (r *running) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// attribute reads name=value, or "name":"value", out of a line of the log.
func attribute(line, name string) string {
	for _, form := range []string{" " + name + "=", `"` + name + `":"`} {
		if _, rest, ok := strings.Cut(line, form); ok {
			return rest[:strings.IndexAny(rest+" ", ` ",`)]
		}
	}
	return ""
}

func waitReady(t *testing.T, api string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if response, err := http.Get(api + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
	}
	t.Fatal("it is never ready")
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
