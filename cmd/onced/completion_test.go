package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script writes the script of a shell to a file, or skips where the shell is not there.
func script(t *testing.T, shell string) string {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		t.Skip(err)
	}
	stdout, stderr, code := invoke(t, nil, "completion", shell)
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	path := filepath.Join(t.TempDir(), "onced."+shell)
	if err := os.WriteFile(path, []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// completions are words typed so far, the last of them to be completed, and what must be offered.
var completions = []struct{ typed, want string }{
	{"onced k", "keys"},
	{"onced keys ", "get list resolve forget"},
	{"onced keys re", "resolve"},
	{"onced keys list --st", "--state"},
	{"onced keys list --state ", "in_progress completed unknown expired"},
	{"onced keys list --tenant keys --state u", "unknown"},
	{"onced bench --mode ", "pairs replays mixed"},
	{"onced bench --nodes list --output j", "json"},
	{"onced completion ", "bash zsh fish"},
	{"onced keys get ", ""},
	{"onced version --", "--help"},
}

func TestCompletionBash(t *testing.T) {
	path := script(t, "bash")
	for _, c := range completions {
		words := strings.Split(c.typed, " ")
		// As bash would: the words in an array, and the number of the one to complete.
		drive := `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _onced; echo "${COMPREPLY[*]}"`
		out, err := exec.Command("bash", append([]string{"-uc", drive, path}, words...)...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%q: %q, %v, want %q", c.typed, got, err, c.want)
		}
	}
	// A flag and its value may be one word, which bash splits.
	drive := `source "$0"; COMP_WORDS=(onced keys list --nodes = x --state = un); COMP_CWORD=8; _onced; echo "${COMPREPLY[*]}"`
	if out, err := exec.Command("bash", "-c", drive, path).CombinedOutput(); err != nil || string(out) != "unknown\n" {
		t.Errorf("--state=un: %q, %v", out, err)
	}
}

func TestCompletionFish(t *testing.T) {
	path := script(t, "fish")
	for _, c := range completions {
		out, err := exec.Command("fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", path, c.typed).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		offered := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			offered[word] = true
		}
		want := strings.Fields(c.want)
		for _, word := range want {
			if !offered[word] {
				t.Errorf("%q: no %q in %q", c.typed, word, out)
			}
		}
		if len(offered) != len(want) {
			t.Errorf("%q: %q, want %q", c.typed, out, c.want)
		}
	}
}

// TestCompletionZsh judges the grammar and that each command has its function: what zsh makes of
// _arguments needs a terminal.
func TestCompletionZsh(t *testing.T) {
	path := script(t, "zsh")
	if out, err := exec.Command("zsh", "-n", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	drive := `compdef() { :; }; source $1; for f in _onced _onced_keys _onced_keys_resolve _onced_serve; do functions $f >/dev/null || echo "no $f"; done`
	if out, err := exec.Command("zsh", "-f", "-c", drive, "zsh", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
