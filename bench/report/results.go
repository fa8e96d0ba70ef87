package report

import (
	"slices"
	"sort"
	"time"
)

// Results are all samples of a comparison.
type Results struct {
	Begun    time.Time                       `json:"begun"`
	Took     time.Duration                   `json:"took_ns"`
	Machine  Machine                         `json:"machine"`
	Versions map[string]string               `json:"versions"` // by system
	Settings string                          `json:"settings"`
	Systems  []string                        `json:"systems"`
	Samples  map[string]map[string][]float64 `json:"samples"` // by metric and system, in the order of the runs
	Skipped  map[string]string               `json:"skipped"` // systems that could not be had, and why
	Failures []string                        `json:"failures"`
}

// New returns empty results.
func New() *Results {
	return &Results{Begun: time.Now(), Samples: map[string]map[string][]float64{}, Skipped: map[string]string{}, Versions: map[string]string{}}
}

// Add notes one sample.
func (r *Results) Add(metric, system string, value float64) {
	if r.Samples[metric] == nil {
		r.Samples[metric] = map[string][]float64{}
	}
	r.Samples[metric][system] = append(r.Samples[metric][system], value)
}

// Has tells whether there is a sample.
func (r *Results) Has(metric, system string) bool { return len(r.Samples[metric][system]) > 0 }

// Value is the median of the samples, or the sum of those of a fault. It is not ok where there are none.
func (r *Results) Value(m Metric, system string) (v float64, ok bool) {
	samples := r.Samples[m.Key][system]
	if len(samples) == 0 {
		return 0, false
	}
	if m.Fault {
		for _, s := range samples {
			v += s
		}
		return v, true
	}
	return Median(samples), true
}

// Median is the middle one, or the mean of the two in the middle; 0 of none.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Clone(samples)
	sort.Float64s(sorted)
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// value is that of the metric named key.
func (r *Results) value(key, system string) (float64, bool) {
	for _, m := range Metrics() {
		if m.Key == key {
			return r.Value(m, system)
		}
	}
	return 0, false
}

// Faults tells whether something happened that must not.
func (r *Results) Faults() bool {
	for _, m := range Metrics() {
		if v, _ := r.Value(m, "onced"); m.Fault && v > 0 {
			return true
		}
	}
	return false
}
