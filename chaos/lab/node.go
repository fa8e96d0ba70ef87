//go:build linux

package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"onced/internal/process"
)

// Node is one node of the cluster, on a seat.
type Node struct {
	cluster *Cluster
	ID      string
	Seat    int
	API     string // base URLs
	Gate    string
	peer    string // HOST:PORT of the cluster port
	join    string // that of a member to ask for admission; "" = one of the first three

	dir  string // on a disk of its own where that can be had
	data string
	Log  string // file
	ctl  string // beside dir: files by which a running node is harmed

	mu      sync.Mutex
	process runner // nil before its first start
	harmed  bool   // its end is not its own doing
	damaged bool   // its files were changed: it may end at any time
	struck  bool   // Kill or Stop was called since its last start
	lives   int    // how often it was started
}

// runner is what a node runs in: a process or a container.
type runner interface {
	Done() <-chan struct{} // closed once it has ended
	Err() error            // how it ended; waits for that
	Signal(syscall.Signal) error
	Kill()                           // returns when it has ended
	Stop(within time.Duration) error // the same, in order; an error says that it took force
}

// write writes the node's settings.
func (n *Node) write() (file string, err error) {
	c := n.cluster
	first := "peers: " + c.peers
	if n.join != "" {
		first = "join: " + n.join
	}
	file = filepath.Join(c.Dir, n.ID+".yaml")
	text := strings.Join([]string{
		"node_id: " + n.ID, fmt.Sprintf("data_dir: %q", n.data), "http_addr: " + strings.TrimPrefix(n.API, "http://"),
		"cluster_addr: " + n.peer, first, fmt.Sprintf("cluster_secret_file: %q", c.secret), "no_auth: true", "log_store: " + c.LogStore,
		"request_timeout: " + c.RequestTimeout.String(), "drain_timeout: 3s",
		"gateway:", "  addr: " + strings.TrimPrefix(n.Gate, "http://"), "  upstream: " + c.Upstream, "  tenant: header:X-Account",
		"  routes:", "    - {match: POST /charge, key: required, lease: 2s, timeout: 5s, on_unknown: hold}", "",
	}, "\n")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// Start starts the process, unless it runs.
func (n *Node) Start() error {
	if n.Runs() {
		return nil
	}
	end := n.ownEnd()
	p, err := n.run()
	if err != nil {
		return fmt.Errorf("starting %s: %w", n.ID, err)
	}
	if end != "" {
		n.cluster.mu.Lock()
		n.cluster.ends = append(n.cluster.ends, end)
		n.cluster.mu.Unlock()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process, n.harmed, n.struck = p, false, false
	n.lives++
	return nil
}

func (n *Node) run() (runner, error) {
	if n.cluster.docker != nil {
		return n.cluster.docker.start(n.ID)
	}
	file, err := n.write()
	if err != nil {
		return nil, fmt.Errorf("writing its settings: %w", err)
	}
	options := process.Options{Binary: n.cluster.Binary, Args: []string{"serve", "--config", file}, Log: n.Log}
	if n.cluster.net != nil {
		options.Args = append([]string{"netns", "exec", seatName(n.Seat), n.cluster.Binary}, options.Args...)
		options.Binary = "ip"
	}
	options.Env = append([]string{"ONCED_FAULT_CLOCK=" + n.ctl + ".clock", "ONCED_FAULT_DISK=" + n.ctl + ".disk",
		"ONCED_FAULT_SNAPSHOT_BYTES=400000", "ONCED_FAULT_TRAILING_BYTES=400000"}, n.cluster.Env...)
	return process.Start(options)
}

// Runs tells whether the process has not ended.
func (n *Node) Runs() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return false
	}
	select {
	case <-n.process.Done():
		return false
	default:
		return true
	}
}

// Lives is how often the node was started.
func (n *Node) Lives() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lives
}

// Harm says that from here on the node may end without anybody being astonished.
func (n *Node) Harm() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.harmed = true
}

// Harmed tells whether Harm was said since the last start.
func (n *Node) Harmed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.harmed
}

// Struck tells whether the node was killed or stopped since its last start, so that its end says nothing of itself.
func (n *Node) Struck() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.struck
}

// strike is Harm for an end that comes from outside.
func (n *Node) strike() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.harmed, n.struck = true, true
}

// Damaged tells whether the node's files were ever changed: it may end as soon as it reads them.
func (n *Node) Damaged() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.damaged
}

func (n *Node) running() runner {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// Kill is a SIGKILL; it returns when the process is gone.
func (n *Node) Kill() {
	n.strike()
	if p := n.running(); p != nil {
		p.Kill()
	}
}

// stopWithin is longer than a node takes that has a cancel to write and no majority: the drain time-out, and 10 s.
// A container has docker-compose.yml's stop_grace_period.
const (
	stopWithin          = 30 * time.Second
	stopContainerWithin = 45 * time.Second
)

// Stop is a SIGTERM; it returns when the process is gone, which takes force after stopWithin.
func (n *Node) Stop() error {
	n.strike()
	within := stopWithin
	if n.cluster.docker != nil {
		within = stopContainerWithin
	}
	return n.running().Stop(within)
}

// Freeze is a SIGSTOP, Thaw a SIGCONT. A process that has ended is left alone.
func (n *Node) Freeze() { _ = n.running().Signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (n *Node) Thaw() { _ = n.running().Signal(syscall.SIGCONT) }

// SetClock sets the node's clock, which goes on from now: wrong by an offset, and faster by a share.
func (n *Node) SetClock(offset time.Duration, drift float64) error {
	return replaceFile(n.ctl+".clock", fmt.Sprintf("%s %g %d", offset, drift, time.Now().UnixNano()))
}

// SetDisk makes every durable step of the node "stall", or err by what is said. "" = it works.
func (n *Node) SetDisk(fault string) error {
	if fault == "" {
		return os.RemoveAll(n.ctl + ".disk")
	}
	return replaceFile(n.ctl+".disk", fault)
}

// replaceFile writes a file such that nobody reads half of it.
func replaceFile(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
