package clock

import "slices"

// maxWall is the largest wall clock that is taken for a clock (about the year
// 10889). One beyond it, or before the epoch, is as good as no answer.
const maxWall = int64(1) << 48

// sound returns the answers that can be a wall clock at all, in rising order.
func sound(answers []Answer) []int64 {
	sorted := make([]int64, 0, len(answers))
	for _, a := range answers {
		if a.Wall > 0 && a.Wall < maxWall {
			sorted = append(sorted, a.Wall)
		}
	}
	slices.Sort(sorted)
	return sorted
}

// lowerMedian returns the lower median of sorted, which is not empty.
func lowerMedian(sorted []int64) int64 { return sorted[(len(sorted)-1)/2] }

// base is where a term begins, in milliseconds: see the package comment.
func base(least int64, answers []Answer, voters int) int64 {
	running, term := int64(0), uint64(0)
	for _, a := range answers {
		switch {
		case a.Floor == 0 || a.Term < term:
		case a.Term > term:
			running, term = a.Floor, a.Term
		default:
			running = max(running, a.Floor)
		}
	}
	if running != 0 {
		return max(least, running)
	}
	sorted := sound(answers)
	if len(sorted) == 0 || len(sorted) == 1 && voters > 1 {
		return least
	}
	return max(least, lowerMedian(sorted))
}
