package demo

import (
	"maps"
	"slices"
	"time"
)

// tally is what one execution looked like from the clients' side.
type tally struct {
	requests int // steps; repeats on advice are not in it
	lost     int // answers that were lost on purpose
	replayed int
	unknown  int // requests that ended without an answer nobody can give
	unique   percentiles
	repeats  percentiles
	retries  map[string]int // requests sent again, by reason
	took     time.Duration
}

// percentiles are of the time from a request's first send to its answer.
type percentiles struct {
	n        int
	p50, p99 time.Duration
}

func newTally(p plan, results []result, took time.Duration) tally {
	t := tally{requests: len(results), retries: map[string]int{}, took: took}
	var unique, repeats []time.Duration
	for i, r := range results {
		for reason, n := range r.retries {
			t.retries[reason] += n
		}
		switch {
		case r.ending == lost:
			t.lost++
		case r.ending == unknown:
			t.unknown++
		case r.ending == answered && p.steps[i].repeat:
			repeats = append(repeats, r.took)
		case r.ending == answered:
			unique = append(unique, r.took)
		}
		if r.replayed {
			t.replayed++
		}
	}
	t.unique, t.repeats = percentilesOf(unique), percentilesOf(repeats)
	return t
}

// percentilesOf uses the nearest rank: the smallest value that p percent do not exceed.
func percentilesOf(took []time.Duration) percentiles {
	if len(took) == 0 {
		return percentiles{}
	}
	slices.Sort(took)
	rank := func(p int) time.Duration { return took[(len(took)*p+99)/100-1] }
	return percentiles{n: len(took), p50: rank(50), p99: rank(99)}
}

// retried is the number of requests that were sent again on advice.
func (t tally) retried() int {
	n := 0
	for _, count := range t.retries {
		n += count
	}
	return n
}

// reasons lists why requests were sent again, in the order of their names.
func (t tally) reasons() []string { return slices.Sorted(maps.Keys(t.retries)) }
