package peer

import (
	"context"
	"testing"
)

// BenchmarkCall is a follower's frames: 1 MiB each, eight in flight.
func BenchmarkCall(b *testing.B) {
	for name, secret := range map[string]string{"cleartext": "", "tls": "the secret of the cluster"} {
		for size, bytes := range map[string]int{"1KiB": 1 << 10, "1MiB": 1 << 20} {
			b.Run(name+"/"+size, func(b *testing.B) { benchmarkCall(b, secret, bytes) })
		}
	}
}

func benchmarkCall(b *testing.B, secret string, size int) {
	listen := func(id string) *Port {
		var security *TLS
		if secret != "" {
			var err error
			if security, err = SecretTLS([]byte(secret), id); err != nil {
				b.Fatal(err)
			}
		}
		p, err := Listen(Config{NodeID: id, Addr: "127.0.0.1:0", TLS: security})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { p.Close() })
		p.SetClusterID("c")
		return p
	}
	caller, callee := listen("n1"), listen("n2")
	callee.Handle("/echo", echo)
	body := make([]byte, size)
	b.SetBytes(int64(size))
	b.SetParallelism(4)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := caller.Call(context.Background(), callee.Addr(), "/echo", body); err != nil {
				b.Error(err)
			}
		}
	})
}
