package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDemo runs the demo small: no key is charged twice with onced, all repeated
// ones are without.
func TestDemo(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"calm", nil, "keys charged twice"},
		{"leader killed", []string{"--kill", "--charge", "10ms"}, "Killed: n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"demo", "--keys", "200", "--repeats", "100", "--concurrency", "16"}, c.args...)
			stdout, stderr, code := invoke(t, nil, args...)
			if code != exitDone {
				t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
			}
			for _, want := range []string{c.want, "With onced no key was charged twice and no stored answer was lost; without it 100 keys were"} {
				if !strings.Contains(stdout, want) {
					t.Errorf("no %q in\n%s", want, stdout)
				}
			}
			if !regexp.MustCompile(`keys charged twice +0 +100\n`).MatchString(stdout) {
				t.Errorf("the table counts otherwise:\n%s", stdout)
			}
			if strings.ContainsAny(stderr, "\r") || !strings.Contains(stderr, "with onced: 300 of 300 requests") {
				t.Errorf("progress %q", stderr)
			}
		})
	}
}

// TestKeptDemoEndsClean keeps the cluster, talks to it as its output says, and ends it by
// Ctrl-C: the nodes are gone and so is the run directory.
func TestKeptDemoEndsClean(t *testing.T) {
	cmd := exec.Command(binary, "demo", "--keep", "--keys", "5", "--repeats", "2", "--charge", "1ms")
	cmd.Env = append(plainEnv(), "TMPDIR="+t.TempDir())
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer killer.Stop()
	var api, dir string
	for lines := bufio.NewScanner(stdout); dir == "" && lines.Scan(); {
		if _, nodes, ok := strings.Cut(lines.Text(), "onced status --nodes "); ok {
			api, _, _ = strings.Cut(nodes, ",")
			if _, stderr, code := invoke(t, nil, "status", "--nodes", nodes); code != exitDone {
				t.Errorf("status: exit code %d, %s", code, stderr)
			}
		}
		if _, rest, ok := strings.Cut(lines.Text(), "of the nodes are in "); ok {
			dir = strings.TrimSuffix(rest, ".")
		}
	}
	if _, err := os.Stat(dir); api == "" || err != nil {
		t.Fatalf("the demo does not say where its nodes are: api %q, %v", api, err)
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if _, err := http.Get(api + "/healthz"); err == nil {
		t.Error("a node still runs")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the run directory is still there: %v", err)
	}
}

// TestInterruptedDemo ends the demo in the middle: exit code 1, and nothing left behind.
func TestInterruptedDemo(t *testing.T) {
	temp := t.TempDir()
	cmd := exec.Command(binary, "demo", "--charge", "1s", "--concurrency", "2")
	cmd.Env = append(plainEnv(), "TMPDIR="+temp)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer killer.Stop()
	last := ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); last = lines.Text() {
		if strings.HasPrefix(lines.Text(), "ready after") {
			cmd.Process.Signal(os.Interrupt)
		}
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(last, "interrupted") {
		t.Errorf("exit code %d, last line %q", code, last)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
