package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"onced/internal/config"
)

// The exit codes.
const (
	exitDone    = 0
	exitFailed  = 1
	exitRefused = 2
)

// refusal is an error found before anything was started.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

// app is what every command gets from its surroundings.
type app struct {
	ctx            context.Context
	env            map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// commands is the command line.
type commands struct {
	Serve      serveCommand      `cmd:"" help:"Run one node, and its gateway where routes are configured."`
	Gateway    gatewayCommand    `cmd:"" help:"The gateway alone, beside the application, before a remote cluster."`
	Demo       demoCommand       `cmd:"" help:"Three nodes, a payment provider that counts its charges, and a table at the end."`
	Status     statusCommand     `cmd:"" help:"The cluster at a glance."`
	Keys       keysCommand       `cmd:"" help:"An operator's view of the table: get, list, resolve, forget."`
	Bench      benchCommand      `cmd:"" help:"Load on a running cluster: pairs and replays a second, and how long they take."`
	Provider   providerCommand   `cmd:"" help:"A payment provider that counts its charges, to try things with."`
	Completion completionCommand `cmd:"" help:"A script that lets bash, zsh or fish complete the command line."`
	Token      tokenCommand      `cmd:"" help:"Make a token for the API."`
	Members    membersCommand    `cmd:"" help:"The membership of a running cluster: list, add, remove."`
	Backup     backupCommand     `cmd:"" help:"A consistent copy of a running cluster's table."`
	Restore    restoreCommand    `cmd:"" help:"The data directory of a new cluster's first node, from a backup."`
	Recover    recoverCommand    `cmd:"" help:"Last resort after a lost majority: make one node a new cluster."`
	Version    versionCommand    `cmd:"" help:"Version, commit, Go and log format."`
}

const description = `onced makes a sensitive HTTP operation happen once, however often its request is sent.

Every flag is also an environment variable: ONCED_NODE_ID for --node-id. An empty variable counts as not set.`

// run parses args and runs the command that they name. Its result is the exit code.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{ctx: ctx, env: environment(env), stdin: stdin, stdout: stdout, stderr: stderr}
	var cli commands
	helped := false
	seen := &envResolver{env: a.env, used: map[string]bool{}}
	parser, err := kong.New(&cli,
		kong.Name("onced"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }), // --help has been printed
		kong.Resolvers(seen), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return a.exit(fmt.Errorf("building the command line: %w", err))
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped:
		return exitDone
	case err != nil:
		return a.exit(refusal{seen.blame(err)})
	}
	return a.exit(parsed.Run(a, parsed))
}

// exit prints err, if there is one, on one line, and returns its exit code.
func (a *app) exit(err error) int {
	var refused refusal
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &refused):
		fmt.Fprintf(a.stderr, "onced: %s\n", strings.Join(strings.Fields(err.Error()), " "))
		return exitRefused
	}
	fmt.Fprintf(a.stderr, "onced: %v\n", err)
	return exitFailed
}

// environment turns NAME=value entries into a map. An empty value counts as not set.
func environment(entries []string) map[string]string {
	env := map[string]string{}
	for _, entry := range entries {
		if name, value, ok := strings.Cut(entry, "="); ok && value != "" {
			env[name] = value
		}
	}
	return env
}

// envResolver gives the flags that the command line does not name their values out of
// the environment.
type envResolver struct {
	env  map[string]string
	used map[string]bool // the flags that got one
}

// Validate has nothing to say: variables that no flag knows may be somebody else's.
func (*envResolver) Validate(*kong.Application) error { return nil }

// Resolve returns the value of flag's variable, nil when it is not set.
func (e *envResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, ok := e.env[config.EnvName(flag.Name)]
	if !ok || flag.Name == "help" {
		return nil, nil
	}
	e.used[flag.Name] = true
	if flag.Target.Kind() == reflect.Bool {
		return parseBool(value)
	}
	return value, nil
}

func parseBool(value string) (any, error) {
	switch value {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return nil, fmt.Errorf("%.40q is neither true nor false", value)
}

// blame names the variable, where an error about a flag comes from one.
func (e *envResolver) blame(err error) error {
	for flag := range e.used {
		if strings.HasPrefix(err.Error(), "--"+flag+":") || strings.HasPrefix(err.Error(), "--"+flag+"=") {
			return fmt.Errorf("%w (from %s)", err, config.EnvName(flag))
		}
	}
	return err
}
