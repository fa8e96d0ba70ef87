package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/alecthomas/kong"

	"onced/httpapi"
	"onced/internal/certificate"
	"onced/internal/config"
	"onced/internal/tokens"
)

type serveCommand struct {
	config.Serve
}

// Run serves until a signal, or until the node ends for a reason of its own.
func (c *serveCommand) Run(a *app, parsed *kong.Context) error {
	hangups := serveThrough()
	isSet := flagsSet(parsed)
	settings, err := config.Load(c.Serve, isSet)
	if err != nil {
		return refusal{err}
	}
	wall, err := wallClock(a.env)
	if err != nil {
		return refusal{err}
	}
	bounded, err := logBounds(a.env)
	if err != nil {
		return refusal{err}
	}
	credentials, err := credentialsOf(settings)
	if err != nil {
		return refusal{err}
	}
	cert, err := certificateOf(settings)
	if err != nil {
		return refusal{err}
	}
	s := &server{
		front:       front{log: newLogger(a.stderr, settings.LogLevel, settings.LogFormat).With("node", settings.NodeID), apiName: "API", certificate: cert, hangups: hangups},
		settings:    settings,
		reload:      func() (config.Serve, error) { return config.Load(c.Serve, isSet) },
		wall:        wall,
		bounds:      bounded,
		fault:       diskFault(a.env),
		open:        openNode,
		credentials: credentials,
		exit:        func(err error) { os.Exit(a.exit(err)) },
	}
	defer runtime.KeepAlive(roomForGarbage(a.env))
	return s.run(a.ctx)
}

// flagsSet tells of a flag's name whether the command line or the environment said it.
func flagsSet(parsed *kong.Context) func(flag string) bool {
	set := map[string]bool{}
	for _, p := range parsed.Path {
		if p.Flag != nil { // from the command line or, resolved, from the environment
			set[p.Flag.Name] = true
		}
	}
	return func(flag string) bool { return set[flag] }
}

// certificateOf reads the API's certificate; nil where none is named.
func certificateOf(c config.Serve) (*certificate.Pair, error) {
	if c.HTTPTLSCert == "" {
		return nil, nil
	}
	pair, err := certificate.Load(c.HTTPTLSCert, c.HTTPTLSKey)
	if err != nil {
		return nil, fmt.Errorf("http_tls_cert, http_tls_key: %w", err)
	}
	return pair, nil
}

// credentialsOf reads the tokens file; nil where none is named.
func credentialsOf(c config.Serve) (*httpapi.Credentials, error) {
	if c.TokensFile == "" {
		return nil, nil
	}
	table, err := tokens.Load(c.TokensFile)
	if err != nil {
		return nil, fmt.Errorf("tokens_file: %w", err)
	}
	return httpapi.NewCredentials(table), nil
}
