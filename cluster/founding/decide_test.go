package founding

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

var three = []Peer{{"n1", "n1:1"}, {"n2", "n2:1"}, {"n3", "n3:1"}}

// kinds are all that a listed peer can answer, and what an empty node that founds, or
// does not, makes of it: "" = it is as wanted, "wait", or a part of the refusal.
var kinds = []struct {
	name    string
	of      func(p Peer) reply
	founder string
	other   string
}{
	{"silent", func(Peer) reply { return reply{err: errors.New("connection refused")} }, "wait", "wait"},
	{"empty", func(p Peer) reply { return say(p, Hello{}) }, "", ""},
	{"another list", func(p Peer) reply {
		return say(p, Hello{Peers: []Peer{three[0], three[1], {"n3", "elsewhere:1"}}})
	}, "--peers differ", "--peers differ"},
	{"joining another way", func(p Peer) reply { return say(p, Hello{Peers: []Peer{}, Join: "x:1"}) }, "was started with --join x:1", "was started with --join x:1"},
	{"another node", func(p Peer) reply { return say(Peer{"n9", p.Address}, Hello{}) }, "but node n9 answers there", "but node n9 answers there"},
	{"founding", func(p Peer) reply { return say(p, Hello{ClusterID: "c", Phase: PhaseFounding}) }, "was invited to cluster c", ""},
	{"invited", func(p Peer) reply { return say(p, Hello{ClusterID: "c", Phase: PhaseInvited}) }, "was invited to cluster c", ""},
	{"invited with another list", func(p Peer) reply {
		return say(p, Hello{ClusterID: "c", Phase: PhaseInvited, Peers: append([]Peer{{"n4", "n4:1"}}, three...)})
	}, "was invited to cluster c", "--peers differ"},
	{"invited without us", func(p Peer) reply {
		return say(p, Hello{ClusterID: "c", Phase: PhaseInvited, Peers: []Peer{p}})
	}, "which has no member", "which has no member"},
	{"joining", func(p Peer) reply { return say(p, Hello{ClusterID: "c", Phase: PhaseJoining}) }, "which has no member", "which has no member"},
	{"starting", func(p Peer) reply { return say(p, Hello{ClusterID: "c", Phase: PhaseMember, HasState: true}) }, "wait", "wait"},
	{"running with us", func(p Peer) reply {
		return say(p, Hello{ClusterID: "c", Phase: PhaseMember, HasState: true, Members: []Member{{"n1", "n1:1", true}, {"n2", "n2:1", true}, {"n3", "n3:1", false}}})
	}, "must never vote again", "must never vote again"},
	{"running invitee", func(p Peer) reply {
		return say(p, Hello{ClusterID: "c", Phase: PhaseInvited, HasState: true, Members: []Member{{"n1", "n1:1", true}, {"n2", "n2:1", true}, {"n3", "n3:1", true}}})
	}, "must never vote again", "must never vote again"},
	{"running without us", func(p Peer) reply {
		return say(p, Hello{ClusterID: "c", Phase: PhaseMember, HasState: true, Members: []Member{{p.ID, p.Address, true}}})
	}, "which has no member", "which has no member"},
	{"of another cluster", func(p Peer) reply {
		return say(p, Hello{ClusterID: "d", Phase: PhaseMember, HasState: true, Members: []Member{{p.ID, p.Address, true}}})
	}, "which has no member", "which has no member"},
}

// say fills in what a peer says unless told otherwise.
func say(p Peer, h Hello) reply {
	h.NodeID, h.Address = p.ID, p.Address
	if h.Peers == nil {
		h.Peers = three
	}
	return reply{hello: h}
}

func TestJudgeEmptyOverAllCombinations(t *testing.T) {
	for _, self := range three {
		var others []Peer
		for _, p := range three {
			if p != self {
				others = append(others, p)
			}
		}
		founder := self.ID == "n1"
		for _, a := range kinds {
			for _, b := range kinds {
				wantA, wantB := a.other, b.other
				if founder {
					wantA, wantB = a.founder, b.founder
				}
				t.Run(fmt.Sprintf("%s,%s,%s", self.ID, a.name, b.name), func(t *testing.T) {
					v, refused := judgeEmpty(Hello{NodeID: self.ID, Address: self.Address, Peers: three},
						map[string]reply{others[0].ID: a.of(others[0]), others[1].ID: b.of(others[1])}, nil)
					expect(t, v, refused, founder && a.name == "empty" && b.name == "empty", wantA, wantB)
				})
			}
		}
	}
}

// expect compares a verdict with what each of the two answers asks for.
func expect(t *testing.T, v verdict, refused *RefusedError, found bool, wants ...string) {
	t.Helper()
	waits, lines := 0, []string{"different clusters"}
	for _, want := range wants {
		switch want {
		case "":
		case "wait":
			waits++
		default:
			lines = append(lines, want)
		}
	}
	if len(lines) > 1 { // at least one asks for a refusal
		if refused == nil || v.found {
			t.Fatalf("verdict %+v, want a refusal", v)
		}
		for _, l := range lines {
			if strings.Contains(refused.Line, l) && !strings.Contains(refused.Line, "\n") {
				return
			}
		}
		t.Fatalf("refused with %q, want one of %q", refused.Line, lines)
	}
	if refused != nil && !strings.Contains(refused.Line, "different clusters") {
		t.Fatalf("refused: %v", refused)
	}
	if v.found != found || refused == nil && len(v.missing) != waits {
		t.Errorf("verdict %+v, want found=%t and %d missing", v, found, waits)
	}
}

func TestHearsayOnlyRefuses(t *testing.T) {
	self := Hello{NodeID: "n1", Peers: three}
	silent := map[string]reply{"n2": {err: errors.New("refused")}, "n3": say(three[2], Hello{})}
	same := map[string]Hello{"n2": {NodeID: "n2", Address: "n2:1", Peers: three}}
	if v, refused := judgeEmpty(self, silent, same); v.found || refused != nil || len(v.missing) != 1 {
		t.Errorf("verdict %+v, %v: a peer that asked has not answered", v, refused)
	}
	other := map[string]Hello{"n2": {NodeID: "n2", Address: "n2:1", Peers: three[:2]}}
	if _, refused := judgeEmpty(self, silent, other); refused == nil || !strings.Contains(refused.Line, "--peers differ") {
		t.Errorf("refused %v", refused)
	}
	// Its answer is newer than what it said when it asked.
	answered := map[string]reply{"n2": say(three[1], Hello{}), "n3": say(three[2], Hello{})}
	if v, refused := judgeEmpty(self, answered, other); !v.found || refused != nil {
		t.Errorf("verdict %+v, %v", v, refused)
	}
}

func TestListOrderDoesNotMatter(t *testing.T) {
	turned := []Peer{three[2], three[0], three[1]}
	if !samePeers(three, turned) || founderOf(turned) != "n1" {
		t.Error("the order of the list matters")
	}
	if samePeers(three, three[:2]) || samePeers(three, []Peer{three[0], three[1], {"n3", "n3:2"}}) {
		t.Error("different lists are called the same")
	}
}

func TestJudgeReturning(t *testing.T) {
	own, other, none := Hello{ClusterID: "c"}, Hello{ClusterID: "d"}, Hello{}
	for _, tc := range []struct {
		name    string
		others  int
		hellos  []Hello
		settled bool
		refused bool
	}{
		{"alone", 0, nil, true, false},
		{"nobody answers", 2, nil, false, false},
		{"one of ours", 2, []Hello{own}, true, false},
		{"one foreign of three", 2, []Hello{other}, false, false},
		{"one foreign, one ours", 2, []Hello{other, own}, true, false},
		{"both foreign", 2, []Hello{other, other}, false, true},
		{"the other of two", 1, []Hello{other}, false, true},
		{"two foreign of five", 4, []Hello{other, other, own}, false, false},
		{"three foreign of five", 4, []Hello{other, other, other, own}, false, true},
		{"wiped ones say nothing", 2, []Hello{none, none}, false, false},
	} {
		settled, _, refused := judgeReturning("c", tc.others, tc.hellos)
		if settled != tc.settled || (refused != nil) != tc.refused {
			t.Errorf("%s: settled=%t refused=%v", tc.name, settled, refused)
		}
	}
}
