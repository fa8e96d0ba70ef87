package front

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// ledger counts the charges of each key.
type ledger struct {
	mu    sync.Mutex
	total int
	byKey map[string]int
}

func (l *ledger) add(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.byKey[key]++
	return l.total
}

func (l *ledger) serve(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	total, keys := l.total, len(l.byKey)
	l.mu.Unlock()
	write(w, http.StatusOK, map[string]int{"charges": total, "keys": keys})
}

// serveCharge does what a handler does that guards itself: it reserves the key, charges, completes, and then answers. The charge is a
// sleep in here, so that no store pays for a hop to a provider; onced's gateway does.
func (f *front) serveCharge(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil || key == "" {
		http.Error(w, "expected a body and an Idempotency-Key", http.StatusBadRequest)
		return
	}
	fingerprint := string(body)
	got := f.do(r.Context(), call{Op: "reserve", Key: key, Fingerprint: fingerprint})
	switch {
	case got.Replayed:
		charged(w, got.Response, true)
		return
	case got.Token == 0:
		write(w, got.Status, got)
		return
	}
	time.Sleep(f.charge)
	made, err := json.Marshal(map[string]string{"charge": fmt.Sprintf("ch_%06d", f.charges.add(key))})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if got := f.do(r.Context(), call{Op: "complete", Key: key, Token: got.Token, Response: made}); got.Status != http.StatusOK {
		write(w, got.Status, got)
		return
	}
	charged(w, made, false)
}

func charged(w http.ResponseWriter, body []byte, replayed bool) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Idempotency-Replayed", fmt.Sprint(replayed))
	w.WriteHeader(http.StatusCreated)
	w.Write(body) // a caller that has gone is nobody's loss
}
