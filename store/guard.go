package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard watches over the disk. Its first error or stall is reported once, and from
// then on every write is refused with it.
type guard struct {
	limit time.Duration
	fatal func(error)
	fault func(step string) error                 // Options.Fault, or nil
	usage func() (free, total uint64)             // Options.Usage, or nil
	after func(time.Duration, func()) *time.Timer // time.AfterFunc; tests wake up late

	broken atomic.Pointer[error]
	lost   atomic.Bool   // a goroutine of the table has ended in the middle of its work
	ended  chan struct{} // closed once broken is set
	told   chan struct{} // closed once fatal has returned, if it does
}

func newGuard(limit time.Duration, fatal func(error), fault func(string) error) *guard {
	return &guard{limit: limit, fatal: fatal, fault: fault, after: time.AfterFunc, ended: make(chan struct{}), told: make(chan struct{})}
}

// err returns what broke the disk, nil while it works.
func (g *guard) err() error {
	if p := g.broken.Load(); p != nil {
		return *p
	}
	return nil
}

// trip reports err unless something was reported before. It returns once that was reported: where fatal ends
// the process, nobody goes on with the error meanwhile, as raft would, in a panic.
func (g *guard) trip(err error) {
	if g.broken.CompareAndSwap(nil, &err) {
		close(g.ended)
		g.fatal(err)
		close(g.told)
	}
	<-g.told
}

// step is called right before each step that must be durable, and by do once more behind it, as if its sync had
// erred, so that tests can make it err or stall.
func (g *guard) step(name string) error {
	if g.fault == nil {
		return nil
	}
	return g.fault(name)
}

// do runs a write on which an answer depends. step names it for Options.Fault, and step+".sync" its sync; doing says in a
// log line what it is. An error of write, or a write longer than the limit, is fatal.
func (g *guard) do(step, doing string, write func() error) error {
	if err := g.err(); err != nil {
		<-g.told
		return fmt.Errorf("%s: the disk is not used any more: %w", doing, err)
	}
	w := g.watch(doing)
	defer w.stop()
	err := g.step(step)
	if err == nil {
		err = write()
	}
	if err == nil {
		err = g.step(step + ".sync")
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
		g.trip(err)
		return err
	}
	if err = g.err(); err != nil {
		<-g.told // it stalled and came back: too late, the end has been told
	}
	return err
}

// watch is a watchdog over one write.
type watch struct {
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

// watch trips the guard unless it is stopped within the limit. That passes in two halves, the second one counted from when this
// process sees the end of the first: after a pause (SIGSTOP, a container or a virtual machine that stood still) both would be over at
// once, and the disk be blamed for what it had long done.
func (g *guard) watch(doing string) *watch {
	w := &watch{}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = g.after(g.limit/2, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			w.timer = g.after(g.limit-g.limit/2, func() {
				g.trip(fmt.Errorf("%s: the disk has stalled for more than %s", doing, g.limit))
			})
		}
	})
	return w
}

// stop ends the watch.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}

// slow is what the file system calls for an operation that is longer than the limit.
func (g *guard) slow(info vfs.DiskSlowInfo) {
	g.trip(fmt.Errorf("writing %s: the disk has stalled for more than %s", info.Path, g.limit))
}
