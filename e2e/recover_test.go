//go:build linux

package e2e

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestRecoverOneOfThree kills all three under load and loses two for good: the third becomes a cluster of its own, which two new nodes
// join. What every node had is there.
func TestRecoverOneOfThree(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	p := c.persist("recover", 16)
	time.Sleep(time.Second)
	p.stop(t)
	held := c.insist(0, func(n *node) answer { return n.reserve("held", object{"owner": "h", "lease": "24h"}) }).record()
	c.equalTables() // every node has everything: what only a lost majority had would be lost
	var old struct {
		ID string `json:"cluster_id"`
	}
	left := c.nodes[1]
	if err := left.get("/v1/cluster").decode(&old); err != nil {
		t.Fatal(err)
	}
	args := []string{"recover", "--data-dir", left.data, "--node-id", left.id}
	command(t, nil, append(args, "--yes", old.ID)...).expect(t, 2, "in use by another process")
	c.kill(c.nodes...)

	before := tree(t, left.data)
	command(t, nil, args...).expect(t, 2, "LOST", old.ID, "nothing was changed")
	command(t, strings.NewReader("yes\n"), args...).expect(t, 2, "nothing was changed", "yes")
	command(t, nil, append(args, "--yes", "n2")...).expect(t, 2, "nothing was changed")
	if after := tree(t, left.data); after["identity.json"] != before["identity.json"] || after["UNFINISHED"] != "" {
		t.Error("it was changed")
	}
	command(t, nil, "recover", "--data-dir", left.data, "--node-id", "n9", "--yes", old.ID).expect(t, 2, "belongs to node "+left.id)
	command(t, nil, "recover", "--data-dir", c.dir+"/nowhere", "--node-id", "n9").expect(t, 2, "no node's data directory")
	s := command(t, strings.NewReader(old.ID+"\n"), args...).expect(t, 0, "n1 at", "n3 at", "only member of the new cluster")
	t.Logf("\n%s", s.stdout)

	c.start(left)
	c.ready(left)
	one := &cluster{t: t, dir: c.dir, nodes: []*node{left}}
	one.verifyAll(p.records)
	if a := left.reserve("new", nil); a.record().Token <= held.Token+1<<32-1 {
		t.Errorf("the largest token before was %d: %s", held.Token, a)
	}
	if a := left.complete("held", held.Token, object{"status": 200}); a.status != 200 {
		t.Errorf("the holder of a reservation that was open: %s", a)
	}
	// A lost one comes back all the same: its two old peers are not there, and the new cluster does not let it in.
	back := c.nodes[0]
	from := left.size()
	c.start(back)
	left.waitLog(from, "refused a connection to the cluster port")
	if a := left.reserve("undisturbed", nil); a.status != 201 {
		t.Errorf("with a lost node back: %s", a)
	}
	back.kill()
	for _, n := range []*node{c.nodes[0], c.nodes[2]} {
		if err := os.RemoveAll(n.data); err != nil {
			t.Fatal(err)
		}
		n.id += "-new"
		n.settings = append(n.settings, "join: "+left.peer)
		n.start("")
	}
	c.ready(c.nodes...)
	c.votersAre(left, "n1-new,n2,n3-new")
	c.equalTables()
	c.verifyAll(p.records)
}
