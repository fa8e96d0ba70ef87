package store

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestBytesOfARecord holds what a completed record takes on disk to a bound. The keys are as long as a UUID, the answers are 300 bytes of the kind
// that does not compress to nothing.
func TestBytesOfARecord(t *testing.T) {
	const (
		records = 20_000
		each    = 100 // in one entry
		most    = 420 // bytes; the contract has 450, with the log
	)
	d := mustOpen(t, t.TempDir())
	random := rand.NewChaCha8([32]byte{1})
	raw := make([]byte, 225)
	before := d.Table().Metrics().DiskBytes
	for entry := uint64(1); entry <= records/each; entry++ {
		commit(t, d.Table(), entry, func(tx *Tx) {
			for i := range uint64(each) {
				token := entry*each + i
				random.Read(raw) // it never fails
				key := id("tenant", "", fmt.Sprintf("%08x-%027d", random.Uint64()&0xffffffff, token))
				row := completed(token, int64(token), base64.StdEncoding.EncodeToString(raw))
				row.Fingerprint, row.Owner = "0123456789abcdef0123456789abcdef", "0123456789abcdef01234567"
				tx.PutRow(key, nil, row)
			}
			m := tx.Meta()
			m.LastToken, m.Clock = entry*each+each, int64(entry)
			tx.PutMeta(m)
		})
	}
	if err := d.Table().Flush(); err != nil {
		t.Fatal(err)
	}
	got := float64(d.Table().Metrics().DiskBytes-before) / records
	t.Logf("%.0f bytes for each record", got)
	if got > most {
		t.Errorf("a completed record with an answer of 300 bytes takes %.0f bytes of disk, expected at most %d", got, most)
	}
	if got < 200 {
		t.Errorf("a completed record takes %.0f bytes of disk: less than there is in it", got)
	}
}
