package store

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// bbolt has checksums of its two meta pages only, and raft applies and replicates whatever it reads. So each entry is
// stored with a checksum, in the field that raft leaves to its users, and judged when it is read. It never leaves
// this node: an entry comes out of the log as it was handed in.

// boltLog is raft-boltdb's log with a checksum in each entry.
type boltLog struct{ *raftboltdb.BoltStore }

// GetLog implements engine.
func (b boltLog) GetLog(index uint64, l *raft.Log) error {
	if err := b.BoltStore.GetLog(index, l); err != nil {
		return err
	}
	return unsealEntry(index, l)
}

// StoreLogs implements engine.
func (b boltLog) StoreLogs(logs []*raft.Log) error { return b.BoltStore.StoreLogs(sealEntries(logs)) }

// sealEntries returns entries as they are stored.
func sealEntries(logs []*raft.Log) []*raft.Log {
	out := make([]*raft.Log, len(logs))
	block := make([]raft.Log, len(logs))
	for i, l := range logs {
		block[i] = *l
		block[i].Extensions = boltSum(l)
		out[i] = &block[i]
	}
	return out
}

// unsealEntry judges an entry that was read, as index, and takes its checksum away. One that has none is of a release that wrote none.
func unsealEntry(index uint64, l *raft.Log) error {
	stored := l.Extensions
	if at := len(stored) - boltSumBytes; at >= 0 {
		l.Extensions = stored[:at:at]
	}
	if len(l.Extensions) == 0 {
		l.Extensions = nil
	}
	if l.Index != index || len(stored) > 0 && string(stored) != string(boltSum(l)) {
		return fmt.Errorf("%w: entry %d is not what was written; remove this data directory and join the cluster again as a new node", ErrDamaged, index)
	}
	return nil
}

const boltSumBytes = 8

// boltSum is what an entry has for its extensions when it is stored: its own, and a checksum over everything of it but the
// time at which a leader appended it, which nothing depends on.
func boltSum(l *raft.Log) []byte {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	var d xxhash.Digest
	d.Reset()
	d.Write(head[:]) // never errs
	d.Write(l.Data)
	d.Write(l.Extensions)
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, len(l.Extensions)+boltSumBytes), l.Extensions...), d.Sum64())
}
