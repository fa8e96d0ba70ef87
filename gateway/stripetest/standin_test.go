package stripetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"

	"onced"
	"onced/fsm/memkeeper"
	"onced/gateway"
)

// standIn is a stand-in of Stripe's API that does whatever it is asked, as often as it is asked. What it
// answers goes by the amount.
type standIn struct {
	mu      sync.Mutex
	asked   int // requests to create something
	charges int // how many of them charged

	begun, finish chan struct{} // of a request for amountSlow
}

const (
	amountDeclined   = 402
	amountBusy       = 429 // a lock time-out, the first time
	amountBroken     = 500
	amountBrokenPage = 502 // the page of a proxy, no envelope
	amountCut        = 520 // charged, and then the connection is cut
	amountSlow       = 700
)

// ServeHTTP is part of http.Handler.
func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"id":"pi_1","object":"payment_intent"}`)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(raw))
	s.mu.Lock()
	s.asked++
	asked := s.asked
	s.mu.Unlock()
	status, body := http.StatusOK, ""
	switch amount := form.Get("amount"); amount {
	case fmt.Sprint(amountDeclined):
		status, body = 402, `{"error":{"type":"card_error","code":"card_declined","decline_code":"generic_decline","message":"Your card was declined."}}`
	case fmt.Sprint(amountBusy):
		if asked == 1 {
			status, body = 429, `{"error":{"type":"invalid_request_error","code":"lock_timeout","message":"This object cannot be accessed right now."}}`
		}
	case fmt.Sprint(amountBroken):
		status, body = 500, `{"error":{"type":"api_error","message":"Something went wrong."}}`
	case fmt.Sprint(amountBrokenPage):
		status, body = 502, `<html>Bad Gateway</html>`
	case fmt.Sprint(amountSlow):
		close(s.begun)
		<-s.finish
	}
	if body == "" {
		body = s.charge(form.Get("amount"))
	}
	if form.Get("amount") == fmt.Sprint(amountCut) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

func (s *standIn) charge(amount string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charges++
	return fmt.Sprintf(`{"id":"pi_%d","object":"payment_intent","amount":%s,"currency":"eur"}`, s.charges, amount)
}

// world is the official client, the gateway, and the stand-in behind it.
type world struct {
	t       *testing.T
	api     *standIn
	keeper  *memkeeper.Keeper
	client  *stripe.Client
	refuse  atomic.Pointer[onced.Problem] // what the Keeper says to each reserve
	sent    atomic.Int32                  // requests that left the client
	lose    atomic.Int32                  // how many of the next answers are lost on their way to it
	address string
}

// Reserve is part of onced.Keeper.
func (k refusing) Reserve(ctx context.Context, r onced.ReserveRequest) (onced.ReserveResult, error) {
	if p := k.world.refuse.Load(); p != nil {
		return onced.ReserveResult{}, p
	}
	return k.Keeper.Reserve(ctx, r)
}

type refusing struct {
	onced.Keeper
	world *world
}

// RoundTrip is part of http.RoundTripper: the client's way to the gateway.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.sent.Add(1)
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || w.lose.Add(-1) < 0 {
		return answer, err
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return nil, errors.New("the connection was reset")
}

// begin starts all of it. The client retries twice, without waiting.
func begin(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, api: &standIn{begun: make(chan struct{}), finish: make(chan struct{})}, keeper: memkeeper.New(func() onced.Instant { return onced.InstantOf(time.Now()) })}
	upstream := httptest.NewServer(w.api)
	t.Cleanup(upstream.Close)
	config := gateway.Config{Upstream: upstream.URL, Tenant: "authorization", Routes: []gateway.Route{{Match: "POST /v1/*", Contract: "stripe", Key: "optional"}}}
	g, err := gateway.New(config, gateway.Deps{Keeper: refusing{w.keeper, w}, Secret: []byte("a secret of thirty-two bytes, or so"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := g.Server(config)
	go server.Serve(door)
	t.Cleanup(func() {
		server.Close()
		over, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		g.Drain(over)
	})
	w.address = "http://" + door.Addr().String()
	w.client = w.newClient("sk_test_one")
	return w
}

// newClient returns an official client with credentials of its own.
func (w *world) newClient(key string) *stripe.Client {
	backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(w.address), HTTPClient: &http.Client{Transport: w, Timeout: 20 * time.Second}, MaxNetworkRetries: stripe.Int64(2),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	backends.API.(*stripe.BackendImplementation).SetNetworkRetriesSleep(false)
	return stripe.NewClient(key, stripe.WithBackends(backends))
}

// create asks for a payment. key "" lets the client make its own.
func (w *world) create(key string, amount int64) (*stripe.PaymentIntent, error) {
	return createWith(w.client, key, amount)
}

func createWith(client *stripe.Client, key string, amount int64) (*stripe.PaymentIntent, error) {
	params := &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(amount), Currency: stripe.String("eur")}
	if key != "" {
		params.SetIdempotencyKey(key)
	}
	return client.V1PaymentIntents.Create(context.Background(), params)
}

// expect wants so many requests at the stand-in, and so many charges.
func (w *world) expect(asked, charges int) {
	w.t.Helper()
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	if w.api.asked != asked || w.api.charges != charges {
		w.t.Fatalf("the stand-in was asked %d times and charged %d times, expected %d and %d", w.api.asked, w.api.charges, asked, charges)
	}
}

// stripeError returns the client's error, which must be one that it understood.
func stripeError(t *testing.T, err error) *stripe.Error {
	t.Helper()
	var e *stripe.Error
	if !errors.As(err, &e) {
		t.Fatalf("the client says %T %v, expected an error of Stripe's", err, err)
	}
	return e
}
