//go:build linux

package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"onced"
	"onced/internal/process"
)

// Options are what a cluster needs.
type Options struct {
	Binary         string // onced, built with the tag faults
	Dir            string // of settings, logs and disks
	Env            []string
	Upstream       string        // of the gateways; "" = http://HostIP:3000
	RequestTimeout time.Duration // of the nodes
	Seed           uint64        // of what the wire does by chance
	LogStore       string        // what raft's log lies in: bolt or wal
}

// Cluster is three seats and the nodes that have them.
type Cluster struct {
	Options
	net    *network    // nil = loopback, or containers
	docker *containers // nil = processes of this machine
	peers  string
	secret string // file
	http   *http.Client

	mu    sync.Mutex
	nodes [seats]*Node
	gone  []*Node  // were removed
	named int      // nodes so far
	ends  []string // of nodes that ended without having been harmed, and were started again
}

// HostIP is the address of this process, as the nodes see it.
func HostIP() string {
	if Inside() {
		return host
	}
	return fmt.Sprintf("127.77.%d.254", os.Getpid()%250)
}

func ipOf(seat int) string {
	if Inside() {
		return seatIP(seat)
	}
	return fmt.Sprintf("127.77.%d.%d", os.Getpid()%250, seat+1)
}

// New lays a cluster out, without starting it: in namespaces when this process has entered some, else on loopback.
func New(o Options) (*Cluster, error) {
	var net *network
	if Inside() {
		var err error
		if net, err = newNetwork(o.Seed); err != nil {
			return nil, err
		}
	}
	return layOut(o, net, 0)
}

// Next ends c and lays out a new cluster in its place, on the same seats, with its files in another directory and a log
// of a kind.
func (c *Cluster) Next(dir, logStore string) (*Cluster, error) {
	o := c.Options
	o.Dir, o.LogStore = dir, logStore
	if c.docker != nil {
		return c.nextContained(o)
	}
	c.Mend()
	c.End()
	return layOut(o, c.net, c.named)
}

// layOut names the nodes by numbers after named: no message of an older cluster may reach one of them.
func layOut(o Options, net *network, named int) (*Cluster, error) {
	if o.Upstream == "" {
		o.Upstream = "http://" + HostIP() + ":3000"
	}
	c := &Cluster{Options: o, net: net, named: named, secret: filepath.Join(o.Dir, "secret"), http: newCaller()}
	if err := os.WriteFile(c.secret, []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		return nil, err
	}
	var peers []string
	for seat := range seats {
		n, err := c.newNode(seat)
		if err != nil {
			return nil, err
		}
		c.nodes[seat] = n
		peers = append(peers, n.ID+"="+n.peer)
	}
	c.peers = strings.Join(peers, ",")
	return c, nil
}

// newCaller asks the nodes how they are.
func newCaller() *http.Client {
	return &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true}, // a node that was frozen or cut off must not hold what it is asked later
	}
}

// newNode lays a node out on a seat.
func (c *Cluster) newNode(seat int) (*Node, error) {
	c.named++
	id := fmt.Sprintf("n%d", c.named)
	n := &Node{
		cluster: c, ID: id, Seat: seat,
		API: "http://" + ipOf(seat) + ":8480", Gate: "http://" + ipOf(seat) + ":8080",
		peer: fmt.Sprintf("%s:%d", ipOf(seat), 8500+c.named),
		dir:  filepath.Join(c.Dir, id), Log: filepath.Join(c.Dir, id+".log"), ctl: filepath.Join(c.Dir, id),
	}
	n.data = filepath.Join(n.dir, "data")
	return n, n.mount()
}

// Nodes are the present nodes, in the order of their seats.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Node(nil), c.nodes[:]...)
}

// All are the present nodes and those that were removed.
func (c *Cluster) All() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(append([]*Node(nil), c.nodes[:]...), c.gone...)
}

// Namespaces tells whether the nodes have networks and disks of their own, Wired whether links can be had that
// delay and lose.
func (c *Cluster) Namespaces() bool { return c.net != nil }

// Wired is explained at Namespaces.
func (c *Cluster) Wired() bool { return c.net != nil && c.net.wire != nil }

// Contained tells whether the nodes are containers.
func (c *Cluster) Contained() bool { return c.docker != nil }

// Start starts every node that does not run.
func (c *Cluster) Start() error {
	for _, n := range c.Nodes() {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return nil
}

// End kills every node, and takes the disks away, what is on them with them. Of containers nothing is left but what
// they said.
func (c *Cluster) End() {
	if c.docker != nil {
		c.logs()
		c.docker.remove()
		return
	}
	for _, n := range c.All() {
		n.Kill()
		n.unmount()
	}
}

// APIs and Gates are the base URLs of the seats.
func (c *Cluster) APIs() (urls []string) {
	for _, n := range c.Nodes() {
		urls = append(urls, n.API)
	}
	return urls
}

// Gates is explained at APIs.
func (c *Cluster) Gates() (urls []string) {
	for _, n := range c.Nodes() {
		urls = append(urls, n.Gate)
	}
	return urls
}

// Cut lets nothing through from one node to another; silently is a loss, else the sender is told.
func (c *Cluster) Cut(from, to *Node, silently bool) error {
	return c.net.cut(from.Seat, to.Seat, silently)
}

// Weather makes the link from one node to another worse. The cluster must be Wired.
func (c *Cluster) Weather(from, to *Node, w Weather) error { return c.net.over(from.Seat, to.Seat, w) }

// Detach takes a container's network away: also the clients do not reach it.
func (c *Cluster) Detach(n *Node) error { return c.docker.detach(n.ID) }

// Mend undoes every Cut, all Weather, and every Detach.
func (c *Cluster) Mend() error {
	if c.docker != nil {
		return c.docker.attach()
	}
	if c.net != nil {
		c.net.mend()
	}
	return nil
}

// get reads a page of a node.
func (c *Cluster) get(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %d %.300s", url, response.StatusCode, body.Bytes())
	}
	return body.Bytes(), nil
}

// Leader is the node that says that it leads in the latest term; nil while nobody does.
func (c *Cluster) Leader(ctx context.Context) (leader *Node) {
	latest := uint64(0)
	for _, n := range c.Nodes() {
		s, err := c.status(ctx, n)
		if err != nil {
			continue
		}
		if s.Role == "leader" && s.Term >= latest {
			leader, latest = n, s.Term
		}
	}
	return leader
}

// status is how a node sees the cluster.
func (c *Cluster) status(ctx context.Context, n *Node) (s onced.ClusterStatus, err error) {
	body, err := c.get(ctx, n.API+"/v1/cluster")
	if err != nil {
		return s, err
	}
	err = json.Unmarshal(body, &s)
	return s, err
}

// Led waits until a node leads, at most for d.
func (c *Cluster) Led(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return c.until(ctx, func() error {
		if c.Leader(ctx) == nil {
			return errors.New("nobody leads")
		}
		return nil
	})
}

// Pick returns the leader and the others. Where nobody leads, the first of them stands for the leader.
func (c *Cluster) Pick(ctx context.Context) (leader *Node, others []*Node) {
	leader = c.Leader(ctx)
	nodes := c.Nodes()
	if leader == nil {
		leader = nodes[0]
	}
	for _, n := range nodes {
		if n != leader {
			others = append(others, n)
		}
	}
	return leader, others
}

// Ready waits until every node is ready and a voter, and returns what the last one said when that does not come within d.
func (c *Cluster) Ready(ctx context.Context, d time.Duration) error {
	for _, n := range c.Nodes() {
		ctx, cancel := context.WithTimeout(ctx, d)
		err := c.until(ctx, func() error {
			if !n.Runs() {
				ended := fmt.Errorf("%s has ended: %s", n.ID, n.lastWords())
				if n.Harmed() { // what errs may take its time to end the node: the fault was healed before
					return errors.Join(ended, n.Start())
				}
				return ended
			}
			_, err := c.get(ctx, n.API+"/readyz")
			return err
		})
		cancel()
		if err != nil {
			return fmt.Errorf("%s is not ready after %s: %w", n.ID, d, err)
		}
	}
	return c.allVote(ctx, d)
}

// allVote waits until each node is a voter in every other's eyes. One that has just come is not for a moment: who harms one of two
// voters then has taken the majority away.
func (c *Cluster) allVote(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return c.until(ctx, func() error {
		for _, n := range c.Nodes() {
			status, err := c.status(ctx, n)
			if err != nil {
				return err
			}
			if err := voters(status, c.Nodes()); err != nil {
				return fmt.Errorf("as %s sees it, %w", n.ID, err)
			}
		}
		return nil
	})
}

// voters tells who is no voter.
func voters(status onced.ClusterStatus, nodes []*Node) error {
	for _, n := range nodes {
		if !slices.ContainsFunc(status.Members, func(m onced.Member) bool { return m.ID == n.ID && m.Voter }) {
			return fmt.Errorf("%s is no voter", n.ID)
		}
	}
	return nil
}

// until polls until ok is nil or ctx ends, and returns ok's last error.
func (c *Cluster) until(ctx context.Context, ok func() error) error {
	for {
		err := ok()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Odd says which nodes ended without having been harmed, or said what no node may ever say. What the damaged
// ones say is told apart: their end was to be expected, and how they word it is worth a remark.
func (c *Cluster) Odd() (odd, remarks []string) {
	all := c.All()
	c.logs()
	c.mu.Lock()
	odd = append(odd, c.ends...)
	c.mu.Unlock()
	damaged := slices.ContainsFunc(all, (*Node).Damaged)
	for _, n := range all {
		if end := n.ownEnd(); end != "" {
			odd = append(odd, end)
		}
		for _, text := range []string{"DATA RACE", "panic: ", "fatal error: ", "tables differ"} {
			line := n.says(text)
			switch {
			case line == "":
			case n.Damaged() || damaged && text == "tables differ":
				remarks = append(remarks, fmt.Sprintf("%s, whose files were damaged, says %q", n.ID, line))
			default:
				odd = append(odd, fmt.Sprintf("%s says %q", n.ID, line))
			}
		}
	}
	return odd, remarks
}

// ownEnd is how the node ended without having been harmed; "" if it did not.
func (n *Node) ownEnd() string {
	n.mu.Lock()
	p, expected := n.process, n.harmed || n.damaged
	n.mu.Unlock()
	if p == nil || expected || n.Runs() {
		return ""
	}
	if n.cluster.docker != nil {
		n.cluster.docker.log(n.ID, n.Log)
	}
	return fmt.Sprintf("%s has ended by itself: %v: %s", n.ID, p.Err(), n.lastWords())
}

// logs fetches what the containers have said.
func (c *Cluster) logs() {
	if c.docker == nil {
		return
	}
	for _, n := range c.Nodes() {
		c.docker.log(n.ID, n.Log)
	}
}

// says returns the first line of the node's log with a text in it, from there on; "" for none.
func (n *Node) says(text string) string {
	raw, err := os.ReadFile(n.Log)
	at := bytes.Index(raw, []byte(text))
	if err != nil || at < 0 {
		return ""
	}
	line, _, _ := bytes.Cut(raw[at:], []byte("\n"))
	return string(line)
}

// lastWords is why the node says that it ended.
func (n *Node) lastWords() string {
	lines := strings.Split(process.Tail(n.Log, 200), "\n")
	for _, line := range slices.Backward(lines) {
		for _, begin := range []string{"onced: ", "panic: ", "fatal error: "} {
			if strings.HasPrefix(line, begin) {
				return line
			}
		}
	}
	return lines[len(lines)-1]
}
