package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
)

// counter is who knows what was charged: a provider of this process, or the ledger of one elsewhere.
type counter interface {
	Settle() // waits until no charge is under way
	Total() int
	Doubles() []string
	Of(key string) []string
}

// Ledger is what a provider that runs elsewhere has charged, at one moment at which nothing was under way.
type Ledger struct {
	Running int                 `json:"running"` // charges under way
	Charges map[string][]string `json:"charges"` // the ids of each key, in their order
}

// serveLedger tells every charge.
func (p *Provider) serveLedger(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	body, err := json.Marshal(Ledger{p.busy, p.charges})
	p.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

// serveReady is for the health check of its container, which is that of a node.
func serveReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"status":"ready"}`)
}

// ReadLedger asks the provider at url, http://HOST:PORT, until no charge is under way.
// Errors: ctx's, or what kept the provider from answering.
func ReadLedger(ctx context.Context, url string) (*Ledger, error) {
	for {
		l, err := getLedger(ctx, url)
		if err != nil {
			return nil, fmt.Errorf("reading the provider's ledger: %w", err)
		}
		if l.Running == 0 {
			return l, nil
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return nil, fmt.Errorf("waiting for %d charges to end: %w", l.Running, err)
		}
	}
}

func getLedger(ctx context.Context, url string) (*Ledger, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/ledger", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	l := &Ledger{}
	if err := json.NewDecoder(response.Body).Decode(l); err != nil {
		return nil, err
	}
	return l, nil
}

// Settle has nothing to wait for.
func (l *Ledger) Settle() {}

// Total is the number of charges.
func (l *Ledger) Total() (total int) {
	for ids := range maps.Values(l.Charges) {
		total += len(ids)
	}
	return total
}

// Doubles returns the keys that were charged more than once.
func (l *Ledger) Doubles() (keys []string) {
	for key, ids := range l.Charges {
		if len(ids) > 1 {
			keys = append(keys, key)
		}
	}
	return keys
}

// Of returns the ids of the charges of key, in their order.
func (l *Ledger) Of(key string) []string { return l.Charges[key] }
