//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// build builds the command into dir.
func build(ctx context.Context, dir, tags string) (string, error) {
	binary := filepath.Join(dir, "onced")
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-o", binary, "onced/cmd/onced").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return binary, nil
}
