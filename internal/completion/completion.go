// Package completion writes scripts that let a shell complete a command line.
//
// Invariants:
//
//   - A script is static: it knows all commands, flags and fixed values of the program that wrote
//     it, and never runs the program.
//   - Names are of a-z, 0-9 and -; help may be anything and is quoted for its shell.
package completion

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Command is a command with what may follow it.
type Command struct {
	Name     string
	Help     string // one line
	Commands []Command
	Flags    []Flag
	Args     []Arg
}

// Flag is a flag of a command.
type Flag struct {
	Name    string // without dashes
	Short   rune   // 0 = none
	Help    string
	Value   bool     // it takes one
	Choices []string // the values that it takes; nil = any
	Files   bool     // its value is the name of a file
}

// Arg is a positional argument.
type Arg struct {
	Name    string
	Choices []string
	Files   bool
}

// Shells are those that Write knows.
var Shells = []string{"bash", "zsh", "fish"}

// Write writes the script for shell. The name of root is the program's.
//
// Errors: w's; a shell that is not one of Shells.
func Write(w io.Writer, shell string, root Command) error {
	script := ""
	switch shell {
	case "bash":
		script = bash(root)
	case "zsh":
		script = zsh(root)
	case "fish":
		script = fish(root)
	default:
		return fmt.Errorf("%.40q is none of the shells %s", shell, strings.Join(Shells, ", "))
	}
	_, err := io.WriteString(w, script)
	return err
}

// walk calls visit for root and all below it, with the path of its names without root's own: "keys get".
func walk(root Command, visit func(path string, c Command)) { walkFrom("", root, visit) }

func walkFrom(path string, c Command, visit func(path string, c Command)) {
	visit(path, c)
	for _, sub := range c.Commands {
		walkFrom(strings.TrimSpace(path+" "+sub.Name), sub, visit)
	}
}

// valued returns the names of all flags that take a value, with their dashes.
func valued(root Command) []string {
	var names []string
	walk(root, func(_ string, c Command) {
		for _, f := range c.Flags {
			if f.Value {
				names = append(names, "--"+f.Name)
			}
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// paths returns the paths of all commands, without the root's.
func paths(root Command) []string {
	var all []string
	walk(root, func(path string, _ Command) {
		if path != "" {
			all = append(all, path)
		}
	})
	return all
}
