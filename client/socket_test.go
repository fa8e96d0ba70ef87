package client_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"onced"
	"onced/client"
)

// TestDeadConnection: a kept-alive connection that dies under a call is the client's to repeat, not
// net/http's: the node has seen the call once.
func TestDeadConnection(t *testing.T) {
	n := newNetwork(always(deliver))
	var deaths atomic.Int64
	dying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "dies") {
			deaths.Add(1)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
			return
		}
		n.handler.ServeHTTP(w, r)
	}))
	defer dying.Close()
	other := httptest.NewServer(n.handler)
	defer other.Close()
	c, err := client.New(client.Config{Nodes: []string{dying.URL, other.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer finish(t, c, n)
	if _, err := c.Reserve(within(t, 10*time.Second), reserveOf("lives")); err != nil {
		t.Fatal(err)
	}
	r, err := c.Reserve(within(t, 10*time.Second), reserveOf("dies"))
	if err != nil || r.Repeated {
		t.Errorf("%+v, %v", r, err)
	}
	if deaths.Load() != 1 {
		t.Errorf("the node saw it %d times", deaths.Load())
	}
}

// TestNoRedirect: an answer that points elsewhere is not followed.
func TestNoRedirect(t *testing.T) {
	n := newNetwork(always(deliver))
	var followed atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	defer elsewhere.Close()
	pointing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer pointing.Close()
	c, err := client.New(client.Config{Nodes: []string{pointing.URL}, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer finish(t, c, n)
	own := reserveOf("k")
	own.Owner = "mine" // so that nothing is to be cancelled
	_, err = c.Reserve(within(t, 5*time.Second), own)
	wantCode(t, err, onced.CodeUnavailable)
	if followed.Load() {
		t.Error("it was followed, with the credential and the body")
	}
}
