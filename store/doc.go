// Package store is what a node has on disk: raft's log and its stable values, the
// key table with its applied index, snapshots, and the identity of the data directory.
//
// Layout of a data directory:
//
//	LOCK             held (flock) for as long as a process has the directory open
//	identity.json    whose directory it is
//	CURRENT          the name of the table that is in force
//	table-<n>/       the key table (Pebble, without a write-ahead log)
//	raft/CURRENT     the name of the log that is in force: log.db or wal
//	raft/log.db      raft's log of kind bolt (bbolt)
//	raft/wal/        raft's log of kind wal: segments (raft-wal), and segments.json, which says what there is of them
//	raft/stable.db   raft's term and vote (bbolt), with a checksum
//	snapshots/<id>/  meta.json, and state once a snapshot was received and not yet restored
//	UNFINISHED       a restore or a recovery has begun and not ended; only that may go on
//	*.tmp            something unfinished; removed when the directory is opened
//
// What is durable when:
//
//	StoreLogs, StableStore.Set   when the call returns
//	LastVoteTerm                 with the LastVoteCand that follows it, never alone (raft#661)
//	SetIdentity                  when the call returns
//	Tx.Commit                    at some later flush, whole and in order; until then the raft log has it
//	SnapshotSink.Close           when the call returns; the table was flushed beforehand
//	Restore                      when the call returns; a crash before that leaves the old table,
//	                             and the next Open restores again from the received bytes
//
// Invariants:
//
//   - The applied index is in the same batch as the data that it stands for. After a crash the
//     table is the state at some earlier applied index, exactly; entries up to the index are to be skipped.
//   - A snapshot in the list never has a larger index than the table on disk, but for a
//     received one that still has its bytes. Open makes that so again after a crash, or refuses.
//   - raft's log has no gap between the newest snapshot and its first entry. Open checks it.
//   - The entries of a log of kind wal have no gap at all, and are whole up to the last append that was acknowledged:
//     Open checks that too, or refuses. In one of kind bolt there may be a gap below the newest snapshot's index.
//   - What Open reads of raft's files is on the disk: it is synced, and read from there, before anything depends on it.
//   - A term or a vote is never older than the last one that was acknowledged, nor changed: Open refuses a directory of
//     which it cannot tell.
//   - A log that is converted is in force, whole, until the other one is.
//   - The bytes of a snapshot may be newer than its index, and never older.
//   - After a write to the log, the stable values, the table or CURRENT has erred, or has stalled for
//     Options.StallLimit, Options.Fatal is called once and nothing is written any more: after an fsync
//     that erred the page cache cannot be trusted (raft#503, raft#614, raft#683).
//   - Memory does not depend on the number of records.
package store
