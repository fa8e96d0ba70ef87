package report

import "fmt"

// Metric is something that is measured.
type Metric struct {
	Key   string // in the JSON
	Title string
	Unit  string
	More  bool // more of it is better
	Fault bool // it counts what must not be
}

// Levels are the numbers of callers that pairs are measured with.
var Levels = []int{1, 16, 64, 256}

// ChargeLevels are the numbers of clients of the workload of requests.
var ChargeLevels = []int{16, 64}

// Metrics are all there are, in the order of the table.
func Metrics() (all []Metric) {
	add := func(key, title, unit string, more bool) { all = append(all, Metric{key, title, unit, more, false}) }
	fault := func(key, title string) { all = append(all, Metric{key, title, "", false, true}) }
	for _, n := range ChargeLevels {
		add(fmt.Sprintf("charge%d.unique_p50", n), fmt.Sprintf("12,000 requests, %d at once: unique p50", n), "ms", false)
		add(fmt.Sprintf("charge%d.repeat_p50", n), fmt.Sprintf("12,000 requests, %d at once: repeats p50", n), "ms", false)
	}
	fault("charge.double", "keys charged twice")
	fault("chargekill.double", "keys charged twice, leader killed half-way")
	add("chargekill.unknown", "honest unknowns, leader killed half-way", "", false)
	for _, n := range Levels {
		add(fmt.Sprintf("pairs%d.rate", n), fmt.Sprintf("pairs, %s", callers(n)), "/s", true)
		add(fmt.Sprintf("pairs%d.p50", n), fmt.Sprintf("pair p50, %s", callers(n)), "ms", false)
		add(fmt.Sprintf("pairs%d.p99", n), fmt.Sprintf("pair p99, %s", callers(n)), "ms", false)
		add(fmt.Sprintf("pairs%d.cpu", n), fmt.Sprintf("processor time of all servers per 1,000 pairs, %s", callers(n)), "s", false)
	}
	add("batch.rate", "pairs by batches of 100, 16 callers", "/s", true)
	add("batch.cpu", "processor time of all servers per 1,000 pairs by batches", "s", false)
	add("replays.rate", "replays, 64 callers", "/s", true)
	add("replays.p50", "replay p50, 64 callers", "ms", false)
	add("replays.cpu", "processor time of all servers per 1,000 replays", "s", false)
	add("open.p50", "open loop at the same rate for all: pair p50", "ms", false)
	add("open.p99", "open loop: pair p99", "ms", false)
	add("open.p999", "open loop: pair p99.9", "ms", false)
	for _, s := range Sizes {
		add("size"+s.Key+".table", "disk for each of "+s.Title+" keys, on each copy, without the log", "bytes", false)
		add("size"+s.Key+".disk", "the same with the log and everything", "bytes", false)
		add("size"+s.Key+".memory", "resident memory of all store processes at "+s.Title+" keys", "MiB", false)
		add("size"+s.Key+".own", "the same without the pages of files, which the kernel takes back", "MiB", false)
		add("size"+s.Key+".fifth", "that when a fifth of the keys was there", "MiB", false)
		add("size"+s.Key+".growth", "growth of resident memory for each of "+s.Title+" keys", "bytes", false)
		add("size"+s.Key+".written", "written to the disk for each of "+s.Title+" keys, on each copy, while they were stored", "bytes", false)
		add("size"+s.Key+".restart", "restart with "+s.Title+" keys until every door has done a pair", "s", false)
		add("size"+s.Key+".replace", "a new member with an empty directory, until it has "+s.Title+" keys and serves", "s", false)
	}
	add("gap", "leader killed: longest time without a pair", "s", false)
	add("catchup.writes", "writes that a member missed", "", true)
	add("catchup.ready", "from its start until it is ready", "s", false)
	add("catchup.even", "from its start until it has all of them", "s", false)
	for _, w := range [][2]string{{"before", "before"}, {"with", "while it catches up"}} {
		add("catchup."+w[0]+"_p50", "the others "+w[1]+": pair p50", "ms", false)
		add("catchup."+w[0]+"_p99", "the others "+w[1]+": pair p99", "ms", false)
		add("catchup."+w[0]+"_stall", "the others "+w[1]+": longest time without a pair", "ms", false)
	}
	add("chores.rate", "rate of the loop beside snapshot and purge", "/s", true)
	for _, when := range []string{"without", "with"} {
		add("chores."+when+"_p99", when+" snapshot and purge: pair p99", "ms", false)
		add("chores."+when+"_p999", when+" snapshot and purge: pair p99.9", "ms", false)
		add("chores."+when+"_stall", when+" snapshot and purge: longest time without a pair", "ms", false)
	}
	add("chores.snapshots", "nodes that took a snapshot meanwhile", "", true)
	return all
}

// SizeLevel is a number of keys that are measured.
type SizeLevel struct {
	Key, Title string
	Keys       int
}

// Sizes are those there are; the last is measured when it is asked for.
var Sizes = []SizeLevel{{"200k", "200,000", 200_000}, {"5m", "5 million", 5_000_000}}

func callers(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}
