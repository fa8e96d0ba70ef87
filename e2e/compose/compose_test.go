package compose

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestContainers goes through the life of the containers in order, as each part needs what was before.
func TestContainers(t *testing.T) {
	if os.Getenv("ONCED_COMPOSE_TEST") != "1" {
		t.Skip("scripts/compose-test runs it")
	}
	c := layOut(t)
	for _, part := range []struct {
		name string
		do   func(c *cluster)
	}{
		{"up", comesUp},
		{"leader killed", leaderKilled},
		{"leader cut off", leaderCutOff},
		{"replayed", replayedEverywhere},
		{"new addresses", newAddresses},
		{"load balancer", loadBalancer},
	} {
		began := time.Now()
		part.do(c)
		if t.Failed() {
			t.Fatalf("%s: failed", part.name)
		}
		t.Logf("%s: ok, %s", part.name, time.Since(began).Round(100*time.Millisecond))
	}
}

// comesUp has no registry and nothing but the script. What the script tells its user to do next is done.
func comesUp(c *cluster) {
	t := c.t
	out := c.up()
	secret := os.Getenv("ONCED_SECRET_FILE")
	for path, mode := range map[string]os.FileMode{secret: 0o444, filepath.Dir(secret): os.ModeDir | 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v; want mode %s", path, info, err, mode)
		}
	}
	var said []string
	for line := range strings.Lines(out) {
		if curl := strings.TrimSpace(line); strings.HasPrefix(curl, "curl ") {
			said = append(said, shell(t, curl))
		}
	}
	for i, want := range []string{"Idempotency-Replayed: false", "Idempotency-Replayed: true", `{"charges":1,"keys":1}`} {
		if len(said) != 3 || !strings.Contains(said[i], want) {
			t.Fatalf("no %q in answer %d of %q; compose-up said\n%s", want, i+1, said, out)
		}
	}
	for _, one := range append(c.nodes, c.provider) {
		one.healthy()
		if user := one.inspect("{{.Config.User}} {{.HostConfig.ReadonlyRootfs}}"); user != "65532:65532 true" {
			t.Errorf("%s runs as %s", one.service, user)
		}
	}
}

// leaderKilled is a SIGKILL to the leader's container and its start, under load.
func leaderKilled(c *cluster) {
	l := c.begin("kill", c.gateways())
	l.wait(lanes)
	victim := c.leader(nil)
	began := time.Now()
	victim.kill()
	next := c.leader(victim)
	c.t.Logf("killed %s, the leader; %s leads %s after the command", victim.service, next.service, time.Since(began).Round(time.Millisecond))
	victim.start()
	victim.ready()
	l.wait(lanes)
	l.end()
}

// leaderCutOff takes the leader's network away and gives it back, under load.
func leaderCutOff(c *cluster) {
	l := c.begin("cut", c.gateways())
	l.wait(lanes)
	victim := c.leader(nil)
	began := time.Now()
	victim.cut()
	next := c.leader(victim)
	c.t.Logf("cut %s, the leader, off; %s leads %s after the command", victim.service, next.service, time.Since(began).Round(time.Millisecond))
	l.wait(1) // something is done without it
	victim.mend()
	victim.ready()
	l.wait(lanes)
	l.end()
}

// replayedEverywhere asks every gateway for the answer to every key.
func replayedEverywhere(c *cluster) { c.replay(c.gateways()) }

// newAddresses takes the containers down and up again, while somebody else has the network that they had.
func newAddresses(c *cluster) {
	t := c.t
	before := c.addresses()
	subnet := strings.TrimSpace(run(t, "docker", "network", "inspect", "--format", "{{(index .IPAM.Config 0).Subnet}}", network()))
	c.down()
	run(t, "docker", "network", "create", "--subnet", subnet, project()+"_taken")
	if c.lb != nil {
		c.up("--no-build", "--lb")
	} else {
		c.up("--no-build")
	}
	after := c.addresses()
	for _, address := range after {
		if address == "" || slices.Contains(before, address) {
			t.Fatalf("the addresses were %v and are %v: nothing is tested", before, after)
		}
	}
	t.Logf("the addresses were %v and are %v", before, after)
	if n := c.charged().Total(); n != 0 {
		t.Fatalf("the provider is another one, and has %d charges", n)
	}
	c.replay(c.gateways())
}

// loadBalancer renews the containers of the nodes one by one, as an upgrade does, behind the load balancer under load.
func loadBalancer(c *cluster) {
	t := c.t
	if c.lb == nil {
		t.Log("SKIPPED: there is no image of haproxy")
		return
	}
	eventually(t, "the load balancer has a node", func() error {
		return getJSON(t.Context(), c.lb.api+"/v1/cluster", &struct{}{})
	})
	l := c.begin("lb", []string{c.lb.gateway})
	l.wait(lanes)
	old := c.nodes[2].id()
	for _, n := range c.nodes {
		n.api = c.publish(strings.ToUpper(n.service) + "_API") // what is changed; nobody under load uses it
	}
	c.up("--no-build", "--lb")
	if c.nodes[2].id() == old {
		t.Error("the containers are the old ones")
	}
	for i, n := range c.nodes[1:] {
		if created, started := n.moment("{{.Created}}"), c.nodes[i].moment("{{.State.StartedAt}}"); created.Before(started) {
			t.Errorf("%s was made at %s, before %s was started at %s", n.service, created, c.nodes[i].service, started)
		}
	}
	l.wait(lanes)
	l.end()
	if l.tally.Unknown > 0 {
		t.Errorf("%d outcomes are unknown, although every node was stopped in order", l.tally.Unknown)
	}
}

// shell runs a line that a user would.
func shell(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "-euc", strings.Replace(line, "curl ", "curl -sS ", 1)).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}
