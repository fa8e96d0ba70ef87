package peer

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
)

// MaxNodeID is the longest node id, in bytes.
const MaxNodeID = 64

// Config are the settings of a Port.
type Config struct {
	NodeID    string       // of this node; see CheckNodeID
	Addr      string       // host:port to listen on; port 0 = any free one
	Advertise string       // name:port that the others dial; "" = Addr. Port 0 = the one listened on
	TLS       *TLS         // nil = cleartext, allowed on loopback only
	Logger    *slog.Logger // nil = discard

	handshake time.Duration // 0 = handshakeTimeout; tests shorten it
}

// withDefaults returns c with its empty fields filled, or an error that names
// the wrong one.
func (c Config) withDefaults() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.handshake == 0 {
		c.handshake = handshakeTimeout
	}
	if err := CheckNodeID(c.NodeID); err != nil {
		return c, err
	}
	if _, _, err := splitAddr(c.Addr); err != nil {
		return c, fmt.Errorf("cluster address: %w", err)
	}
	if c.TLS == nil {
		if err := CheckCleartext(c.Addr); err != nil {
			return c, err
		}
	}
	if c.Advertise == "" {
		c.Advertise = c.Addr
	}
	host, _, err := splitAddr(c.Advertise)
	if err != nil {
		return c, fmt.Errorf("advertised cluster address: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return c, fmt.Errorf("advertised cluster address %q: the other nodes cannot dial that; "+
			"name the host by which they reach this node", c.Advertise)
	}
	return c, nil
}

// CheckNodeID tells what is wrong with a node id: it is 1 to MaxNodeID of
// A-Z a-z 0-9 . _ -, so that it can stand in a list of peers and in a log line.
func CheckNodeID(id string) error {
	if id == "" {
		return errors.New("node id is empty")
	}
	if len(id) > MaxNodeID {
		return fmt.Errorf("node id of %d bytes: expected at most %d", len(id), MaxNodeID)
	}
	for _, r := range id {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("._-", r) {
			return fmt.Errorf("node id %q: expected letters, digits, '.', '_' and '-' only", id)
		}
	}
	return nil
}

// CheckAddr tells what is wrong with an address that others dial: it is
// host:port with a name or a number of a host and a port from 1 to 65535.
func CheckAddr(addr string) error {
	host, port, err := splitAddr(addr)
	switch {
	case err != nil:
		return err
	case host == "":
		return fmt.Errorf("address %q: the host is missing", addr)
	case port == 0:
		return fmt.Errorf("address %q: expected a port from 1 to 65535", addr)
	}
	return nil
}

// CheckCleartext tells whether a cluster address may be listened on without
// TLS: whoever reaches the port can write, so it has to be loopback.
func CheckCleartext(addr string) error {
	host, _, err := splitAddr(addr)
	if err != nil {
		return fmt.Errorf("cluster address: %w", err)
	}
	ip := net.ParseIP(host)
	if host == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("cluster address %q is not loopback: whoever reaches it could write, so it needs "+
		"a cluster secret or certificates (or listen on 127.0.0.1, ::1 or localhost)", addr)
}

// splitAddr takes host:port apart.
func splitAddr(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: expected host:port", addr)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("address %q: port %q is not a number from 0 to 65535", addr, p)
	}
	if strings.ContainsAny(host, "=,/ \t") {
		return "", 0, fmt.Errorf("address %q: %q is no name of a host", addr, host)
	}
	return host, port, nil
}
