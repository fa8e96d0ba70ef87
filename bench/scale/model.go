package main

import "math"

// Inputs are what everything else is computed from. Bytes are of one node.
type Inputs struct {
	Record     float64 // bytes of the table for each completed key
	Log        float64 // bytes of log entries for each pair
	LogWritten float64 // bytes that the log writes for each pair
	Level      float64 // bytes that one level of the table writes for each byte of a record
	Flush      float64 // the same of the flush
	Base       float64 // bytes of the table's first level below level 0
	Between    float64 // bytes of log between two snapshots
	Trailing   float64 // bytes of log kept behind one
	Held       float64 // bytes of log since one at which it is cut even while a table is on its way
	Memory     float64 // bytes resident
	Stream     float64 // bytes a second at which a new member gets a table and puts it in force
	Read       float64 // seconds of one read of the disk, where the table is larger than memory
	Apply      float64 // processor seconds to apply a pair
	Processor  float64 // processor seconds of all nodes for a pair
	Sync       float64 // seconds of one sync of the disk
}

// Defaults are the figures of docs/scale.md.
func Defaults() *Inputs {
	return &Inputs{
		Record: 360, Log: 508, LogWritten: 1_000, Level: 3.4, Flush: 2.2, Base: 64 << 20,
		Between: 64 << 20, Trailing: 128 << 20, Held: 1 << 30, Memory: 272 << 20,
		Stream: 100e6, Read: 100e-6, Apply: 42e-6, Processor: 189e-6, Sync: 2e-3,
	}
}

// Load is what is asked of a cluster.
type Load struct {
	Title string
	Keys  float64 // that it holds
	Rate  float64 // new keys a second: each a reserve and a complete
}

// Loads are those of docs/scale.md. With a retention of a day 100 million keys are 1,157 new ones a second.
func Loads() []Load {
	const day = 24 * 3600
	return []Load{
		{"5 million keys", 5e6, 5e6 / day},
		{"100 million keys", 100e6, 100e6 / day},
		{"30 days at 5,000/s", 30 * day * 5_000, 5_000},
	}
}

// Table is the bytes of the table on each node.
func (in *Inputs) Table(l Load) float64 { return l.Keys * in.Record }

// Disk is the bytes of everything on each node.
func (in *Inputs) Disk(l Load) float64 { return in.Table(l) + in.Between + in.Trailing }

// Levels is how many times a record moves down: each level holds ten times the one above.
func (in *Inputs) Levels(l Load) float64 {
	return 1 + math.Max(0, math.Log10(in.Table(l)/in.Base))
}

// TableWritten is the bytes that the table writes for each key, once it is as large as that.
func (in *Inputs) TableWritten(l Load) float64 {
	return in.Record * (in.Flush + in.Level*in.Levels(l))
}

// Filled is the mean of TableWritten while a table is filled to the size of a load: the first keys meet fewer levels.
func (in *Inputs) Filled(l Load) float64 {
	return in.TableWritten(l) - in.Record*in.Level*math.Log10E*math.Max(0, 1-in.Base/in.Table(l))
}

// WrittenPerSecond is the bytes that a node hands to its disk.
func (in *Inputs) WrittenPerSecond(l Load) float64 {
	return l.Rate * (in.LogWritten + in.TableWritten(l))
}

// Replace is the seconds until a new member has the table, the log that came meanwhile left out.
func (in *Inputs) Replace(l Load) float64 { return in.Table(l) / in.Stream }

// Grown is the bytes of log that come while a new member gets the table.
func (in *Inputs) Grown(l Load) float64 { return l.Rate * in.Log * in.Replace(l) }

// Kept is the bytes of log that may come while a new member gets the table: the snapshot that it gets may be as old as the next one is due.
func (in *Inputs) Kept() float64 { return in.Held - in.Between }

// ComesBack tells whether a new member finds the log that it needs; otherwise it begins anew, for ever.
func (in *Inputs) ComesBack(l Load) bool { return in.Grown(l) <= in.Kept() }

// MostKeys is the keys of one group up to which a member comes back at the rate of a load.
func (in *Inputs) MostKeys(l Load) float64 {
	return in.Kept() * in.Stream / (l.Rate * in.Log * in.Record)
}

// MostRate is the new keys a second that one group applies, if each reserve of one reads the disk, one after the other.
func (in *Inputs) MostRate() float64 { return 1 / (in.Read + in.Apply) }

// Share is the load of one of so many groups.
func (l Load) Share(groups int) Load {
	return Load{l.Title, l.Keys / float64(groups), l.Rate / float64(groups)}
}

// Groups is the fewest groups of which a member comes back, and each of which can apply its share.
func (in *Inputs) Groups(l Load) int {
	for n := 1; ; n++ {
		if s := l.Share(n); in.ComesBack(s) && s.Rate <= in.MostRate() {
			return n
		}
	}
}

// Syncs is the syncs a second of a node whose groups each have a log of their own: an entry takes whatever waits when the one before is synced.
func (in *Inputs) Syncs(l Load, groups int) float64 {
	return math.Min(2*l.Rate, float64(groups)/in.Sync)
}

// Processors is the processors of all nodes together.
func (in *Inputs) Processors(l Load) float64 { return l.Rate * in.Processor }
