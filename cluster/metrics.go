package cluster

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"onced"
	"onced/store"
)

// register adds the node's own figures to a registry. They are read when they are asked for.
func (n *Node) register(registry prometheus.Registerer) error {
	counter := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read)
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	count := func(v interface{ Load() uint64 }) func() float64 {
		return func() float64 { return float64(v.Load()) }
	}
	c := n.counters
	for _, collector := range []prometheus.Collector{
		counter("onced_log_entries_total", "Entries that this node handed to the log.", count(&c.Entries)),
		counter("onced_log_commands_total", "Commands in them.", count(&c.EntryCommands)),
		counter("onced_log_bytes_total", "Bytes in them.", count(&c.EntryBytes)),
		counter("onced_applied_entries_total", "Log entries applied to this node's table since it started.", count(&n.machine.entries)),
		counter("onced_applied_commands_total", "Commands in them.", count(&n.machine.commands)),
		counter("onced_forwarded_frames_total", "Frames of commands forwarded to the leader.", count(&c.Frames)),
		counter("onced_forwarded_commands_total", "Commands in them.", count(&c.FrameCommands)),
		counter("onced_overloaded_reserves_total", "Reserves refused since too many commands were waiting.", count(&c.RefusedReserves)),
		counter("onced_overloaded_holders_total", "Tries of a holder's call refused for the same reason; they are repeated.", count(&c.RefusedHolders)),
		counter("onced_unknown_tries_total", "Tries whose fate was not known and that were asked again.", count(&c.Unknown)),
		counter("onced_undecided_calls_total", "Calls that ended without a decision.", count(&c.GaveUp)),
		counter("onced_cancelled_owners_total", "Owners of undecided reserves that were cancelled.", count(&c.Cancels)),
		gauge("onced_pending_cancels", "Owners that are still to be cancelled.", func() float64 { return float64(c.CancelsPending.Load()) }),
		gauge("onced_leader", "1 while this node leads.", func() float64 { return b2f(n.ledTerm.Load() != 0) }),
		gauge("onced_ready", "1 while this node has a leader and has caught up.", func() float64 { return b2f(n.Ready() == nil) }),
		gauge("onced_term", "The raft term.", func() float64 { return float64(n.Status().Term) }),
		gauge("onced_applied_index", "The log index up to which this node's table has everything.", func() float64 { return float64(n.progress.index.Load()) }),
		gauge("onced_commit_index", "The log index up to which this node knows of a majority.", func() float64 { return float64(n.Status().CommitIndex) }),
		gauge("onced_last_snapshot_index", "The log index of the newest snapshot.", func() float64 { return float64(n.dir.Snapshots().LastIndex()) }),
		gauge("onced_waiting_duplicates", "Calls that wait for a record to change.", func() float64 { return float64(n.watchers.Len()) }),
		gauge("onced_table_disk_bytes", "Size of the table on disk.", func() float64 { return float64(n.table.Metrics().DiskBytes) }),
		gauge("onced_table_memory_bytes", "Memory of the table that is not on disk yet.", func() float64 { return float64(n.table.Metrics().MemtableBytes) }),
		gauge("onced_disk_free_bytes", "Bytes of the data directory's disk that are free.", func() float64 { return float64(n.space().Free) }),
		gauge("onced_disk_floor_bytes", "Below so many free bytes the node is not ready and does not lead while another can.", func() float64 { return float64(n.space().Floor) }),
		gauge("onced_cluster_time_seconds", "The table's clock: the largest stamp seen, since the Unix epoch.", func() float64 {
			return float64(onced.Instant(n.table.Meta().Clock)) / 1000
		}),
	} {
		if err := registry.Register(collector); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	if err := registry.Register(tableHistory{n.table.History}); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// space is zero where the file system does not tell.
func (n *Node) space() store.Space {
	s, err := n.dir.Space()
	if err != nil {
		return store.Space{}
	}
	return s
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
