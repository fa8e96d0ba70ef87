package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"onced"
	"onced/internal/process"
)

const (
	readyWithin = 30 * time.Second
	pollEvery   = 20 * time.Millisecond
	stopWithin  = 10 * time.Second // how long a node may take to end after SIGTERM
)

// cluster is three nodes, each a process of its own with a gateway.
type cluster struct {
	binary string
	dir    string // settings, data and logs of the nodes
	nodes  []*node
	http   *http.Client
}

// node is one process. A killed one is started again with the same settings.
type node struct {
	id                 string
	api, gateway, peer string // HOST:PORT
	config, log        string // files

	mu      sync.Mutex
	process *process.Process // nil before its first start
}

// newCluster picks free ports and writes the settings of n nodes before upstream into dir.
func newCluster(binary, dir, upstream string, n int) (*cluster, error) {
	addrs, err := freeAddrs(3 * n)
	if err != nil {
		return nil, err
	}
	c := &cluster{binary: binary, dir: dir, http: &http.Client{Timeout: 3 * time.Second}}
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		c.nodes = append(c.nodes, &node{
			id: id, api: addrs[3*i], gateway: addrs[3*i+1], peer: addrs[3*i+2],
			config: filepath.Join(dir, id+".yaml"), log: filepath.Join(dir, id+".log"),
		})
	}
	for _, nd := range c.nodes {
		if err := os.WriteFile(nd.config, []byte(c.settings(nd, upstream)), 0o600); err != nil {
			return nil, fmt.Errorf("writing the settings of %s: %w", nd.id, err)
		}
	}
	return c, nil
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

// settings is the configuration file of nd. The lease is short so that the
// outcome of a charge whose gateway was killed is told within the demo's time.
func (c *cluster) settings(nd *node, upstream string) string {
	var peers []string
	for _, other := range c.nodes {
		peers = append(peers, other.id+"="+other.peer)
	}
	return fmt.Sprintf(`node_id: %s
data_dir: %q
http_addr: %s
cluster_addr: %s
peers: %s
no_auth: true
gateway:
  addr: %s
  upstream: %s
  tenant: header:%s
  routes:
    - match: POST /charge
      key: required
      lease: 3s
      timeout: 30s
      wait: 1s
      on_unknown: hold
`, nd.id, filepath.Join(c.dir, nd.id), nd.api, nd.peer, strings.Join(peers, ","), nd.gateway, upstream, AccountHeader)
}

// start starts every node and waits until all are ready.
func (c *cluster) start(ctx context.Context) error {
	for _, nd := range c.nodes {
		if err := c.startNode(nd); err != nil {
			return err
		}
	}
	return c.ready(ctx)
}

func (c *cluster) startNode(nd *node) error {
	p, err := process.Start(process.Options{Binary: c.binary, Args: []string{"serve", "--config", nd.config}, Log: nd.log})
	if err != nil {
		return fmt.Errorf("starting %s: %w", nd.id, err)
	}
	nd.mu.Lock()
	nd.process = p
	nd.mu.Unlock()
	return nil
}

func (nd *node) running() *process.Process {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	return nd.process
}

// ready waits until every node says that it is, or one of them ends.
func (c *cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for _, nd := range c.nodes {
		if err := c.nodeReady(ctx, nd); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) nodeReady(ctx context.Context, nd *node) error {
	for {
		if c.get(ctx, "http://"+nd.api+"/readyz", nil) == nil {
			return nil
		}
		select {
		case <-nd.running().Done():
			return fmt.Errorf("%s ended before it was ready: %w\n%s", nd.id, nd.running().Err(), process.Tail(nd.log, 5))
		default:
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("waiting until %s is ready: %w; its log is %s", nd.id, err, nd.log)
		}
	}
}

// leader returns the node that leads, as some node other than those in but sees it.
func (c *cluster) leader(ctx context.Context, but *node) (*node, error) {
	for {
		for _, asked := range c.nodes {
			var s onced.ClusterStatus
			if asked == but || c.get(ctx, "http://"+asked.api+"/v1/cluster", &s) != nil {
				continue
			}
			for _, nd := range c.nodes {
				if nd.id == s.Leader && nd != but {
					return nd, nil
				}
			}
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return nil, fmt.Errorf("waiting for a leader: %w", err)
		}
	}
}

// get reads url's JSON into v, if v is not nil. A status other than 200 is an error.
func (c *cluster) get(ctx context.Context, url string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, response.StatusCode)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(v)
}

// stop ends every node that still runs, all at the same time.
func (c *cluster) stop() error {
	errs := make([]error, len(c.nodes))
	var stopping sync.WaitGroup
	for i, nd := range c.nodes {
		if p := nd.running(); p != nil {
			stopping.Go(func() { errs[i] = p.Stop(stopWithin) })
		}
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// gateways and apis are the base URLs of the nodes.
func (c *cluster) gateways() (urls []string) {
	for _, nd := range c.nodes {
		urls = append(urls, "http://"+nd.gateway)
	}
	return urls
}

func (c *cluster) apis() (urls []string) {
	for _, nd := range c.nodes {
		urls = append(urls, "http://"+nd.api)
	}
	return urls
}
