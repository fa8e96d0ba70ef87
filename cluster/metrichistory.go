package cluster

import "github.com/prometheus/client_golang/prometheus"

// tableHistory shows the checksum of the table's history with the log index that it is of, so
// that an operator can compare two nodes: at the same index they have the same history, or one of them is wrong.
//
// The checksum has 64 bits and a metric's float64 carries 53, so it comes in two halves of 32. A label would
// carry it whole, but would make a new time series at every scrape. The three figures are of one moment
// within one scrape, which separate gauges would not be.
type tableHistory struct {
	read func() (index, history uint64)
}

var (
	historyIndex = prometheus.NewDesc("onced_table_history_index",
		"The log index that onced_table_history is of.", nil, nil)
	historyHalf = prometheus.NewDesc("onced_table_history",
		"A half (32 bits) of the checksum of everything that was written to this node's table: nodes with the same onced_table_history_index must agree in both halves.",
		[]string{"half"}, nil)
)

// Describe is part of prometheus.Collector.
func (h tableHistory) Describe(descs chan<- *prometheus.Desc) {
	descs <- historyIndex
	descs <- historyHalf
}

// Collect is part of prometheus.Collector.
func (h tableHistory) Collect(metrics chan<- prometheus.Metric) {
	index, history := h.read()
	gauge := func(d *prometheus.Desc, v uint64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	gauge(historyIndex, index)
	gauge(historyHalf, history>>32, "high")
	gauge(historyHalf, history&(1<<32-1), "low")
}
