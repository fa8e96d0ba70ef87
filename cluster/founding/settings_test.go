package founding

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// disk is a Storage without a node around it.
type disk struct {
	id    Identity
	known bool
	err   error
}

func (d *disk) Identity() (Identity, bool) { return d.id, d.known }

func (d *disk) SetIdentity(id Identity) error {
	if d.err == nil {
		d.id, d.known = id, true
	}
	return d.err
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"alone", Config{}, ""},
		{"three", Config{Peers: three}, ""},
		{"join", Config{Join: "n2:1"}, ""},
		{"both", Config{Peers: three, Join: "n2:1"}, "give one of them"},
		{"no id", Config{NodeID: "-"}, ""},
		{"bad id", Config{NodeID: "n 1"}, `node id "n 1"`},
		{"bad join", Config{Join: "n2"}, "--join: address"},
		{"join itself", Config{Join: "n1:1"}, "names this node itself"},
		{"id twice", Config{Peers: []Peer{{"n1", "n1:1"}, {"n1", "n2:1"}}}, "lists node n1 twice"},
		{"address twice", Config{Peers: []Peer{{"n1", "n1:1"}, {"n2", "n1:1"}}}, "lists the address n1:1 for n1 and for n2"},
		{"bad address", Config{Peers: []Peer{{"n1", "n1:1"}, {"n2", "n2"}}}, "--peers: node n2: address"},
		{"bad peer id", Config{Peers: []Peer{{"n1", "n1:1"}, {"n=2", "n2:1"}}}, `--peers: node id "n=2"`},
		{"without itself", Config{Peers: three[1:]}, "but not this node, n1"},
		{"elsewhere", Config{Peers: []Peer{{"n1", "x:1"}, {"n2", "n2:1"}}}, "at x:1, but it advertises n1:1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := tc.cfg
			if cfg.NodeID == "" {
				cfg.NodeID = "n1"
			}
			cfg.Addr, cfg.Storage = "n1:1", new(disk)
			_, err := New(cfg)
			var refused *RefusedError
			if tc.want == "" && err != nil || tc.want != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Line, tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestResume(t *testing.T) {
	for _, tc := range []struct {
		name  string
		id    Identity
		state bool
		join  string
		peers []Peer
		want  string // of the refusal
		boot  bool
		phase Phase // on disk afterwards
	}{
		{"member", Identity{"c", "n1", PhaseMember}, true, "", three, "", false, PhaseMember},
		{"member without its log", Identity{"c", "n1", PhaseMember}, false, "", three, "its raft log is gone", false, PhaseMember},
		{"another node's", Identity{"c", "n2", PhaseMember}, true, "", three, "belongs to node n2 of cluster c, but --node-id is n1", false, PhaseMember},
		{"invited", Identity{"c", "n1", PhaseInvited}, false, "", three, "", false, PhaseInvited},
		{"invited, then ran", Identity{"c", "n1", PhaseInvited}, true, "", three, "", false, PhaseMember},
		{"founding, bootstrapped", Identity{"c", "n1", PhaseFounding}, true, "", three, "", false, PhaseMember},
		{"founding alone", Identity{"c", "n1", PhaseFounding}, false, "", nil, "", true, PhaseFounding},
		{"joining, ran", Identity{"c", "n1", PhaseJoining}, true, "", nil, "", false, PhaseMember},
		{"joining without --join", Identity{"c", "n1", PhaseJoining}, false, "", nil, "start it with --join again", false, PhaseJoining},
		{"of a later version", Identity{"c", "n1", "dreaming"}, false, "", nil, `the phase "dreaming"`, false, "dreaming"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &disk{id: tc.id, known: true}
			f, err := New(Config{NodeID: "n1", Addr: "n1:1", Peers: tc.peers, Join: tc.join, Storage: d, HasState: func() bool { return tc.state }})
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Run(context.Background())
			var refused *RefusedError
			switch {
			case tc.want != "":
				if !errors.As(err, &refused) || !strings.Contains(refused.Line, tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
			case err != nil || got.ClusterID != "c" || got.Bootstrap != tc.boot:
				t.Errorf("decision %+v, %v", got, err)
			}
			if d.id.Phase != tc.phase {
				t.Errorf("phase %q on disk, want %q", d.id.Phase, tc.phase)
			}
		})
	}
}

func TestAlone(t *testing.T) {
	d := new(disk)
	f, err := New(Config{NodeID: "n1", Addr: "n1:1", Storage: d})
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Run(context.Background())
	if err != nil || !got.Bootstrap || len(got.ClusterID) != 32 || len(got.Servers) != 1 || got.Servers[0] != (Peer{"n1", "n1:1"}) {
		t.Fatalf("decision %+v, %v", got, err)
	}
	if d.id != (Identity{got.ClusterID, "n1", PhaseFounding}) {
		t.Errorf("on disk %+v before the bootstrap", d.id)
	}
	if err := f.Settle(); err != nil || d.id.Phase != PhaseMember {
		t.Errorf("after Settle %+v, %v", d.id, err)
	}
}

func TestLogWithoutIdentity(t *testing.T) {
	f, err := New(Config{NodeID: "n1", Addr: "n1:1", Storage: new(disk), HasState: func() bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if _, err := f.Run(context.Background()); !errors.As(err, &refused) || !strings.Contains(refused.Line, "no identity") {
		t.Errorf("error %v", err)
	}
}

func TestDiskThatFailsIsNoRefusal(t *testing.T) {
	broken := errors.New("no space left on device")
	f, err := New(Config{NodeID: "n1", Addr: "n1:1", Storage: &disk{err: broken}})
	if err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if _, err := f.Run(context.Background()); !errors.Is(err, broken) || errors.As(err, &refused) {
		t.Errorf("error %v", err)
	}
}
