//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"onced/internal/process"
)

// patience is how long anything that must come may take on a machine under load.
const patience = 40 * time.Second

// node is one node of a cluster, which may die and come back.
type node struct {
	t               *testing.T
	id              string
	api, gate, peer string   // HOST:PORT
	data, log       string   // paths
	level           string   // of the log
	logStore        string   // bolt or wal
	settings        []string // lines of its file beside those of every node
	replace         string   // the one of those that settings replace
	env             []string // NAME=value

	mu      sync.Mutex
	process *process.Process // nil before its first start
}

// newNode lays out a node in dir, without starting it.
func newNode(t *testing.T, dir, id string) *node {
	return &node{
		t: t, id: id, api: holdPort(t), gate: holdPort(t), peer: holdPort(t),
		level: "info", data: filepath.Join(dir, id), log: filepath.Join(dir, id+".log"), logStore: logStoreOf(id),
	}
}

// logStoreOf gives every cluster nodes of both kinds, unless the environment says otherwise.
func logStoreOf(id string) string {
	if kind := os.Getenv("ONCED_E2E_LOG_STORE"); kind != "" {
		return kind
	}
	if id[len(id)-1]%2 == 0 {
		return "bolt"
	}
	return "wal"
}

// start starts the process, whose settings are written anew.
func (n *node) start(peers string) {
	n.t.Helper()
	file := filepath.Join(filepath.Dir(n.log), n.id+".yaml")
	if err := os.WriteFile(file, []byte(n.file(peers)), 0o600); err != nil {
		n.t.Fatal(err)
	}
	p, err := process.Start(process.Options{Binary: binary, Args: []string{"serve", "--config", file}, Env: n.env, Log: n.log})
	if err != nil {
		n.t.Fatalf("starting %s: %v", n.id, err)
	}
	n.mu.Lock()
	n.process = p
	n.mu.Unlock()
}

func (n *node) file(peers string) string {
	lines := []string{
		"node_id: " + n.id, fmt.Sprintf("data_dir: %q", n.data), "http_addr: " + n.api,
		"cluster_addr: " + n.peer, "no_auth: true", "log_level: " + n.level, "log_store: " + n.logStore,
	}
	if peers != "" {
		lines = append(lines, "peers: "+peers)
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return n.replace != "" && strings.HasPrefix(line, n.replace+":") })
	return strings.Join(append(lines, n.settings...), "\n") + "\n"
}

func (n *node) running() *process.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// kill is a SIGKILL; it returns when the process is gone.
func (n *node) kill() {
	if p := n.running(); p != nil {
		p.Signal(syscall.SIGCONT) // not needed to die, but harmless
		p.Kill()
	}
}

// signal sends s to a process that must be there.
func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.running().Signal(s); err != nil {
		n.t.Errorf("%s to %s: %v", s, n.id, err)
	}
}

// freeze is a SIGSTOP; it returns when every thread has stopped.
func (n *node) freeze() {
	n.t.Helper()
	n.signal(syscall.SIGSTOP)
	eventually(n.t, n.id+" is stopped", func() error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", n.running().Pid()))
		if err != nil || len(threads) == 0 {
			return fmt.Errorf("it has no threads: %w", err)
		}
		for _, thread := range threads {
			raw, err := os.ReadFile(thread)
			if err != nil {
				return err
			}
			_, state, _ := strings.Cut(string(raw), ") ") // after the name, which is in brackets
			if !strings.HasPrefix(state, "T") {
				return fmt.Errorf("a thread is still in state %.1s", state)
			}
		}
		return nil
	})
}

// thaw is a SIGCONT.
func (n *node) thaw() { n.t.Helper(); n.signal(syscall.SIGCONT) }

// exit waits for the end and returns the exit code, -1 for a death by signal.
func (n *node) exit() int {
	n.t.Helper()
	select {
	case <-n.running().Done():
		return n.running().ExitCode()
	case <-time.After(patience):
		n.t.Fatalf("%s does not end", n.id)
		return 0
	}
}

// stop is a SIGTERM; the node must end with exit code 0.
func (n *node) stop() {
	n.t.Helper()
	n.signal(syscall.SIGTERM)
	if code := n.exit(); code != 0 {
		n.t.Errorf("%s ends with exit code %d after SIGTERM", n.id, code)
	}
}

// size is how long the log is now: what comes later is what logged looks at.
func (n *node) size() int {
	info, err := os.Stat(n.log)
	if err != nil {
		return 0
	}
	return int(info.Size())
}

// logged returns the lines of the log from byte on that hold text.
func (n *node) logged(from int, text string) (lines []string) {
	raw, _ := os.ReadFile(n.log)
	for line := range bytes.Lines(raw[min(from, len(raw)):]) {
		if bytes.Contains(line, []byte(text)) {
			lines = append(lines, strings.TrimSpace(string(line)))
		}
	}
	return lines
}

// waitLog returns the first line of the log from byte on that holds text, once it is there.
func (n *node) waitLog(from int, text string) (line string) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("the log of %s has %q", n.id, text), func() error {
		lines := n.logged(from, text)
		if len(lines) == 0 {
			return fmt.Errorf("it ends with:\n%s", process.Tail(n.log, 5))
		}
		line = lines[0]
		return nil
	})
	return line
}

// eventually polls until ok gives nil.
func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	if err := within(patience, ok); err != nil {
		t.Fatalf("%s: not within %s: %v", what, patience, err)
	}
}

// within polls until ok gives nil, and returns its last error when that takes longer than d.
func within(d time.Duration, ok func() error) (err error) {
	for end := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		if err = ok(); err == nil || time.Now().After(end) {
			return err
		}
	}
}
