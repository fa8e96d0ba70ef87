// Package histogram counts times, for whoever tells how long calls took.
//
// Invariants:
//
//   - Its size does not grow with the number of times, and it is safe for concurrent use.
//   - A quantile is never below the true one by more than a microsecond, nor above it by more than 1.6 %, and never above the longest time.
package histogram

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	subBits = 6 // 64 buckets for each doubling: values are right to 1.6 %
	subSize = 1 << subBits
	buckets = subSize * 40 // up to 150 hours
)

// Histogram counts times. The zero value is empty.
type Histogram struct {
	counts [buckets]atomic.Uint64
	n      atomic.Uint64
	max    atomic.Int64 // nanoseconds
}

// bucketOf returns the bucket of a time in microseconds.
func bucketOf(us uint64) int {
	shift := max(bits.Len64(us)-subBits-1, 0)
	return min(shift*subSize+int(us>>shift), buckets-1)
}

// edgeOf returns the largest time in microseconds that bucket i counts.
func edgeOf(i int) uint64 {
	if i < 2*subSize {
		return uint64(i)
	}
	shift := i/subSize - 1
	return uint64(i-shift*subSize+1)<<shift - 1
}

// Add counts d; one below zero counts as none.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0).Microseconds()))].Add(1)
	h.n.Add(1)
	for {
		old := h.max.Load()
		if int64(d) <= old || h.max.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// Quantile returns the time that a part q, from 0 to 1, of all do not exceed.
func (h *Histogram) Quantile(q float64) time.Duration {
	highest := time.Duration(h.max.Load())
	want := uint64(math.Ceil(q * float64(h.n.Load())))
	var seen uint64
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= want && seen > 0 {
			return min(time.Duration(edgeOf(i))*time.Microsecond, highest)
		}
	}
	return highest
}

// Count returns how many times were added.
func (h *Histogram) Count() uint64 { return h.n.Load() }

// Max returns the longest time.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max.Load()) }
