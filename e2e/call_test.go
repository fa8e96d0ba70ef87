//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// client sends to the nodes. A connection that dies ends its call: nothing is sent twice.
var client = &http.Client{
	Timeout: patience,
	Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 256,
		DisableCompression:  true,
	},
}

// object is a JSON object to be sent.
type object map[string]any

// answer is what a call came back with: an error, or the rest.
type answer struct {
	err    error
	reused bool // it came over a connection that had served before
	status int
	header http.Header
	body   []byte
}

// String is for the message of a failed check.
func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprintf("%d %.300s", a.status, a.body)
}

func (a answer) decode(v any) error {
	if a.err != nil {
		return a.err
	}
	return json.Unmarshal(a.body, v)
}

// code is the problem code of the answer, "" for none.
func (a answer) code() string {
	var p struct{ Code string }
	if a.err != nil || a.status < 400 || json.Unmarshal(a.body, &p) != nil {
		return ""
	}
	return p.Code
}

// undecided tells whether the call should be sent again: no answer, or 503.
func (a answer) undecided() bool { return a.err != nil || a.status == http.StatusServiceUnavailable }

// record is every member of a record, of a reservation or of a replay that a test looks at.
type record struct {
	Outcome   string          `json:"outcome"`
	Replayed  bool            `json:"replayed"`
	Repeated  bool            `json:"repeated"`
	State     string          `json:"state"`
	Token     uint64          `json:"token"`
	Owner     string          `json:"owner"`
	Attempt   int             `json:"attempt"`
	LeaseEnd  time.Time       `json:"lease_expires_at"`
	Completed time.Time       `json:"completed_at"`
	Expires   time.Time       `json:"expires_at"`
	Response  json.RawMessage `json:"response"`
}

// record decodes the answer; its zero value when there is none.
func (a answer) record() (r record) {
	_ = a.decode(&r)
	return r
}

func (n *node) get(path string) answer { return n.send(http.MethodGet, path, nil) }

// send sends one request with a JSON body, where there is one.
func (n *node) send(method, path string, body object) answer {
	return n.sendUntil(context.Background(), method, path, body)
}

// sendUntil is send by a caller who hangs up when ctx ends.
func (n *node) sendUntil(ctx context.Context, method, path string, body object) answer {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return answer{err: err}
		}
		sent = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+n.api+path, sent)
	if err != nil {
		return answer{err: err}
	}
	return do(r)
}

func do(r *http.Request) (a answer) {
	trace := httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { a.reused = c.Reused }}
	response, err := client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), &trace)))
	if err != nil {
		a.err = err
		return a
	}
	defer response.Body.Close()
	a.status, a.header = response.StatusCode, response.Header
	a.body, a.err = io.ReadAll(response.Body)
	return a
}

func (n *node) post(key, verb string, body object) answer {
	return n.send(http.MethodPost, "/v1/keys/"+key+"/"+verb, body)
}

// reserve asks for key with the fingerprint f, and with what else more says.
func (n *node) reserve(key string, more object) answer {
	body := object{"fingerprint": "f"}
	for name, value := range more {
		body[name] = value
	}
	return n.post(key, "reserve", body)
}

func (n *node) complete(key string, token uint64, response any) answer {
	return n.post(key, "complete", object{"token": token, "response": response})
}

func (n *node) look(key string) answer      { return n.get("/v1/keys/" + key) }
func (n *node) lookStale(key string) answer { return n.get("/v1/keys/" + key + "?stale=true") }

// insist sends a call to the nodes in turn, from the one at first on, until it is decided.
func (c *cluster) insist(first int, call func(n *node) answer) (a answer) {
	c.t.Helper()
	for i, end := first, time.Now().Add(patience); time.Now().Before(end); i++ {
		if a = call(c.nodes[i%len(c.nodes)]); !a.undecided() {
			return a
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.t.Errorf("no node decides: %s", a)
	return a
}
