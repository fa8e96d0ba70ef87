// Package load is the clients of a round. They come to any node, follow the advice of the answers, and
// write down what they were told.
//
// Invariants:
//
//   - What a client does is decided by the seed and by what it is told.
//   - A client that was granted a reservation does with it what contract §2 lets a holder do; one that gives a
//     reserve up cancels its owner until that is acknowledged.
//   - After the round's end no new operation begins; what is open is brought to an end before Run returns.
package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"onced/chaos/history"
	"onced/client"
)

// Doors are how the clients reach the cluster. The functions may be called at any time.
type Doors struct {
	APIs  []string // base URLs, by seat
	Gates []string
	// Who has a seat now, and how often it was started.
	Who func(seat int) (node string, life int)
}

// Load is the clients of one round.
type Load struct {
	Doors Doors
	Book  *history.Book
	Round string // the keys begin with it
	Seed  uint64
	Scale float64 // of the number of clients; 1 = those of a small machine

	http   *http.Client
	known  known
	issued issued
}

// Run has the clients work until ctx ends, and then until each has brought its last operation to an end.
func (l *Load) Run(ctx context.Context) error {
	transport := client.NewTransport(nil)
	defer transport.CloseIdleConnections()
	l.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var clients sync.WaitGroup
	stream := uint64(0)
	add := func(count int, run func(context.Context, int, *rand.Rand)) {
		for range max(1, int(float64(count)*l.Scale)) {
			stream++
			id, chance := int(stream), rand.New(rand.NewPCG(l.Seed, stream))
			clients.Go(func() { run(ctx, id, chance) })
		}
	}
	add(8, l.all)
	add(5, l.work)
	add(2, l.orphan)
	add(3, l.charge)
	add(1, l.stare)
	clients.Wait()
	return nil
}

// answer is what an HTTP call came back with: an error, or the rest.
type answer struct {
	err    error
	status int
	header http.Header
	body   []byte
}

func (a answer) undecided() bool { return a.err != nil || a.status == http.StatusServiceUnavailable }

// said is every member that a client looks at.
type said struct {
	Code     string `json:"code"`
	Retry    string `json:"retry"`
	Outcome  string `json:"outcome"`
	State    string `json:"state"`
	Token    uint64 `json:"token"`
	Owner    string `json:"owner"`
	Attempt  int    `json:"attempt"`
	Repeated bool   `json:"repeated"`
	Response struct {
		Body string `json:"body"`
	} `json:"response"`
}

func (a answer) said() (s said) {
	_ = json.Unmarshal(a.body, &s) // what is no JSON says nothing
	return s
}

// send sends one request, once.
func (l *Load) send(ctx context.Context, method, url string, header http.Header, body any) (a answer) {
	l.Book.Called()
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return answer{err: err}
		}
		sent = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, sent)
	if err != nil {
		return answer{err: err}
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.GetBody = nil // or net/http could send it a second time
	response, err := l.http.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	a.status, a.header = response.StatusCode, response.Header
	a.body, a.err = io.ReadAll(response.Body)
	return a
}

// object is a JSON object to be sent.
type object map[string]any

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// upTo is a duration below most.
func upTo(chance *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(chance.Int64N(int64(most)))
}

func (l *Load) path(key, verb string) string {
	if verb == "" {
		return "/v1/keys/" + key
	}
	return fmt.Sprintf("/v1/keys/%s/%s", key, verb)
}
