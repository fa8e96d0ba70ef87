package store

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"onced/fsm"
	"onced/fsm/command"
)

// applied is a table that log entries are applied to as a node does it.
type applied struct {
	b      *testing.B
	table  *Table
	random *rand.ChaCha8
	index  uint64
	token  uint64
}

// entry encodes commands as they stand in the log.
func (a *applied) entry(commands []*command.Command) []byte {
	a.index++
	data, err := proto.Marshal(&command.Entry{Version: fsm.Version, StampMs: int64(a.index), Commands: commands})
	if err != nil {
		a.b.Fatal(err)
	}
	return data
}

func (a *applied) apply(index uint64, data []byte) {
	entry, err := fsm.DecodeEntry(data)
	if err != nil {
		a.b.Fatal(err)
	}
	tx := a.table.Begin()
	results, err := fsm.Apply(tx, index, entry)
	if err != nil {
		a.b.Fatal(err)
	}
	if err := tx.Commit(index, 1); err != nil {
		a.b.Fatal(err)
	}
	for i, r := range results {
		if r.Outcome != fsm.OutcomeReserved && r.Outcome != fsm.OutcomeDone {
			a.b.Fatalf("command %d of entry %d: %v", i, index, r.Outcome)
		}
	}
}

// pairs are the entries of n reserves and their completes, so many commands to an entry. The completes come two entries after their reserves.
func (a *applied) pairs(n, batch int) [][]byte {
	var reserves, completes []*command.Command
	raw, nonce := make([]byte, 225), make([]byte, 16)
	for range n {
		a.random.Read(raw)
		a.random.Read(nonce)
		a.token++
		key := &command.ID{Tenant: "tenant", Key: fmt.Appendf(nil, "%x-%x-%x-%x-%x", nonce[:4], nonce[4:6], nonce[6:8], nonce[8:10], nonce[10:])}
		reserves = append(reserves, &command.Command{NotAfterMs: 1 << 60, Kind: &command.Command_Reserve{Reserve: &command.Reserve{
			Id: key, Fingerprint: fmt.Appendf(nil, "%x", raw[:32]), Owner: base64.RawURLEncoding.EncodeToString(raw[32:50]), LeaseMs: 30_000, RetentionMs: 86_400_000,
		}}})
		completes = append(completes, &command.Command{Kind: &command.Command_Complete{Complete: &command.Complete{
			Id: key, Token: a.token, Response: &command.Response{Status: 201, Body: base64.StdEncoding.AppendEncode(nil, raw),
				Headers: []*command.Header{{Name: []byte("Content-Type"), Value: []byte("application/json")}}},
		}}})
	}
	// Half of an entry are reserves, half completes of those of two entries before; of entries with one command every other one is a reserve.
	var entries [][]byte
	half := max(batch/2, 1)
	for at := 0; at < n+2*half; at += half {
		var commands []*command.Command
		if at < n {
			commands = append(commands, reserves[at:min(at+half, n)]...)
		}
		if batch == 1 && at < n { // as a lone caller's do
			entries, commands = append(entries, a.entry(commands)), nil
		}
		if from := at - 2*half; from >= 0 {
			commands = append(commands, completes[from:min(from+half, n)]...)
		}
		if len(commands) > 0 {
			entries = append(entries, a.entry(commands))
		}
	}
	return entries
}

func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkApply is what a node does for a pair once its commands are in the log: decode, decide, write, flush and compact. There are
// ONCED_KEYS (20,000) completed keys already. cpu-µs is processor time of a pair, of all goroutines; it depends less on what else the
// machine does than the time does. written-B is what flushes and compactions write for a pair.
func BenchmarkApply(b *testing.B) {
	keys, _ := strconv.Atoi(cmp.Or(os.Getenv("ONCED_KEYS"), "20000"))
	d, err := Open(b.TempDir(), Options{Fatal: noFatal(b)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { mustClose(b, d) }()
	a := &applied{b: b, table: d.Table(), random: rand.NewChaCha8([32]byte{1})}
	a.run(keys, 256)
	for _, batch := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("commands=%d", batch), func(b *testing.B) {
			a.b = b
			before := a.written()
			b.ReportMetric(float64(a.run(b.N, batch).Nanoseconds())/1e3/float64(b.N), "cpu-µs/pair")
			b.ReportMetric(float64(a.written()-before)/float64(b.N), "written-B/pair")
		})
	}
}

// run applies n pairs and flushes the table. It returns the processor time of that, without that of making the entries.
func (a *applied) run(n, batch int) (used time.Duration) {
	const portion = 5_000 // whose entries are in memory
	a.b.StopTimer()
	for ; n > 0; n -= portion {
		first := a.index + 1
		entries := a.pairs(min(portion, n), batch)
		before := processorTime()
		a.b.StartTimer()
		for i, data := range entries {
			a.apply(first+uint64(i), data)
		}
		if n <= portion {
			if err := a.table.Flush(); err != nil {
				a.b.Fatal(err)
			}
		}
		a.b.StopTimer()
		used += processorTime() - before
	}
	return used
}

// written is how many bytes flushes and compactions have written.
func (a *applied) written() uint64 {
	m := a.table.db.Metrics().Total()
	return m.TableBytesFlushed + m.TableBytesCompacted
}
