package report

import (
	"encoding/json"
	"errors"
)

// JSON is the results with their medians and the bars.
func (r *Results) JSON() ([]byte, error) {
	medians := map[string]map[string]float64{}
	for _, m := range Metrics() {
		for _, s := range r.Systems {
			if v, ok := r.Value(m, s); ok {
				if medians[m.Key] == nil {
					medians[m.Key] = map[string]float64{}
				}
				medians[m.Key][s] = v
			}
		}
	}
	var bars []map[string]any
	for _, b := range r.Bars() {
		if b.Known {
			bars = append(bars, map[string]any{"bar": b.Text, "measured": b.Got, "met": b.Met})
		}
	}
	return json.MarshalIndent(struct {
		*Results
		Medians map[string]map[string]float64 `json:"medians"`
		Bars    []map[string]any              `json:"bars"`
	}{r, medians, bars}, "", "  ")
}

// Read is the inverse of JSON. Medians and bars are not read: they follow from the samples.
func Read(data []byte) (*Results, error) {
	r := New()
	if err := json.Unmarshal(data, r); err != nil {
		return nil, err
	}
	if len(r.Samples) == 0 {
		return nil, errors.New("it has no samples")
	}
	return r, nil
}
