package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// waitCount waits until n lines of the log hold text.
func (r *running) waitCount(t *testing.T, text string, n int) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		lines, more := r.lines, r.more
		r.mu.Unlock()
		count := 0
		for _, line := range lines {
			if strings.Contains(line, text) {
				count++
			}
		}
		if count >= n {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("%d lines with %q, expected %d:\n%s", count, text, n, strings.Join(lines, "\n"))
		}
	}
}

// TestReloadUnderLoad changes the routes again and again while requests come, one of which runs on while its route is
// gone. None fails, none runs twice, and a broken file changes nothing.
func TestReloadUnderLoad(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	var charges, refunds atomic.Int64
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/refund") {
			refunds.Add(1)
			close(arrived)
			<-release
		} else {
			charges.Add(1)
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, r.Header.Get("Idempotency-Key"))
	}))
	defer u.Close()
	both := routes(u.URL, "POST /charge") + "    - match: POST /refund\n"
	one := routes(u.URL, "POST /charge") + "      max_concurrent: 100\n"
	broken := routes(u.URL, "POST /charge") + "      lease: 30\n"
	file := writeFile(t, both)
	r := startServe(t, nil, "--config", file)

	slow := make(chan string, 1)
	go func() {
		status, body, header := post(t, r.gate+"/refund", "slow")
		slow <- fmt.Sprint(status, body, header.Get("Idempotency-Replayed"))
	}()
	<-arrived
	var load sync.WaitGroup
	var keys atomic.Int64
	over, charged := make(chan struct{}), make(chan struct{}, 1)
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				key := fmt.Sprint("k-", keys.Add(1))
				for _, replayed := range []string{"false", "true"} {
					if status, body, header := post(t, r.gate+"/charge", key); status != 201 || body != key || header.Get("Idempotency-Replayed") != replayed {
						t.Errorf("%s: %d %q, replayed %q", key, status, body, header.Get("Idempotency-Replayed"))
					}
				}
				select {
				case charged <- struct{}{}:
				default:
				}
			}
		})
	}
	change := func(content, line string, count int) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r.signal(t, syscall.SIGHUP)
		r.waitCount(t, line, count)
		<-charged // under it, or a little before
		<-charged
	}
	for i := range 10 {
		change(one, "the routes are in force", i+1+i)
		change(broken, "the old settings stay in force", i+1)
		r.waitCount(t, "onced.yaml:7: gateway: routes[0] (POST /charge): lease: ", i+1)
		if i == 5 { // its route is gone by now
			close(release)
			if got := <-slow; got != "201slowfalse" {
				t.Errorf("the operation whose route went away got %s", got)
			}
		}
		change(both, "the routes are in force", i+2+i)
	}
	close(over)
	load.Wait()
	if status, body, header := post(t, r.gate+"/refund", "slow"); status != 201 || body != "slow" || header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("its repeat: %d %q, replayed %q", status, body, header.Get("Idempotency-Replayed"))
	}
	if charges.Load() != keys.Load() || refunds.Load() != 1 || keys.Load() < 20 {
		t.Errorf("%d keys were charged %d times, one refunded %d times", keys.Load(), charges.Load(), refunds.Load())
	}
}
