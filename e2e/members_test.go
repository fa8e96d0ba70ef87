//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// join lays out one more node, which asks to be added by the node via.
func (c *cluster) join(id string, via *node) *node {
	n := newNode(c.t, c.dir, id)
	n.settings = append(n.settings, "join: "+via.peer)
	c.nodes = append(c.nodes, n)
	return n
}

// votersAre waits until n sees these voters, in the order of their names.
func (c *cluster) votersAre(n *node, want string) {
	c.t.Helper()
	eventually(c.t, "the voters are "+want, func() error {
		var s struct {
			Members []struct {
				ID    string
				Voter bool
			}
		}
		if err := n.get("/v1/cluster").decode(&s); err != nil {
			return err
		}
		var voters []string
		for _, m := range s.Members {
			if m.Voter {
				voters = append(voters, m.ID)
			}
		}
		slices.Sort(voters)
		if got := strings.Join(voters, ","); got != want {
			return errors.New("they are " + got)
		}
		return nil
	})
}

// gone waits for a removed node's end and looks at how it ended.
func (n *node) gone(from int) {
	n.t.Helper()
	if code := n.exit(); code != 2 {
		n.t.Errorf("%s ends with exit code %d, expected 2", n.id, code)
	}
	n.oneLine(from, n.id, "was removed from cluster", "no member any more")
}

// TestMembership: a fourth node joins under load and becomes a voter; a follower and then the leader are removed, by the command, through
// any node. Nothing acknowledged is lost, the removed ones end with one line, and come back to none.
func TestMembership(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	first := &cluster{t: t, dir: c.dir, nodes: c.nodes} // the load's own view, which does not change
	p := first.persist("members", 16)
	time.Sleep(time.Second)

	leader := c.leader()
	follower := c.others(leader)[0]
	n4 := c.join("n4", follower)
	n4.start("")
	c.ready(n4)
	c.votersAre(leader, "n1,n2,n3,n4")
	// What the node has done by itself, an operator may say once more.
	command(t, nil, "members", "add", "--nodes", urls(follower), n4.id, n4.peer).expect(t, 0, "voter already")
	time.Sleep(time.Second)

	from := follower.size()
	command(t, nil, "members", "remove", "--nodes", urls(n4), "--reason", "the machine is retired", follower.id).expect(t, 0, follower.id+" is no member any more")
	follower.gone(from)
	time.Sleep(time.Second)
	leader = c.leader(follower)
	from = leader.size()
	start := time.Now()
	command(t, nil, "members", "remove", "--nodes", urls(follower, leader), leader.id).expect(t, 0, leader.id+" is no member any more")
	leader.gone(from)
	next := c.leader(follower, leader)
	t.Logf("after the removal of the leader %s is seen to lead after %s", next.id, time.Since(start).Round(time.Millisecond))
	time.Sleep(time.Second)
	p.stop(t)
	t.Logf("%d records; told instead of an answer: %v; the longest pause between two writes was %s", len(p.records), p.refusals, p.pause.Round(time.Millisecond))
	if p.pause > 8*time.Second {
		t.Errorf("nobody could write for %s", p.pause)
	}

	stayed := c.others(follower, leader)
	c.nodes = stayed
	c.equalTables()
	c.verifyAll(p.records)
	for _, n := range []*node{follower, leader} {
		from := n.size()
		n.start(first.peers())
		n.gone(from)
	}
	// One that stayed is started again with the list of the first day.
	old := stayed[0]
	if old == n4 {
		old = stayed[1]
	}
	old.stop()
	old.start(first.peers())
	c.ready(c.nodes...)
	c.equalTables()
	for _, n := range stayed {
		if audits := n.logged(0, "msg=audit"); n == n4 && (len(audits) == 0 || !strings.Contains(audits[0], "verb=\"remove member\"") || !strings.Contains(audits[0], "the machine is retired")) {
			t.Errorf("the audit line is missing: %v", audits)
		}
	}
	var list struct {
		Members []struct {
			ID      string
			Voter   bool
			Role    string
			Address string
		}
	}
	s := command(t, nil, "members", "list", "--nodes", urls(n4), "--output", "json").expect(t, 0)
	if err := json.Unmarshal([]byte(s.stdout), &list); err != nil || len(list.Members) != 2 {
		t.Errorf("the list is %s: %v", s.stdout, err)
	}
	command(t, nil, "members", "list", "--nodes", urls(n4)).expect(t, 0, "NODE", "n4", "yes", n4.peer)
}

// TestRefusedMembership: what would harm the cluster is refused by the command with one line, and exit code 1; what cannot be
// meant with exit code 2.
func TestRefusedMembership(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	leader := c.leader()
	others := c.others(leader)
	all := urls(c.nodes...)
	before := leader.get("/v1/cluster").String()
	for name, tc := range map[string]struct {
		args  []string
		code  int
		texts []string
	}{
		"unknown":       {[]string{"remove", "n9"}, 1, []string{"n9", "no member"}},
		"no name":       {[]string{"remove", "n 9"}, 2, []string{"node id"}},
		"no address":    {[]string{"add", "n9", "nowhere"}, 2, []string{"host:port"}},
		"taken address": {[]string{"add", "n9", others[0].peer}, 1, []string{others[0].id}},
		"moved":         {[]string{"add", others[0].id, "127.0.0.1:1"}, 1, []string{others[0].peer}},
		"too few":       {[]string{"add", "n9"}, 2, []string{"address"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"members"}, append(tc.args, "--nodes", all)...)
			command(t, nil, args...).expect(t, tc.code, tc.texts...)
		})
	}
	command(t, nil, "members", "remove", "--nodes", "http://127.0.0.1:1", "n1").expect(t, 1, "no node could")
	if after := leader.get("/v1/cluster").String(); membersOf(after) != membersOf(before) {
		t.Errorf("the membership was %s and is %s", membersOf(before), membersOf(after))
	}
	others[1].kill()
	command(t, nil, "members", "remove", "--nodes", urls(others[0]), others[0].id).expect(t, 1, "2 voters", "force")
	command(t, nil, "members", "remove", "--nodes", urls(others[0]), others[1].id).expect(t, 0)
	if a := others[0].reserve("k", nil); a.status != 201 {
		t.Errorf("after the dead one was removed: %s", a)
	}
	command(t, nil, "members", "remove", "--nodes", urls(others[0]), others[0].id).expect(t, 0)
	command(t, nil, "members", "remove", "--nodes", urls(leader), "--force", leader.id).expect(t, 1, "last voter")
}

// membersOf is the members' part of a cluster's status.
func membersOf(status string) string {
	_, members, _ := strings.Cut(status, `"members"`)
	members, _, _ = strings.Cut(members, "]")
	return members
}
