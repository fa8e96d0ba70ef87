package check

import (
	"slices"
	"strings"
	"time"

	"onced/chaos/history"
)

// Gap is how long nobody could write during the faults of one name, alone and together with another.
type Gap struct {
	Fault        string
	Alone, Mixed Pauses
}

// Pauses are the longest pauses of some windows.
type Pauses struct {
	Times         int
	Lasted        time.Duration // a window, until the cluster was well again; median
	Median, Worst time.Duration
}

// span is one window, and the longest pause in it.
type span struct{ lasted, pause time.Duration }

// Together stands between the names of faults that came at once.
const Together = " + "

// Gaps measures the longest pause between two acknowledged writes in each window, and sums them up by the names of the
// faults, in the order of the names.
func Gaps(writes []int64, windows []history.Window) (gaps []Gap) {
	writes = slices.Clone(writes)
	slices.Sort(writes)
	alone, mixed, names := map[string][]span{}, map[string][]span{}, map[string]bool{}
	for _, w := range windows {
		s := span{time.Duration(w.Until - w.From), longest(writes, w.From, w.Until)}
		faults, into := strings.Split(w.Fault, Together), alone
		if len(faults) > 1 {
			into = mixed
		}
		for _, fault := range faults {
			into[fault], names[fault] = append(into[fault], s), true
		}
	}
	for _, fault := range sorted(names) {
		gaps = append(gaps, Gap{fault, pauses(alone[fault]), pauses(mixed[fault])})
	}
	return gaps
}

func pauses(all []span) (p Pauses) {
	p.Times = len(all)
	p.Lasted, _ = middle(all, func(s span) time.Duration { return s.lasted })
	p.Median, p.Worst = middle(all, func(s span) time.Duration { return s.pause })
	return p
}

// middle is the median and the largest of a figure; of two medians the smaller one.
func middle(all []span, of func(span) time.Duration) (median, largest time.Duration) {
	if len(all) == 0 {
		return 0, 0
	}
	sorted := make([]time.Duration, len(all))
	for i, s := range all {
		sorted[i] = of(s)
	}
	slices.Sort(sorted)
	return sorted[(len(sorted)-1)/2], sorted[len(sorted)-1]
}

// longest is the longest pause that overlaps a window, cut to where the writes around it were.
func longest(writes []int64, from, until int64) time.Duration {
	last, most := from, int64(0)
	for _, at := range writes {
		if at <= from {
			continue
		}
		if most = max(most, at-last); at >= until {
			return time.Duration(most)
		}
		last = at
	}
	return time.Duration(max(most, until-last))
}
