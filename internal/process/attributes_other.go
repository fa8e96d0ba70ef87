//go:build !linux

package process

import "syscall"

// childAttributes leaves a child as it is where the kernel offers no more.
func childAttributes() *syscall.SysProcAttr { return nil }
