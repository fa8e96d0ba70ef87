package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"onced/internal/load"
)

// TestBench loads a real cluster for a moment, in each mode.
func TestBench(t *testing.T) {
	nodes, _ := startThree(t)
	for _, mode := range load.Modes {
		stdout, stderr, code := invoke(t, []string{"ONCED_NODES=" + nodes}, "bench", "--mode", mode, "--duration", "500ms", "--concurrency", "8", "--output", "json")
		var r load.Result
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitDone || r.Wrong != 0 || r.Nodes != 3 {
			t.Fatalf("%s: exit code %d, %v, %s%s", mode, code, err, stdout, stderr)
		}
		if (r.Pairs != nil) == (mode == "replays") || (r.Replays != nil) == (mode == "pairs") {
			t.Errorf("%s: %s", mode, stdout)
		}
	}
	stdout, _, code := invoke(t, []string{"ONCED_NODES=" + nodes}, "bench", "--duration", "300ms", "--concurrency", "2")
	if code != exitDone || !strings.Contains(stdout, "2 callers on 3 nodes") || !strings.Contains(stdout, "per second") || !strings.Contains(stdout, "no errors") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	wantFields(t, ask(t, nodes, "keys", "list", "--state", "in_progress"), "no record matches")
	wantFields(t, ask(t, nodes, "keys", "list", "--state", "unknown"), "no record matches")
}

// TestBenchNobody ends at once where nobody answers.
func TestBenchNobody(t *testing.T) {
	stdout, stderr, code := invoke(t, nil, "bench", "--nodes", "http://"+freeAddr(t))
	if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestBenchInterrupted prints what it has.
func TestBenchInterrupted(t *testing.T) {
	r := startServe(t, nil)
	cmd := exec.Command(binary, "bench", "--nodes", r.api, "--duration", "1m", "--concurrency", "4")
	cmd.Env = plainEnv()
	var out, complaints strings.Builder
	cmd.Stdout = &out
	told := &signalWhenTold{w: &complaints, told: make(chan struct{})}
	cmd.Stderr = told
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-told.told
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its exit code is judged below
	if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(out.String(), "per second") || !strings.Contains(complaints.String(), "onced: interrupted after ") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), complaints.String())
	}
}

// signalWhenTold closes told at the first write.
type signalWhenTold struct {
	w    *strings.Builder
	told chan struct{}
	once bool
}

func (s *signalWhenTold) Write(b []byte) (int, error) {
	if !s.once {
		s.once = true
		close(s.told)
	}
	return s.w.Write(b)
}
