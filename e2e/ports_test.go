//go:build linux

package e2e

import (
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// holdPort returns a free loopback address that nobody but the node it is for gets until the test is over.
//
// The port is bound but not listened on. Linux lets a listener that reuses addresses, as every one of Go's
// does, bind it a second time; a port that is picked for a :0 or for an outgoing connection is never one that is
// bound. A port that was merely seen to be free is taken now and then while its node is down.
func holdPort(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
}

// holdListener returns an address that somebody listens on until the test is over.
func holdListener(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}
