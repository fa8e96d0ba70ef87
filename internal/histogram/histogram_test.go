package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestHistogram compares quantiles with those of the sorted times.
func TestHistogram(t *testing.T) {
	var h Histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(math.Exp(rand.Float64()*20)) * time.Microsecond // up to 8 minutes
		h.Add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
		if got := h.Quantile(q); float64(got) < float64(want)*0.999 || float64(got) > float64(want)*1.02+2000 {
			t.Errorf("quantile %v is %s, want %s", q, got, want)
		}
	}
	h.Add(1000 * time.Hour)
	if got := h.Quantile(1); got > 1000*time.Hour || got < 100*time.Hour {
		t.Errorf("the longest is %s", got)
	}
}

func TestBuckets(t *testing.T) {
	last := -1
	for us := uint64(0); us < 1<<16; us++ {
		i := bucketOf(us)
		if i != last && i != last+1 || edgeOf(i) < us || i > 0 && edgeOf(i-1) >= us {
			t.Fatalf("%d is in bucket %d, whose edge is %d, after bucket %d", us, i, edgeOf(i), last)
		}
		last = i
	}
}
