package report

import "fmt"

// Bar is a figure that the product is held to.
type Bar struct {
	Text  string
	Got   string
	Known bool // it was measured
	Met   bool
}

// Verdict is the bar's last column.
func (b Bar) Verdict() string {
	switch {
	case !b.Known:
		return "not measured"
	case b.Met:
		return "met"
	}
	return "**not met**"
}

// Bars judges the results.
func (r *Results) Bars() []Bar {
	return []Bar{
		r.none("no key charged twice", "charge.double"),
		r.none("no key charged twice with the leader killed half-way", "chargekill.double"),
		r.atMost("16 at once: unique p50 ≤ 38 ms", "charge16.unique_p50", 38, "ms"),
		r.atMost("16 at once: repeats p50 ≤ 1.4 ms", "charge16.repeat_p50", 1.4, "ms"),
		r.ahead("64 at once: unique p50 ahead of Redis", "charge64.unique_p50", "redis", 1),
		r.ahead("64 at once: repeats p50 ahead of Redis", "charge64.repeat_p50", "redis", 1),
		r.ahead("pairs ≥ 6 × etcd, 64 callers", "pairs64.rate", "etcd", 6),
		r.ahead("pairs ≥ 6 × etcd, 256 callers", "pairs256.rate", "etcd", 6),
		r.ahead("pairs ≥ 1.5 × Redis, 64 callers", "pairs64.rate", "redis", 1.5),
		r.ahead("pairs by batches ≥ 10 × etcd", "batch.rate", "etcd", 10),
		r.atMost("processor time per 1,000 pairs ≤ 0.25 s, 64 callers", "pairs64.cpu", 0.25, "s"),
		r.lone(),
		r.ahead("1 caller: pair p50 under etcd's", "pairs1.p50", "etcd", 1),
		r.ahead("replays ≥ 2.5 × Redis, 64 callers", "replays.rate", "redis", 2.5),
		r.atMost("disk ≤ 450 bytes for each of 200,000 keys, without the log", "size200k.table", 450, "bytes"),
		r.atMost("disk ≤ 450 bytes for each of 5 million keys, with the log", "size5m.disk", 450, "bytes"),
		r.flat(),
		r.atMost("restart with 5 million keys serves within 5 s", "size5m.restart", 5, "s"),
		r.chores(),
		r.atMost("leader killed: writing goes on within 1 s", "gap", 1, "s"),
	}
}

func (r *Results) none(text, key string) Bar {
	v, ok := r.value(key, "onced")
	return Bar{text, fmt.Sprintf("%.0f", v), ok, v == 0}
}

func (r *Results) atMost(text, key string, bound float64, unit string) Bar {
	v, ok := r.value(key, "onced")
	return Bar{text, number(v) + " " + unit, ok, v <= bound}
}

// ahead is a bar of so many times better than another system.
func (r *Results) ahead(text, key, other string, times float64) Bar {
	ratio, ok := r.Ratio(key, other)
	return Bar{text, fmt.Sprintf("%.2f ×", ratio), ok, ratio >= times}
}

// chores is only known where a snapshot came into the loop.
func (r *Results) chores() Bar {
	b := r.atMost("a snapshot or a purge stalls writes for ≤ 100 ms", "chores.with_stall", 100, "ms")
	taken, _ := r.value("chores.snapshots", "onced")
	b.Known = b.Known && taken > 0
	return b
}

// lone is the bar of a caller that is alone: PostgreSQL needs one machine's disk, a majority also the network.
func (r *Results) lone() Bar {
	own, ok1 := r.value("pairs1.p50", "onced")
	other, ok2 := r.value("pairs1.p50", "postgres")
	return Bar{"1 caller: pair p50 ≤ PostgreSQL's + 2 ms", fmt.Sprintf("%s ms beside %s ms", number(own), number(other)), ok1 && ok2, own <= other+2}
}

// flatBytes is how much memory for each key still counts as none: the heap is larger at one moment than at another.
const flatBytes = 16

// flat is the bar of memory. It is judged from a million keys on, both times after many of them were read, and without the pages of files: the log's are mapped, and are the kernel's
// to take back.
func (r *Results) flat() Bar {
	large := Sizes[1]
	before, ok1 := r.value("size"+large.Key+".fifth", "onced")
	after, ok2 := r.value("size"+large.Key+".own", "onced")
	growth := (after - before) * (1 << 20) / float64(large.Keys-large.Keys/5)
	return Bar{fmt.Sprintf("memory does not grow with the keys (≤ %d bytes for each, from 1 to 5 million, all nodes)", flatBytes), number(growth) + " bytes", ok1 && ok2, growth <= flatBytes}
}

// Ratio is how many times better than other onced is at what key names, whichever way is better.
func (r *Results) Ratio(key, other string) (float64, bool) {
	own, ok1 := r.value(key, "onced")
	theirs, ok2 := r.value(key, other)
	for _, m := range Metrics() {
		if m.Key != key {
			continue
		}
		if !m.More {
			own, theirs = theirs, own
		}
		if !ok1 || !ok2 || theirs == 0 {
			return 0, false
		}
		return own / theirs, true
	}
	return 0, false
}
