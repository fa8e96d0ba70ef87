//go:build linux

package lab

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Weather is what a link does to packets.
type Weather struct {
	Delay   time.Duration
	Jitter  time.Duration // beyond Delay, by chance; packets overtake each other
	Loss    float64       // share of the packets
	Reorder float64       // share of the packets that are not delayed
}

// wire is a network of its own between the seats, whose every packet goes through this process: the same on every
// machine, where netem is not in every kernel. Each seat has a TUN device; a route to another seat over
// it takes packets off the bridge, with their addresses as they were, so that open connections go on.
type wire struct {
	devices [seats]*os.File

	mu      sync.Mutex
	chance  *rand.Rand
	weather [seats][seats]Weather // from, to
}

func device(seat int) string { return fmt.Sprintf("wire%d", seat+1) }

func newWire(seed uint64) (*wire, error) {
	w := &wire{chance: rand.New(rand.NewPCG(seed, 7))}
	for s := range seats {
		f, err := openTUN(device(s))
		if err != nil {
			return nil, err
		}
		w.devices[s] = f
		for _, args := range [][]string{
			{"link", "set", device(s), "netns", seatName(s)},
			{"-n", seatName(s), "link", "set", device(s), "up"},
		} {
			if err := ip(args...); err != nil {
				return nil, err
			}
		}
		go w.carry(s)
	}
	return w, nil
}

func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("making the device %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (w *wire) set(from, to int, weather Weather) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.weather[from][to] = weather
}

// carry takes what seat from sends, for as long as the process lives.
func (w *wire) carry(from int) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := w.devices[from].Read(buffer)
		if err != nil {
			return
		}
		if n < 20 || buffer[0]>>4 != 4 {
			continue // no IPv4
		}
		to := int(buffer[19]) - 1 // the last byte of where it goes, see seatIP
		if to < 0 || to >= seats || to == from {
			continue
		}
		if delay, arrives := w.fate(from, to); arrives {
			w.deliver(to, append([]byte(nil), buffer[:n]...), delay)
		}
	}
}

func (w *wire) fate(from, to int) (delay time.Duration, arrives bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	weather := w.weather[from][to]
	switch {
	case w.chance.Float64() < weather.Loss:
		return 0, false
	case w.chance.Float64() < weather.Reorder:
		return 0, true
	case weather.Jitter > 0:
		delay = time.Duration(w.chance.Int64N(int64(weather.Jitter)))
	}
	return weather.Delay + delay, true
}

func (w *wire) deliver(to int, packet []byte, delay time.Duration) {
	if delay == 0 {
		_, _ = w.devices[to].Write(packet) // one that does not fit is lost, as on any wire
		return
	}
	time.AfterFunc(delay, func() { _, _ = w.devices[to].Write(packet) })
}
