package completion

import (
	"os/exec"
	"strings"
	"testing"
)

// odd has help that every shell would take for something of its own.
var odd = Command{Name: "tool", Commands: []Command{
	{Name: "go", Help: `it's $HOME "[a]": 100% \ done`, Flags: []Flag{{Name: "file", Value: true, Files: true, Help: "[x]: `y` 'z'"}, {Name: "kind", Value: true, Choices: []string{"a", "b"}}}},
	{Name: "stop", Args: []Arg{{Name: "which", Choices: []string{"one", "two"}}}},
}}

func TestQuoting(t *testing.T) {
	for _, shell := range Shells {
		t.Run(shell, func(t *testing.T) {
			var b strings.Builder
			if err := Write(&b, shell, odd); err != nil {
				t.Fatal(err)
			}
			if _, err := exec.LookPath(shell); err != nil {
				t.Skip(err)
			}
			cmd := exec.Command(shell, "-n")
			cmd.Stdin = strings.NewReader(b.String())
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func TestUnknownShell(t *testing.T) {
	if err := Write(nil, "csh", odd); err == nil || !strings.Contains(err.Error(), "bash, zsh, fish") {
		t.Error(err)
	}
}
