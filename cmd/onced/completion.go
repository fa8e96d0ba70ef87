package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"onced/internal/completion"
)

type completionCommand struct {
	Shell shellName `arg:"" help:"bash, zsh or fish."`
}

// shellName is one of completion.Shells.
type shellName string

func (*shellName) choices() []string { return completion.Shells }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *shellName) UnmarshalText(text []byte) error {
	*s = shellName(text)
	return oneOf(string(text), s.choices())
}

// Help is printed below the command's own.
func (*completionCommand) Help() string {
	return `To have it in every shell:

  bash   onced completion bash > /etc/bash_completion.d/onced
  zsh    onced completion zsh > "${fpath[1]}/_onced"
  fish   onced completion fish > ~/.config/fish/completions/onced.fish`
}

// Run prints the script of a shell.
func (c *completionCommand) Run(a *app, parsed *kong.Context) error {
	return completion.Write(a.stdout, string(c.Shell), completable(parsed.Model.Node))
}

// chooser is a value that is one of a few.
type chooser interface{ choices() []string }

// completable is what a shell needs to know of a command.
func completable(n *kong.Node) completion.Command {
	c := completion.Command{Name: n.Name, Help: n.Help}
	for _, flags := range n.AllFlags(true) {
		for _, f := range flags {
			c.Flags = append(c.Flags, completion.Flag{
				Name: f.Name, Short: f.Short, Help: f.Help, Value: !f.IsBool(),
				Choices: choicesOf(f.Value), Files: isFile(f.PlaceHolder),
			})
		}
	}
	for _, p := range n.Positional {
		c.Args = append(c.Args, completion.Arg{Name: p.Name, Choices: choicesOf(p), Files: isFile(p.Name)})
	}
	for _, child := range n.Children {
		if !child.Hidden {
			c.Commands = append(c.Commands, completable(child))
		}
	}
	return c
}

// choicesOf returns the values that v takes, nil for any.
func choicesOf(v *kong.Value) []string {
	if v.Enum != "" {
		return strings.Split(v.Enum, ",")
	}
	if v.Target.CanAddr() {
		if c, ok := v.Target.Addr().Interface().(chooser); ok {
			return c.choices()
		}
	}
	return nil
}

// isFile tells by its name whether a value is a file's or a directory's.
func isFile(name string) bool {
	switch strings.ToLower(name) {
	case "file", "dir", "path":
		return true
	}
	return false
}
