//go:build faults

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBrokenDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk")
	fault := diskFault(map[string]string{"ONCED_FAULT_DISK": file})
	if err := fault("log.store"); err != nil {
		t.Errorf("without the file: %v", err)
	}
	for _, tc := range []struct{ said, step, want string }{
		{"no space", "log.store", "no space"},
		{"@*.sync input/output error", "log.store", ""},
		{"@*.sync input/output error", "log.store.sync", "input/output error"},
		{"@*.sync input/output error", "table.sync", "input/output error"},
		{"@table.* input/output error", "stable.set", ""},
		{"@stable.set.sync input/output error", "stable.set.sync", "input/output error"},
		{"@[ x", "log.store", "syntax error in pattern"},
		{"@*.sync", "log.store", file + ` says "@*.sync": expected @PATTERN and what is to happen`},
	} {
		if err := os.WriteFile(file, []byte(tc.said), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := fault(tc.step); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%q at %s: %q, expected %q", tc.said, tc.step, got, tc.want)
		}
	}
}
