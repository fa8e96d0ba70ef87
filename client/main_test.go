package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"onced"
	"onced/client"
	"onced/fsm/memkeeper"
	"onced/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneCluster tells nothing of a cluster; no call of a Keeper asks for it.
type oneCluster struct{}

func (oneCluster) Status() onced.ClusterStatus { return onced.ClusterStatus{} }
func (oneCluster) Ready() error                { return nil }

// act is what becomes of one request on the network.
type act int

const (
	deliver    act = iota
	refuse         // no connection
	cut            // the connection dies before the node has it
	lose           // the node does it, and the answer is lost
	later          // the connection dies, and the node has the request a while later
	hang           // the node never answers
	shed           // the node answers 503 unavailable
	garble         // the node does it, and what comes back is somebody else's page
	gateway502     // a proxy answers instead
)

// network is a transport to nodes that share one table. decide says what becomes of a request.
type network struct {
	keeper  *memkeeper.Keeper
	handler http.Handler
	delay   func() time.Duration // of later

	mu     sync.Mutex
	decide func(r *http.Request) act
	seen   []seen
	late   sync.WaitGroup
}

// seen is a request as it was sent.
type seen struct {
	host, method, path string
	header             http.Header
	body               string
	rewindable         bool
}

func newNetwork(decide func(r *http.Request) act) *network {
	n := &network{
		keeper: memkeeper.New(func() onced.Instant { return onced.InstantOf(time.Now()) }),
		decide: decide,
		delay:  func() time.Duration { return time.Second },
	}
	n.handler = httpapi.New(httpapi.Config{Keeper: n.keeper, Cluster: oneCluster{}, Authority: httpapi.NoAuth{}})
	return n
}

// become changes what becomes of requests from now on.
func (n *network) become(decide func(r *http.Request) act) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.decide = decide
}

func always(a act) func(*http.Request) act { return func(*http.Request) act { return a } }

// byHost decides by the node; others deliver.
func byHost(acts map[string]act) func(*http.Request) act {
	return func(r *http.Request) act { return acts[r.URL.Hostname()] }
}

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	n.mu.Lock()
	n.seen = append(n.seen, seen{r.URL.Hostname(), r.Method, r.URL.RequestURI(), r.Header, string(body), r.GetBody != nil})
	fate := n.decide(r)
	n.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	switch fate {
	case refuse:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case cut:
		return nil, io.ErrUnexpectedEOF
	case lose:
		n.serve(r.Context(), r, body)
		return nil, io.ErrUnexpectedEOF
	case later:
		n.late.Go(func() {
			time.Sleep(n.delay())
			n.serve(context.Background(), r, body)
		})
		return nil, io.ErrUnexpectedEOF
	case hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case shed:
		return page(503, "application/problem+json", `{"code":"unavailable","detail":"no leader","retry":"same_key","retry_after":1}`), nil
	case garble:
		n.serve(r.Context(), r, body)
		return page(200, "text/html", "<html>hello</html>"), nil
	case gateway502:
		return page(502, "text/html", "<html>bad gateway</html>"), nil
	}
	return n.serve(r.Context(), r, body)
}

func page(status int, kind, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}},
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader([]byte(body)))}
}

// serve has the node answer, or ctx end before.
func (n *network) serve(ctx context.Context, r *http.Request, body []byte) (*http.Response, error) {
	in := httptest.NewRequestWithContext(ctx, r.Method, "http://"+r.URL.Host+r.URL.RequestURI(), bytes.NewReader(body))
	in.Header = r.Header.Clone()
	w := httptest.NewRecorder()
	done := make(chan struct{})
	n.late.Go(func() { defer close(done); n.handler.ServeHTTP(w, in) })
	select {
	case <-done:
		return w.Result(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hosts are the nodes that were asked, in their order.
func (n *network) hosts() (hosts []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.seen {
		hosts = append(hosts, s.host)
	}
	return hosts
}

var threeNodes = []string{"http://n1:1", "http://n2:1", "http://n3:1"}

// newClient returns a client of three nodes on n.
func newClient(t *testing.T, n *network, tune ...func(*client.Config)) *client.Client {
	t.Helper()
	cfg := client.Config{Nodes: threeNodes, Transport: n}
	for _, f := range tune {
		f(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// finish closes c, after what it still owes is done, and waits for the network.
func finish(t *testing.T, c *client.Client, n *network) {
	t.Helper()
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	n.late.Wait()
}

func keyOf(name string) onced.ID { return onced.ID{Tenant: "acme", Key: onced.Key(name)} }

func reserveOf(name string) onced.ReserveRequest {
	return onced.ReserveRequest{ID: keyOf(name), Fingerprint: "f", Lease: time.Hour}
}

func ok() *onced.Response { return &onced.Response{Status: 201, Body: []byte("done")} }

// within returns a context that ends after d of virtual time.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func wantCode(t *testing.T, err error, want onced.Code) {
	t.Helper()
	if got := onced.CodeOf(err); got != want {
		t.Errorf("code %q (%v), want %q", got, err, want)
	}
}
