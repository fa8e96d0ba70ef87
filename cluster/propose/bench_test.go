package propose

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"onced/fsm"
	"onced/fsm/command"
)

// benchLog decides at once, or after the time that a disk takes.
type benchLog struct{ commit time.Duration }

type benchFuture struct {
	data []byte
	wait time.Duration
}

func (l benchLog) Append(data []byte) Future { return benchFuture{data, l.commit} }

func (f benchFuture) Wait() (*command.Results, error) {
	if f.wait > 0 {
		time.Sleep(f.wait)
	}
	entry, err := fsm.DecodeEntry(f.data)
	if err != nil {
		return nil, err
	}
	block := make([]command.Result, len(entry.Commands))
	results := &command.Results{Index: 1, Results: make([]*command.Result, len(block))}
	for i := range block {
		block[i].Outcome = uint32(fsm.OutcomeReserved)
		results.Results[i] = &block[i]
	}
	return results, nil
}

type benchClock struct{}

func (benchClock) Now() (int64, bool) { return time.Now().UnixMilli(), true }

type benchNetwork struct{ leader *Proposer }

func (n benchNetwork) Forward(ctx context.Context, _ string, frame []byte) ([]byte, error) {
	return n.leader.Receive(ctx, frame)
}

func benchNode(leader *Proposer, commit time.Duration) *Proposer {
	routes := NewRoutes()
	routes.Set(Route{Known: true, Self: leader == nil, Leader: "n1", Addr: "n1", Term: 1})
	return New(Config{Log: benchLog{commit}, Forwarder: benchNetwork{leader}, Clock: benchClock{}, Routes: routes})
}

func BenchmarkDo(b *testing.B) {
	for _, where := range []string{"leader", "follower"} {
		for _, commit := range []time.Duration{0, 2 * time.Millisecond} {
			for _, callers := range []int{1, 64, 256} {
				b.Run(fmt.Sprintf("%s/commit=%s/callers=%d", where, commit, callers), func(b *testing.B) {
					leader := benchNode(nil, commit)
					defer leader.Close()
					asked := leader
					if where == "follower" {
						asked = benchNode(leader, commit)
						defer asked.Close()
					}
					benchDo(b, asked, callers)
				})
			}
		}
	}
}

func benchDo(b *testing.B, p *Proposer, callers int) {
	cmd := reserve("a-key-of-usual-length-0123456789", "an-owner-0123456789abcdef")
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	b.ReportAllocs()
	b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
	defer func() { b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s") }()
	b.ResetTimer()
	if callers == 1 {
		for range b.N {
			if _, err := p.Do(ctx, cmd); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := p.Do(ctx, cmd); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
