package work

import (
	"context"
	"fmt"
	"time"

	"onced/bench/system"
)

// Size is what so many completed keys take.
type Size struct {
	Keys         int
	DiskBytes    float64 // for each key on each copy, the log and everything
	TableBytes   float64 // the same without the log
	MemoryBytes  int64   // resident in all store processes
	MemoryGrowth float64 // of that for each key, since before
	OwnBytes     int64   // of MemoryBytes, without the pages of files
	FifthBytes   int64   // OwnBytes when a fifth of the keys was there, and some of them had been read at every door, as at the end
	WrittenBytes float64 // handed to the disk for each key on each copy
}

// Size stores so many keys and measures what they take.
func (l *Load) Size(ctx context.Context, keys int, tell func(done int)) (Size, error) {
	before, err := system.Memory(l.sys.Stores())
	if err != nil {
		return Size{}, err
	}
	wrote, err := system.Written(l.sys.Stores())
	if err != nil {
		return Size{}, err
	}
	some, err := l.fillMany(ctx, "s", keys/5, tell)
	if err != nil {
		return Size{}, err
	}
	if err := l.readSome(ctx, some); err != nil {
		return Size{}, err
	}
	fifth, err := system.OwnMemory(l.sys.Stores())
	if err != nil {
		return Size{}, err
	}
	more, err := l.fillMany(ctx, "s", keys-keys/5, func(more int) { tell(keys/5 + more) })
	if err != nil {
		return Size{}, err
	}
	if err := l.tidy(); err != nil {
		return Size{}, fmt.Errorf("housekeeping: %w", err)
	}
	pause(ctx, settleTime)
	if err := l.readSome(ctx, append(some, more...)); err != nil {
		return Size{}, err
	}
	after, err := system.Memory(l.sys.Stores())
	if err != nil {
		return Size{}, err
	}
	s := Size{Keys: keys, FifthBytes: fifth, MemoryBytes: after, MemoryGrowth: float64(after-before) / float64(keys)}
	if s.OwnBytes, err = system.OwnMemory(l.sys.Stores()); err != nil {
		return Size{}, err
	}
	written, err := system.Written(l.sys.Stores())
	if err != nil {
		return Size{}, err
	}
	s.WrittenBytes = float64(written-wrote) / float64(keys) / float64(max(len(l.sys.Dirs()), 1))
	if s.DiskBytes, err = l.disk(l.sys.Dirs(), keys); err != nil {
		return Size{}, err
	}
	if s.TableBytes, err = l.disk(l.sys.Tables(), keys); err != nil {
		return Size{}, err
	}
	return s, ctx.Err()
}

// disk is what the directories take for each key on each copy.
func (l *Load) disk(dirs []string, keys int) (sum float64, err error) {
	for _, dir := range dirs {
		bytes, err := system.Disk(dir)
		if err != nil {
			return 0, err
		}
		sum += float64(bytes) / float64(keys) / float64(len(l.sys.Dirs()))
	}
	return sum, nil
}

// settleTime lets what a fill has put off (flushes, compactions, garbage) be done before sizes are taken: a node looks every 2 s whether a snapshot is due.
const settleTime = 4 * time.Second

// Restart ends the store in good order, starts it, and returns the time from its start until every door has done a pair.
func (l *Load) Restart(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := l.sys.Restart(ctx); err != nil {
		return 0, err
	}
	begun := time.Now() // all are started: their end is not in it
	doors := dial(l.sys.Doors(), gapWithin)
	defer hangUp(doors)
	for i := range doors {
		c, key := newCaller(doors, i), l.keys("t")
		for try := 0; ; try++ {
			err := c.pair(key(i, try), l.answer)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return 0, fmt.Errorf("it does not serve again: %w", err)
			}
			pause(ctx, pauseAfterError)
		}
	}
	return time.Since(begun), nil
}
