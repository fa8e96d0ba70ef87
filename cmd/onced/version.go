package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"onced/fsm"
)

// version is the release's; a release build sets it with -ldflags "-X main.version=v1.2.3".
var version = ""

// commit is for a build that knows its commit but leaves the stamp out (-buildvcs=false).
var commit = ""

type versionCommand struct{}

// Run prints one line for each thing.
func (*versionCommand) Run(a *app) error {
	v, c := buildInfo()
	_, err := fmt.Fprintf(a.stdout, "onced %s\ncommit %s\ngo %s %s/%s\nlog format %d\n",
		v, c, runtime.Version(), runtime.GOOS, runtime.GOARCH, fsm.Version)
	return err
}

// buildInfo returns the version and the commit, as far as the build knows them.
func buildInfo() (v, c string) {
	v, c = version, commit
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return orElse(v, "unknown"), orElse(c, "unknown")
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	c = orElse(c, settings["vcs.revision"])
	if c != "" && settings["vcs.modified"] == "true" {
		c += " with changes"
	}
	return orElse(v, orElse(info.Main.Version, "unknown")), orElse(c, "unknown")
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
