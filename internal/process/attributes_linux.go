package process

import "syscall"

// childAttributes puts a child in a process group of its own, so that the
// terminal's Ctrl-C reaches the parent alone and it ends the nodes in order, and lets the
// kernel kill the child if the parent itself is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
