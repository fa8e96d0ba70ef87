package front

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	maxBody = 16 << 20
	within  = 10 * time.Second // one call, as onced's own --request-timeout
)

// front is the handler.
type front struct {
	store   Store
	charge  time.Duration
	charges ledger
}

// Handler returns the front of store. A charge sent through it takes that time.
func Handler(store Store, charge time.Duration) http.Handler {
	f := &front{store: store, charge: charge, charges: ledger{byKey: map[string]int{}}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/keys/{key}/reserve", f.reserve)
	mux.HandleFunc("POST /v1/keys/{key}/complete", f.complete)
	mux.HandleFunc("POST /v1/batch", f.batch)
	mux.HandleFunc("POST /charge", f.serveCharge)
	mux.HandleFunc("GET /charges", f.charges.serve)
	mux.HandleFunc("POST /fill", f.fill)
	mux.HandleFunc("POST /tidy", f.tidy)
	mux.HandleFunc("GET /leader", f.leader)
	mux.HandleFunc("GET /readyz", f.ready)
	return mux
}

// call is what the bodies of the two calls hold that a front needs, and what an operation of a batch holds.
type call struct {
	Op          string          `json:"op"`
	Key         string          `json:"key"`
	Fingerprint string          `json:"fingerprint"`
	Token       int64           `json:"token"`
	Response    json.RawMessage `json:"response"`
}

// answer is the body of an answer.
type answer struct {
	Status   int             `json:"status,omitempty"` // within a batch
	Outcome  string          `json:"outcome,omitempty"`
	Replayed bool            `json:"replayed"`
	Key      string          `json:"key"`
	Token    int64           `json:"token,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
	Code     string          `json:"code,omitempty"`
}

func (f *front) reserve(w http.ResponseWriter, r *http.Request) { f.one(w, r, "reserve") }

func (f *front) complete(w http.ResponseWriter, r *http.Request) { f.one(w, r, "complete") }

func (f *front) one(w http.ResponseWriter, r *http.Request, op string) {
	c := call{Op: op, Key: r.PathValue("key")}
	if !read(w, r, &c) {
		return
	}
	a := f.do(r.Context(), c)
	status := a.Status
	a.Status = 0
	write(w, status, a)
}

// do runs one call.
func (f *front) do(ctx context.Context, c call) answer {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if c.Op == "complete" {
		if err := f.store.Complete(ctx, c.Key, c.Token, c.Response); err != nil {
			return refusal(c.Key, err)
		}
		return answer{Status: http.StatusOK, Key: c.Key, Token: c.Token}
	}
	got, err := f.store.Reserve(ctx, c.Key, c.Fingerprint)
	switch {
	case err != nil:
		return refusal(c.Key, err)
	case got.Answer != nil:
		return answer{Status: http.StatusOK, Outcome: "replayed", Replayed: true, Key: c.Key, Response: got.Answer}
	}
	return answer{Status: http.StatusCreated, Outcome: "reserved", Key: c.Key, Token: got.Token}
}

func refusal(key string, err error) answer {
	for _, known := range []error{ErrInProgress, ErrConflict, ErrStaleToken} {
		if errors.Is(err, known) {
			return answer{Status: http.StatusConflict, Key: key, Code: known.Error()}
		}
	}
	return answer{Status: http.StatusServiceUnavailable, Key: key, Code: "unavailable: " + err.Error()}
}

// batchWidth is how many operations of one batch run at once.
const batchWidth = 128

// batch runs its operations at the same time: the front's stores have no batch of independent conditional writes.
func (f *front) batch(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Operations []call `json:"operations"`
	}
	if !read(w, r, &b) {
		return
	}
	results := make([]answer, len(b.Operations))
	slots := make(chan struct{}, batchWidth)
	var working sync.WaitGroup
	for i, c := range b.Operations {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			results[i] = f.do(r.Context(), c)
		})
	}
	working.Wait()
	write(w, http.StatusOK, map[string]any{"results": results})
}

// fill stores many completed keys by the store's fastest way.
func (f *front) fill(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Keys        []string        `json:"keys"`
		Fingerprint string          `json:"fingerprint"`
		Response    json.RawMessage `json:"response"`
	}
	if read(w, r, &b) {
		said(w, f.store.Fill(r.Context(), b.Keys, b.Fingerprint, b.Response))
	}
}

func (f *front) tidy(w http.ResponseWriter, r *http.Request) { said(w, f.store.Tidy(r.Context())) }

func (f *front) leader(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	name, err := f.store.Leader(ctx)
	if err != nil {
		said(w, err)
		return
	}
	write(w, http.StatusOK, map[string]string{"leader": name})
}

func (f *front) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	said(w, f.store.Ready(ctx))
}

// read reads a body; on a failure it has answered.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		http.Error(w, "reading the body: "+err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func write(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "writing the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(raw) // a caller that has gone is nobody's loss
}

// said answers 200, or 503 with what is wrong.
func said(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	write(w, http.StatusOK, struct{}{})
}
