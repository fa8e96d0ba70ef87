// Package report turns what a comparison measured into a table with ratios, the bars of the product, JSON and a plot.
//
// Invariants:
//
//   - A figure is the median of its runs; a count of faults is the sum of them.
//   - A bar that was not measured is neither met nor missed.
package report
