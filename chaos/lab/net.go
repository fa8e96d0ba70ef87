//go:build linux

package lab

import (
	"fmt"
	"os/exec"
	"strings"
)

// seats is how many nodes there are at once.
const seats = 3

// network is a bridge with a namespace for each seat, and this process beside it.
type network struct {
	wire *wire // nil where the kernel has no TUN devices
}

const (
	bridge = "ocbr"
	host   = "10.77.0.254"
)

func seatIP(seat int) string   { return fmt.Sprintf("10.77.0.%d", seat+1) }
func seatName(seat int) string { return fmt.Sprintf("seat%d", seat+1) }

// newNetwork makes bridge and namespaces. This process must have a network of its own.
func newNetwork(seed uint64) (*network, error) {
	commands := []string{
		"link set lo up",
		"link add " + bridge + " type bridge forward_delay 0",
		"addr add " + host + "/24 dev " + bridge,
		"link set " + bridge + " up",
	}
	for s := range seats {
		name, outer := seatName(s), fmt.Sprintf("ocv%d", s+1)
		commands = append(commands,
			"netns add "+name,
			"link add "+outer+" type veth peer name eth0 netns "+name,
			"link set "+outer+" master "+bridge+" up",
			"-n "+name+" addr add "+seatIP(s)+"/24 dev eth0",
			"-n "+name+" link set eth0 up",
			"-n "+name+" link set lo up",
		)
	}
	for _, c := range commands {
		if err := ip(strings.Fields(c)...); err != nil {
			return nil, err
		}
	}
	n := &network{}
	var err error
	if n.wire, err = newWire(seed); err != nil {
		n.wire = nil // Cluster.Wired says so
	}
	for s := range seats {
		// A packet may come over another device than the one that its answer takes.
		anyWay := "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done"
		if err := ip("netns", "exec", seatName(s), "sh", "-c", anyWay); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// ip runs one ip command.
func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// cut lets nothing through from one seat to another: silently, where there is a wire to lose it on, or such that
// the sender's kernel refuses it.
func (n *network) cut(from, to int, silently bool) error {
	if silently && n.wire != nil {
		return n.over(from, to, Weather{Loss: 1})
	}
	return ip("-n", seatName(from), "route", "replace", "blackhole", seatIP(to)+"/32")
}

// over leads what goes from one seat to another through the wire, in some weather.
func (n *network) over(from, to int, w Weather) error {
	n.wire.set(from, to, w)
	return ip("-n", seatName(from), "route", "replace", seatIP(to)+"/32", "dev", device(from), "src", seatIP(from))
}

// mend undoes every cut and all weather.
func (n *network) mend() {
	for from := range seats {
		for to := range seats {
			if from == to {
				continue
			}
			// One of the two is there, or neither.
			_ = ip("-n", seatName(from), "route", "del", "blackhole", seatIP(to)+"/32")
			_ = ip("-n", seatName(from), "route", "del", seatIP(to)+"/32")
		}
	}
}
