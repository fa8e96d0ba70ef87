package compose

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"

	"onced/internal/demo"
)

// cluster is what docker-compose.yml describes.
type cluster struct {
	t        *testing.T
	nodes    []*container
	provider *container
	charges  string     // the provider's base URL
	lb       *container // nil where there is no image for it
	history  []judged   // the rounds so far
}

// layOut picks free ports and hands them to docker-compose.yml. Nothing is started.
func layOut(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, provider: &container{t: t, service: "provider"}}
	for i := range 3 {
		name := fmt.Sprintf("n%d", i+1)
		c.nodes = append(c.nodes, &container{
			t: t, service: name,
			gateway: c.publish(strings.ToUpper(name) + "_GATEWAY"), api: c.publish(strings.ToUpper(name) + "_API"),
		})
	}
	c.charges = c.publish("PROVIDER")
	if os.Getenv("HAPROXY_IMAGE") != "" {
		c.lb = &container{t: t, service: "lb", gateway: c.publish("LB_GATEWAY"), api: c.publish("LB_API")}
	}
	t.Cleanup(c.end)
	return c
}

// publish lets docker-compose.yml have a free address in variable, and returns it as a base URL.
func (c *cluster) publish(variable string) string {
	c.t.Helper()
	addr := freeAddr(c.t)
	c.t.Setenv(variable, addr)
	return "http://" + addr
}

// freeAddr is a loopback address that nobody is using. It is of a port that nobody gets by chance, so that it
// stays free while its container is down.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000)))
		if err == nil {
			defer ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal("no free port from 20000 to 29999")
	return ""
}

// end looks for what no node may ever say and, after a failure, shows what the containers said last.
func (c *cluster) end() {
	all := append([]*container{c.provider}, c.nodes...)
	if c.lb != nil {
		all = append(all, c.lb)
	}
	for _, one := range all {
		out, err := one.log()
		if err != nil {
			c.t.Logf("%s has no log: %v", one.service, err)
			continue
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for _, line := range lines {
			if strings.Contains(line, "panic: ") || strings.Contains(line, "fatal error: ") {
				c.t.Errorf("%s says %q", one.service, line)
			}
		}
		if c.t.Failed() {
			c.t.Logf("the log of %s ends with:\n%s", one.service, strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	}
}

// up is scripts/compose-up, also with its load balancer. It returns what it printed.
func (c *cluster) up(args ...string) string {
	c.t.Helper()
	out := run(c.t, "scripts/compose-up", args...)
	for _, n := range c.nodes {
		n.ready() // compose-up says so; this is its check
	}
	return out
}

func (c *cluster) down() { c.t.Helper(); run(c.t, "scripts/compose-down") }

// leader returns the node that leads, as a node other than but says.
func (c *cluster) leader(but *container) *container {
	c.t.Helper()
	var leader *container
	eventually(c.t, "a leader", func() error {
		for _, asked := range c.nodes {
			var s struct{ Leader string }
			if asked == but || getJSON(c.t.Context(), asked.api+"/v1/cluster", &s) != nil {
				continue
			}
			for _, n := range c.nodes {
				if n != but && n.service == s.Leader {
					leader = n
					return nil
				}
			}
		}
		return errors.New("nobody names one")
	})
	return leader
}

func (c *cluster) gateways() (urls []string) {
	for _, n := range c.nodes {
		urls = append(urls, n.gateway)
	}
	return urls
}

func (c *cluster) apis() (urls []string) {
	for _, n := range c.nodes {
		urls = append(urls, n.api)
	}
	return urls
}

// addresses are those of the nodes inside their network.
func (c *cluster) addresses() (all []string) {
	c.t.Helper()
	for _, n := range c.nodes {
		all = append(all, n.address())
	}
	return all
}

// charged is the provider's ledger once nothing is under way.
func (c *cluster) charged() *demo.Ledger {
	c.t.Helper()
	l, err := demo.ReadLedger(c.t.Context(), c.charges)
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}
