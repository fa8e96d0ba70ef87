package system

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"
)

// Unavailable says why a system cannot be run here.
type Unavailable struct{ Why string }

func (u Unavailable) Error() string { return u.Why }

// System is one that runs.
type System interface {
	// Doors are the base URLs that take reserve, complete and batch; Charges those that take POST /charge.
	Doors() []string
	Charges() []string
	// Servers are the processes whose processor time counts: nodes and front. Stores are those whose memory counts.
	Servers() []int
	Stores() []int
	// Dirs are the data directories, one for each copy of the data; Tables what of them is no log that goes with time.
	Dirs() []string
	Tables() []string
	// KillLeader kills the member that leads; ErrNoLeader where nobody takes over. Revive starts it again.
	KillLeader(ctx context.Context) error
	Revive(ctx context.Context) error
	// Restart ends every store process in good order, and starts them. It returns when the first is started: who calls has to find out when they serve.
	Restart(ctx context.Context) error
	// Counted says how often a charge was made, and for how many keys.
	Counted(ctx context.Context) (charges, keys int, err error)
	// Close ends it.
	Close() error
}

// Options say what to start.
type Options struct {
	Dir      string        // for data and logs: a new directory that everybody may enter
	Charge   time.Duration // what a charge takes
	LogStore string        // of onced
	Onced    string        // path of the binary
	Etcd     string        // the same
	Self     string        // this program, which is the front
}

// Names are the systems there are, in the order of the tables.
var Names = []string{"onced", "etcd", "redis", "postgres", "memory"}

// Start starts the system of that name and waits until it is ready.
//
// Errors: an Unavailable.
func Start(ctx context.Context, name string, o Options) (System, error) {
	start := map[string]func(context.Context, Options) (System, error){
		"onced": startOnced, "etcd": startEtcd, "redis": startRedis, "postgres": startPostgres, "memory": startMemory,
	}[name]
	if start == nil {
		return nil, fmt.Errorf("no system %q: expected one of %v", name, Names)
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	return start(ctx, o)
}

// freeAddrs returns n loopback addresses whose ports are free now.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer ln.Close() // only at the end, so that no port comes twice
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, nil
}
