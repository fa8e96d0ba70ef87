package cluster_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"onced"
	"onced/cluster"
)

// BenchmarkPairs is a reserve and its complete, over three nodes in one process, by 64 callers.
func BenchmarkPairs(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			h := startBench(b)
			var next atomic.Int64
			body := answer(string(make([]byte, 300)))
			b.SetParallelism(callers / 2)
			if callers == 1 {
				b.SetParallelism(1)
			}
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				node := h[next.Add(1)%3]
				for pb.Next() {
					key := id(fmt.Sprintf("k%d", next.Add(1)))
					got, err := node.Reserve(context.Background(), onced.ReserveRequest{ID: key, Fingerprint: "f"})
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := node.Complete(context.Background(), onced.CompleteRequest{ID: key, Token: got.Record.Token, Response: body}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func startBench(b *testing.B) []*cluster.Node {
	b.Helper()
	return start(b, 3, nil).nodes
}
