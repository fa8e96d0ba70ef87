package founding

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Every node says which lists differ, the one that was asked too.
func TestDifferentLists(t *testing.T) {
	for _, order := range orders {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "n1", "n2", "n3")
			defer w.stop()
			w.nodes["n2"].list = []Peer{three[0], three[1], {"n3", "typo:1"}}
			for _, id := range order {
				w.nodes[id].start()
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
			for _, id := range order {
				line := w.nodes[id].refusal()
				if !strings.Contains(line, "--peers differ") || !strings.Contains(line, "typo:1") {
					t.Errorf("%v: %s", order, w.nodes[id].state())
				}
			}
			if ids, _, _ := w.facts(); ids != 0 {
				t.Errorf("%v: %d ids were made", order, ids)
			}
		})
	}
}

// Two of them stop for good, so that the asked one has nobody to ask.
func TestDifferentListsWhenTheOtherIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "n1", "n2")
		defer w.stop()
		w.nodes["n2"].list = append([]Peer{{"n3", "n3:1"}}, w.servers...)
		w.nodes["n1"].start()
		time.Sleep(time.Second)
		n2 := w.nodes["n2"]
		n2.start()
		n2.wg.Wait()
		n2.kill()
		time.Sleep(5 * time.Second)
		if line := w.nodes["n1"].refusal(); !strings.Contains(line, "--peers differ") {
			t.Errorf("%s", w.nodes["n1"].state())
		}
	})
}

func TestForeignCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "n1", "n2", "n3")
		defer w.stop()
		n2 := w.nodes["n2"]
		n2.list = nil // founds its own
		n2.start()
		n2.wg.Wait()
		w.nodes["n1"].start()
		time.Sleep(5 * time.Second)
		if line := w.nodes["n1"].refusal(); !strings.Contains(line, "belongs to cluster "+w.cluster()+", which has no member n1") {
			t.Errorf("%s", w.nodes["n1"].state())
		}
	})
}

func TestCheckPeers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		foreign []string
		refused bool
		logged  bool
	}{
		{"all ours", nil, false, false},
		{"one foreign", []string{"n3"}, false, true},
		{"both foreign", []string{"n2", "n3"}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "n1", "n2", "n3")
				defer w.stop()
				for _, p := range w.servers {
					w.nodes[p.ID].start()
				}
				w.settle()
				w.replicate()
				for _, id := range tc.foreign {
					w.mu.Lock()
					w.nodes[id].identity.ClusterID = "another"
					w.mu.Unlock()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				err := w.nodes["n1"].f.CheckPeers(ctx)
				var refused *RefusedError
				if errors.As(err, &refused) != tc.refused {
					t.Errorf("error %v", err)
				}
				if got := strings.Contains(w.lines(), "leads to another cluster"); got != tc.logged {
					t.Errorf("logged=%t:\n%s", got, w.lines())
				}
			})
		})
	}
}
