package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Provider is a payment provider without any protection of its own: each
// request that reaches it is a charge.
type Provider struct {
	charge time.Duration // how long the money takes to move

	mu      sync.Mutex
	idle    *sync.Cond // of mu: told when busy falls to 0
	busy    int        // charges under way
	total   int
	charges map[string][]string // the ids of the charges of each key, in their order
	server  *http.Server
	ln      net.Listener
}

// order is what a client wants to be charged for.
type order struct {
	Order  string `json:"order"`
	Amount int    `json:"amount"` // cents
}

// freePort is an address on loopback with any free port.
const freePort = "127.0.0.1:0"

// NewProvider starts a provider that listens on addr, host:port. Close ends it.
func NewProvider(addr string, charge time.Duration) (*Provider, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("opening the payment provider's port: %w", err)
	}
	p := &Provider{charge: charge, charges: map[string][]string{}, ln: ln}
	p.idle = sync.NewCond(&p.mu)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charge", p.serveCharge)
	mux.HandleFunc("GET /charges", p.serveCount)
	mux.HandleFunc("GET /ledger", p.serveLedger)
	mux.HandleFunc("GET /readyz", serveReady)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go p.server.Serve(ln) // ends with Close
	return p, nil
}

// URL is where the provider listens.
func (p *Provider) URL() string { return "http://" + p.ln.Addr().String() }

// Close stops the provider at once.
func (p *Provider) Close() { p.server.Close() }

// serveCharge moves the money and then answers. The client's hang-up stops nothing, as
// it would stop nothing at a real provider.
func (p *Provider) serveCharge(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	var o order
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err == nil {
		err = json.Unmarshal(body, &o)
	}
	if err != nil {
		http.Error(w, "expected {\"order\":…,\"amount\":…}", http.StatusBadRequest)
		return
	}
	id := p.move(key)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/charges/"+id)
	w.WriteHeader(http.StatusCreated)
	w.Write(chargeBody(id, o))
}

// serveCount tells how many charges there were, and of how many keys.
func (p *Provider) serveCount(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	total, keys := p.total, len(p.charges)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\"charges\":%d,\"keys\":%d}\n", total, keys)
}

// move takes the time of a charge and counts it.
func (p *Provider) move(key string) (id string) {
	p.mu.Lock()
	p.busy++
	p.mu.Unlock()
	time.Sleep(p.charge)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy--; p.busy == 0 {
		p.idle.Broadcast()
	}
	p.total++
	id = fmt.Sprintf("ch_%06d", p.total)
	p.charges[key] = append(p.charges[key], id)
	return id
}

// Settle waits until no charge is under way, also none whose client has gone.
func (p *Provider) Settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy > 0 {
		p.idle.Wait()
	}
}

// chargeBody is the answer to a charge.
func chargeBody(id string, o order) []byte {
	return fmt.Appendf(nil, "{\"charge\":%q,\"order\":%q,\"amount\":%d,\"currency\":\"eur\"}\n", id, o.Order, o.Amount)
}

// Of returns the ids of the charges of key, in their order.
func (p *Provider) Of(key string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.charges[key]...)
}

// Total is the number of charges so far.
func (p *Provider) Total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// Doubles returns the keys that were charged more than once.
func (p *Provider) Doubles() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []string
	for key, ids := range p.charges {
		if len(ids) > 1 {
			keys = append(keys, key)
		}
	}
	return keys
}
