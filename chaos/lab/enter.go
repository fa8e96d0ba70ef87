//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// inside is set in the process that has namespaces of its own.
const inside = "ONCED_CHAOS_INSIDE"

// Inside tells whether this process has network and mounts of its own.
func Inside() bool { return os.Getenv(inside) != "" }

// Possible returns why this machine gives no namespaces; nil if it seems to.
func Possible() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("there is no ip command (package iproute2)")
	}
	return nil
}

// Enter starts this program anew, with the same arguments, in a network and a mount namespace of its own, so that
// whatever it makes there ends with it. It does not return but with an error.
func Enter() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	runtime.LockOSThread() // the namespaces are the thread's, and execve keeps those of the thread that calls it
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	// ip keeps the names of namespaces in files there.
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/run/netns", "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("mounting /run/netns: %w", err)
	}
	return fmt.Errorf("starting anew in the namespaces: %w", unix.Exec(self, os.Args, append(os.Environ(), inside+"=1")))
}
