//go:build linux

package nemesis

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// picks are the names of the first faults that a seed leads to.
func picks(seed uint64, times int) (names [][]string) {
	n := &Nemesis{Faults: All, Seed: seed, Mixed: 0.5}
	for i := range times {
		var at []string
		for _, f := range n.pick(rand.New(rand.NewPCG(n.Seed, uint64(i)))) {
			at = append(at, f.Name)
		}
		names = append(names, at)
	}
	return names
}

func TestTheSeedDecides(t *testing.T) {
	a, b, other := picks(7, 200), picks(7, 200), picks(8, 200)
	same := func(x, y [][]string) bool { return slices.EqualFunc(x, y, slices.Equal) }
	if !same(a, b) {
		t.Error("one seed leads to different faults")
	}
	if same(a, other) {
		t.Error("two seeds lead to the same faults")
	}
}

func TestEveryFaultComesBeforeAnyComesAgain(t *testing.T) {
	first, mixed := map[string]int{}, 0
	for _, names := range picks(3, 2*len(All)) {
		first[names[0]]++
		if len(names) > 1 {
			mixed++
		}
		for _, f := range All {
			if len(names) > 1 && slices.Contains(names, f.Name) && f.alone {
				t.Errorf("%v come together", names)
			}
		}
	}
	for _, f := range All {
		if first[f.Name] != 2 {
			t.Errorf("%s came %d times, expected twice", f.Name, first[f.Name])
		}
	}
	if mixed == 0 {
		t.Error("nothing was mixed")
	}
}

func TestAloneFirst(t *testing.T) {
	n := &Nemesis{Faults: All, Seed: 3, Mixed: 1, AloneFirst: true}
	for i := range len(All) {
		if picked := n.pick(rand.New(rand.NewPCG(3, uint64(i)))); len(picked) != 1 {
			t.Errorf("%s came with another before it came alone", picked[0].Name)
		}
	}
	if picked := n.pick(rand.New(rand.NewPCG(3, 99))); picked[0].alone == (len(picked) == 2) {
		t.Errorf("afterwards %s comes as one of %d", picked[0].Name, len(picked))
	}
}

func TestWhatCanBeDone(t *testing.T) {
	for _, tc := range []struct {
		fault                       string
		contained, namespaces, wire bool
		want                        bool
	}{
		{"kill-leader", false, false, false, true},
		{"kill-leader", true, false, false, true},
		{"cut-leader", false, false, false, false},
		{"cut-leader", false, true, false, true},
		{"cut-leader", true, false, false, true},
		{"cut-bridge", true, false, false, false},
		{"wire-slow", false, true, false, false},
		{"wire-slow", false, true, true, true},
		{"clock-jump", false, false, false, true},
		{"clock-jump", true, false, false, false},
		{"damage-log", true, false, false, false},
	} {
		named, err := Named([]string{tc.fault})
		if err != nil {
			t.Fatal(err)
		}
		if got := possible(named[0], tc.contained, tc.namespaces, tc.wire); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

func TestNamed(t *testing.T) {
	cuts, err := Named([]string{"cut-*", "kill-all"})
	if err != nil || len(cuts) != 6 {
		t.Errorf("%v, %v", cuts, err)
	}
	if _, err := Named([]string{"rain"}); err == nil {
		t.Error("rain is no fault")
	}
	if all, err := Named(nil); err != nil || len(all) != len(All) {
		t.Errorf("%d, %v", len(all), err)
	}
}
