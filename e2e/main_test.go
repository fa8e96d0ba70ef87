//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	binary string // the command under test
	root   string // of every test's directory
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	var err error
	if root, err = os.MkdirTemp("", "onced-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.Remove(root) // it stays when a failed test has left something
	binary = filepath.Join(root, "onced")
	defer os.Remove(binary)
	args := []string{"build", "-tags", "faults", "-o", binary}
	if os.Getenv("ONCED_E2E_RACE") != "" {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "onced/cmd/onced")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the command: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// scratch returns a directory that goes when the test has passed and stays when it has failed.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(root, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("its directories stay in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// rounds is full, or few with -short.
func rounds(full, few int) int {
	if testing.Short() {
		return few
	}
	return full
}
