//go:build faults

package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
)

// diskFault makes every write to the disk stall for as long as the file exists that ONCED_FAULT_STALL
// names, or do what the file says that ONCED_FAULT_DISK names, in builds for tests of broken disks.
func diskFault(env map[string]string) func(step string) error {
	if file, ok := env["ONCED_FAULT_DISK"]; ok {
		return func(step string) error { return brokenDisk(file, step) }
	}
	file, ok := env["ONCED_FAULT_STALL"]
	if !ok {
		return nil
	}
	return func(string) error {
		for {
			if _, err := os.Stat(file); err != nil {
				return nil
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// brokenDisk does what file says: "stall", for as long as it says so, else the step errs by what it says. Without the
// file the disk works. Where it begins with "@PATTERN " only steps whose name the pattern fits are meant: "@*.sync input/output error" makes
// syncs err and writes succeed, "@table.*" means the table alone. The names are those of store.Options.Fault.
func brokenDisk(file, step string) error {
	for {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil
		}
		said := string(raw)
		if rest, ok := strings.CutPrefix(said, "@"); ok {
			var pattern string
			if pattern, said, ok = strings.Cut(rest, " "); !ok {
				return fmt.Errorf("%s says %q: expected @PATTERN and what is to happen", file, raw)
			}
			if fits, err := path.Match(pattern, step); err != nil || !fits {
				return err
			}
		}
		if said != "stall" {
			return errors.New(said)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
