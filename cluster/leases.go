package cluster

import (
	"fmt"
	"sync"

	"onced/fsm"
	"onced/store"
)

// leaseSlot is the width of a slot of leases, in milliseconds of cluster time.
const leaseSlot = 50

// leases counts the running reservations by the slot of time that their lease ends in, so
// that an idle leader knows when something falls due. It is derived from the table and
// takes room for the distinct slots only. It is safe for concurrent use.
type leases struct {
	mu    sync.Mutex
	slots map[int64]int
}

// leaseMove is a change: a lease that ended in one moment now ends in another. 0 = none.
type leaseMove struct{ from, to int64 }

// leaseOf is when row's lease ends, 0 if it has none.
func leaseOf(row *fsm.Row) int64 {
	if row == nil || row.Phase != fsm.PhaseRunning {
		return 0
	}
	return row.LeaseUntil
}

func slotOf(ms int64) int64 { return ms / leaseSlot }

func (l *leases) apply(moves []leaseMove) {
	if len(moves) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range moves {
		l.add(m.from, -1)
		l.add(m.to, +1)
	}
}

// add is called with l.mu held.
func (l *leases) add(ms int64, n int) {
	if ms == 0 {
		return
	}
	slot := slotOf(ms)
	if l.slots[slot] += n; l.slots[slot] == 0 {
		delete(l.slots, slot)
	}
}

// load counts the table's open records anew.
func (l *leases) load(table *store.Table) error {
	slots := map[int64]int{}
	err := table.OpenRows(func(open store.OpenRow) error {
		if until := leaseOf(open.Row); until != 0 {
			slots[slotOf(until)]++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("counting leases: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots = slots
	return nil
}

// dueBetween tells whether a lease ends after the moment from and in a slot that is over
// at to. It is asked every few slots, so it looks at few of them.
func (l *leases) dueBetween(from, to int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, last := slotOf(from), slotOf(to)-1
	if last-first > int64(len(l.slots)) { // a long gap: fewer slots than moments
		for slot := range l.slots {
			if slot >= first && slot <= last {
				return true
			}
		}
		return false
	}
	for slot := first; slot <= last; slot++ {
		if l.slots[slot] > 0 {
			return true
		}
	}
	return false
}
