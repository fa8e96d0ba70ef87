package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"onced"
	"onced/cluster"
	"onced/cluster/peer/memnet"
)

// world is three nodes in virtual time: their network is in memory, and the clock goes on only while
// everybody waits, so hours of leases and retentions pass in the time that the work in them takes.
type world struct {
	*harness
	net *memnet.Network
}

// inVirtualTime runs f in a world of its own.
func inVirtualTime(t *testing.T, tune func(*cluster.Config), f func(w *world)) {
	t.Helper()
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		w := &world{&harness{t: t, nodes: make([]*cluster.Node, 3)}, memnet.New()}
		w.tune = func(_ int, c *cluster.Config) {
			link, err := w.net.Join(c.NodeID, c.ClusterAddr, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.Link = link
			tune(c)
		}
		for _, name := range []string{"n1", "n2", "n3"} {
			w.peers = append(w.peers, cluster.Peer{ID: name, Address: name + ".test:8481"})
			w.dirs = append(w.dirs, filepath.Join(root, name))
		}
		for i := range w.nodes {
			w.open(i)
		}
		w.ready()
		f(w)
		w.net.Heal()
		w.stopAll()
		w.net.Close()
		time.Sleep(time.Hour) // raft leaves goroutines that wait out their time with messages that nobody answers
	})
}

// calm is few heartbeats an hour.
func calm(c *cluster.Config) { c.ElectionTimeout, c.CommitTimeout = 4*time.Second, time.Second }

// memoryDir is a directory whose syncs cost nothing, where the machine has one: the clock stands still
// while a disk works, so a test in virtual time is as long as its disk is slow.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "onced-virtual-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// restart stops a node in good order and starts it again.
func (w *world) restart(i int) {
	w.t.Helper()
	w.stop(i)
	w.open(i)
	w.ready()
}

// depose cuts the leader off until the others have another, and takes it back.
func (w *world) depose() {
	w.t.Helper()
	old := w.leader()
	for i := range w.peers {
		if i != old {
			w.net.Cut(w.peers[old].ID, w.peers[i].ID)
		}
	}
	eventually(w.t, "another leader", func() error {
		for i, n := range w.nodes {
			if i != old && n.Status().Role == "leader" && n.Ready() == nil {
				return nil
			}
		}
		return fmt.Errorf("nobody else leads")
	})
	w.net.Heal()
	w.ready()
}

// reserve asks node i for the key, on nobody's behalf.
func (w *world) reserve(i int, r onced.ReserveRequest) (onced.ReserveResult, onced.Code) {
	w.t.Helper()
	r.Fingerprint = "f"
	got, err := w.nodes[i%3].Reserve(context.Background(), r)
	if err != nil {
		return got, onced.CodeOf(err)
	}
	return got, ""
}

// want fails the test unless a reserve of the key at node i ends with the code, "" = it is granted.
func (w *world) want(i int, key string, code onced.Code) onced.Record {
	w.t.Helper()
	got, had := w.reserve(i, onced.ReserveRequest{ID: id(key)})
	if had != code || code == "" && got.Replayed {
		w.t.Fatalf("%s: %q is %q (replayed: %v), want %q", time.Now().Format(time.TimeOnly), key, had, got.Replayed, code)
	}
	return got.Record
}

// TestLeasesOfHours: leases and retentions last as long as they say, by the cluster's time, whoever leads.
func TestLeasesOfHours(t *testing.T) {
	inVirtualTime(t, calm, func(w *world) {
		held := w.grant(onced.ReserveRequest{ID: id("held"), Lease: hour})
		again := w.grant(onced.ReserveRequest{ID: id("again"), Lease: hour, OnLapse: onced.Retry})

		w.depose()
		time.Sleep(55 * hour / 60)
		w.restart(w.leader())
		w.want(0, "held", onced.CodeRequestInProgress)
		w.want(1, "again", onced.CodeRequestInProgress)

		time.Sleep(7 * hour / 60)
		w.want(2, "held", onced.CodeOutcomeUnknown)
		next := w.want(0, "again", "")
		if next.Attempt != 2 || next.Token <= again.Token {
			t.Errorf("taken over as %+v, the first was %+v", next, again)
		}
		w.complete("again", again.Token, onced.CodeStaleToken)
		w.complete("again", next.Token, "")
		w.complete("held", held.Token, "") // late, and nobody else had it
	})
}

// TestRenewedForHours: a lease that is renewed in time holds on through any number of leaders; one that is not
// lapses, and its holder may still revive it.
func TestRenewedForHours(t *testing.T) {
	inVirtualTime(t, calm, func(w *world) {
		held := w.grant(onced.ReserveRequest{ID: id("k"), Lease: hour / 3})
		for i := range 6 {
			time.Sleep(15 * hour / 60)
			if i%2 == 0 {
				w.depose()
			} else {
				w.restart(w.leader())
			}
			w.want(i, "k", onced.CodeRequestInProgress)
			w.renew(i+1, held.Token)
		}
		time.Sleep(21 * hour / 60)
		w.want(0, "k", onced.CodeOutcomeUnknown)
		w.renew(1, held.Token)
		w.want(2, "k", onced.CodeRequestInProgress)
	})
}

// TestRetentionOfHours: an answer is kept for its retention, then its tombstone says so for as long as it was
// asked for, then the key is unused.
func TestRetentionOfHours(t *testing.T) {
	inVirtualTime(t, calm, func(w *world) {
		plain := w.grant(onced.ReserveRequest{ID: id("plain"), Retention: hour})
		marked := w.grant(onced.ReserveRequest{ID: id("marked"), Retention: hour, Tombstone: hour})
		w.complete("plain", plain.Token, "")
		w.complete("marked", marked.Token, "")

		time.Sleep(55 * hour / 60)
		w.depose()
		for i := range 3 {
			if got, code := w.reserve(i, onced.ReserveRequest{ID: id("plain")}); code != "" || !got.Replayed {
				t.Fatalf("within its retention: %+v, %q", got, code)
			}
		}
		time.Sleep(7 * hour / 60)
		if next := w.want(0, "plain", ""); next.Attempt != 1 || next.Token <= plain.Token {
			t.Errorf("after its retention: %+v, before %+v", next, plain)
		}
		w.want(1, "marked", onced.CodeKeyExpired)
		w.restart(w.leader())
		time.Sleep(50 * hour / 60)
		w.want(2, "marked", onced.CodeKeyExpired)
		time.Sleep(10 * hour / 60)
		w.want(0, "marked", "")
	})
}

// grant reserves a key that is unused.
func (w *world) grant(r onced.ReserveRequest) onced.Record {
	w.t.Helper()
	got, code := w.reserve(0, r)
	if code != "" || got.Replayed {
		w.t.Fatalf("reserving %s: %+v, %q", r.Key, got, code)
	}
	return got.Record
}

func (w *world) complete(key string, token onced.Token, code onced.Code) {
	w.t.Helper()
	_, err := w.nodes[1].Complete(context.Background(), onced.CompleteRequest{ID: id(key), Token: token, Response: answer("done")})
	if got := codeOf(err); got != code {
		w.t.Errorf("completing %s: %v, want %q", key, err, code)
	}
}

func (w *world) renew(i int, token onced.Token) {
	w.t.Helper()
	if _, err := w.nodes[i%3].Renew(context.Background(), onced.RenewRequest{ID: id("k"), Token: token}); err != nil {
		w.t.Fatalf("renewing: %v", err)
	}
}

// codeOf is the code of an error, "" of none.
func codeOf(err error) onced.Code {
	if err == nil {
		return ""
	}
	return onced.CodeOf(err)
}
