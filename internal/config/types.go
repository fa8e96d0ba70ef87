package config

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
)

// Bytes is a size: 1048576, 1024KiB or 1MiB.
type Bytes int64

var units = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// UnmarshalText reads a whole number of bytes, KiB, MiB or GiB.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = rest, u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%.40q is no size: expected a whole number of bytes, KiB, MiB or GiB, like 1MiB", text)
	}
	*b = Bytes(n * unit)
	return nil
}

// String returns b in the largest unit that divides it.
func (b Bytes) String() string {
	for i := len(units) - 1; i >= 0; i-- {
		if u := units[i]; b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Peer is one of the first members: its node id and the HOST:PORT of its cluster port.
type Peer struct{ ID, Addr string }

// Peers is the list of the first members, in the order it was given.
type Peers struct{ List []Peer }

// UnmarshalText reads ID=HOST:PORT[,ID=HOST:PORT...]; "" is no list.
func (p *Peers) UnmarshalText(text []byte) error {
	p.List = nil
	if len(text) == 0 {
		return nil
	}
	for entry := range strings.SplitSeq(string(text), ",") {
		id, addr, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok || id == "" || addr == "" {
			return fmt.Errorf("%.80q is no peer: expected ID=HOST:PORT", entry)
		}
		p.List = append(p.List, Peer{ID: id, Addr: addr})
	}
	return nil
}

// Addr returns the cluster address of the peer id, "" when it is not listed.
func (p Peers) Addr(id string) string {
	for _, peer := range p.List {
		if peer.ID == id {
			return peer.Addr
		}
	}
	return ""
}

// checkAddr returns an error unless addr is HOST:PORT with a port from min to 65535.
func checkAddr(addr string, min int) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%.80q is no address: expected HOST:PORT", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < min || n > 65535 {
		return fmt.Errorf("%.80q has no usable port: expected %d to 65535", addr, min)
	}
	return nil
}

// isLoopback tells whether addr can only be reached from this machine. A name
// other than localhost is not resolved: what it means may change.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// isUnspecified tells whether addr names every interface, which nobody can dial.
func isUnspecified(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}
