package founding

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/cluster/peer"
)

// syncLog is a log that several goroutines write.
type syncLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *syncLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// lockedDisk is a disk that several goroutines use.
type lockedDisk struct {
	mu sync.Mutex
	disk
}

func (d *lockedDisk) Identity() (Identity, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.disk.Identity()
}

func (d *lockedDisk) SetIdentity(id Identity) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.disk.SetIdentity(id)
}

// real opens n ports with TLS, secrets[i] each, and returns how to run their founding.
func realNodes(t *testing.T, log *syncLog, secrets ...string) []*Founding {
	t.Helper()
	var ports []*peer.Port
	var list []Peer
	for i, secret := range secrets {
		id := fmt.Sprintf("n%d", i+1)
		tls, err := peer.SecretTLS([]byte(secret), id)
		if err != nil {
			t.Fatal(err)
		}
		p, err := peer.Listen(peer.Config{NodeID: id, Addr: "127.0.0.1:0", TLS: tls, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		ports, list = append(ports, p), append(list, Peer{id, p.Addr()})
	}
	var out []*Founding
	for i, p := range ports {
		f, err := New(Config{NodeID: list[i].ID, Addr: p.Addr(), Peers: list, Storage: new(lockedDisk), Caller: p,
			Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		f.Register(p)
		out = append(out, f)
	}
	return out
}

func TestFoundingOverSockets(t *testing.T) {
	log := new(syncLog)
	secret := "the secret of the cluster"
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	decisions := make([]Decision, 3)
	for i, f := range realNodes(t, log, secret, secret, secret) {
		wg.Go(func() {
			d, err := f.Run(ctx)
			if err != nil {
				t.Error(err)
			}
			decisions[i] = d
		})
	}
	wg.Wait()
	for i, d := range decisions {
		if d.ClusterID == "" || d.ClusterID != decisions[0].ClusterID || d.Bootstrap != (i == 0) {
			t.Errorf("n%d: %+v\n%s", i+1, d, log)
		}
	}
}

func TestFoundingWithAWrongSecret(t *testing.T) {
	log := new(syncLog)
	secret := "the secret of the cluster"
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, f := range realNodes(t, log, secret, secret, "not the secret at all") {
		wg.Go(func() {
			if d, err := f.Run(ctx); err == nil {
				t.Errorf("founded without all: %+v", d)
			}
		})
	}
	wg.Wait()
	if !strings.Contains(log.String(), "its cluster secret differs from this node's") {
		t.Errorf("log lacks the sentence:\n%s", log)
	}
}
