//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// said is what a command came to.
type said struct {
	stdout, stderr string
	code           int
}

// command runs a command to its end.
func command(t *testing.T, stdin io.Reader, args ...string) said {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "ONCED_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &complaints
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return said{out.String(), complaints.String(), cmd.ProcessState.ExitCode()}
}

// urls are the API addresses of nodes, as --nodes takes them.
func urls(nodes ...*node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, "http://"+n.api)
	}
	return strings.Join(all, ",")
}

// expect fails the test unless the command ended with code, and said each of texts somewhere.
func (s said) expect(t *testing.T, code int, texts ...string) said {
	t.Helper()
	if s.code != code {
		t.Errorf("exit code %d, expected %d:\n%s%s", s.code, code, s.stdout, s.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(s.stdout+s.stderr, text) {
			t.Errorf("it does not say %q:\n%s%s", text, s.stdout, s.stderr)
		}
	}
	if code != 0 && strings.Count(strings.TrimSpace(s.stderr), "\n") > 0 && !strings.Contains(s.stderr, ": 0 B of") {
		t.Logf("more than one line:\n%s", s.stderr)
	}
	return s
}
