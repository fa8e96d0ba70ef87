package client_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"onced"
	"onced/client"
)

// TestVerbs compares every verb over HTTP with the same verb on the Keeper itself.
func TestVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(deliver))
		c := newClient(t, n)
		defer finish(t, c, n)
		ctx := t.Context()
		id := onced.ID{Tenant: "acme", Scope: "POST /a b", Key: `a/b "c",%2F`}
		r, err := c.Reserve(ctx, onced.ReserveRequest{ID: id, Fingerprint: "fé", Lease: time.Minute, Tombstone: time.Hour, OnLapse: onced.Retry})
		if err != nil || r.Replayed || r.Record.Token == 0 || r.Record.Owner == "" || r.Record.Attempt != 1 || r.Record.Lease != time.Minute {
			t.Fatalf("reserve: %+v, %v", r, err)
		}
		token := r.Record.Token
		renewed, err := c.Renew(ctx, onced.RenewRequest{ID: id, Token: token, Lease: 2 * time.Minute, Checkpoint: []byte(`{"step":1}`)})
		if err != nil || renewed.LeaseExpiresAt != onced.InstantOf(time.Now().Add(2*time.Minute)) {
			t.Fatalf("renew: %+v, %v", renewed, err)
		}
		again, err := c.Reserve(ctx, onced.ReserveRequest{ID: id, Fingerprint: "fé", Owner: r.Record.Owner})
		if err != nil || !again.Repeated || again.Record.Token != token || string(again.Record.Checkpoint) != `{"step":1}` {
			t.Errorf("repeated reserve: %+v, %v", again, err)
		}
		_, err = c.Reserve(ctx, onced.ReserveRequest{ID: id, Fingerprint: "other"})
		wantCode(t, err, onced.CodeConflict)
		_, err = c.Reserve(ctx, onced.ReserveRequest{ID: id, Fingerprint: "fé"})
		wantCode(t, err, onced.CodeRequestInProgress)
		if p := onced.AsProblem(err); p.RetryAfter == 0 {
			t.Errorf("no retry after in %+v", p)
		}
		response := &onced.Response{Status: 201, Headers: []onced.Header{{Name: "X", Value: "1"}, {Name: "X", Value: "\xff"}}, Body: []byte{0, 0xff}}
		done, err := c.Complete(ctx, onced.CompleteRequest{ID: id, Token: token, Response: response})
		if err != nil || done.State != onced.StateCompleted || done.ID != id {
			t.Fatalf("complete: %+v, %v", done, err)
		}
		replay, err := c.Reserve(ctx, onced.ReserveRequest{ID: id, Fingerprint: "fé"})
		if diff := cmp.Diff(response, replay.Record.Response); err != nil || !replay.Replayed || diff != "" {
			t.Errorf("replay: %v, %s", err, diff)
		}
		got, err := c.Get(ctx, onced.GetRequest{ID: id})
		want, _ := n.keeper.Get(ctx, onced.GetRequest{ID: id})
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(onced.Record{}, "OnLapse", "Lease", "Retention", "Tombstone", "Checkpoint", "LeaseExpiresAt")); err != nil || diff != "" {
			t.Errorf("get: %v, %s", err, diff)
		}
		wantCode(t, c.Release(ctx, onced.ReleaseRequest{ID: id, Token: token}), onced.CodeAlreadyCompleted)
		if err := c.Forget(ctx, onced.ForgetRequest{ID: id, Reason: "a test"}); err != nil {
			t.Errorf("forget: %v", err)
		}
		_, err = c.Get(ctx, onced.GetRequest{ID: id, Stale: true})
		wantCode(t, err, onced.CodeKeyNotFound)
	})
}

func TestOperatorVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(deliver))
		c := newClient(t, n)
		defer finish(t, c, n)
		for _, name := range []string{"a", "b", "."} {
			r, err := c.Reserve(t.Context(), reserveOf(name))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Complete(t.Context(), onced.CompleteRequest{ID: keyOf(name), Token: r.Record.Token, Unknown: true}); err != nil {
				t.Fatal(err)
			}
		}
		page, err := c.List(t.Context(), onced.ListRequest{Tenant: "acme", State: onced.StateUnknown, Limit: 2})
		if err != nil || len(page.Records) != 2 || page.NextCursor == "" {
			t.Fatalf("list: %+v, %v", page, err)
		}
		scope := ""
		rest, err := c.List(t.Context(), onced.ListRequest{Tenant: "acme", Cursor: page.NextCursor, Scope: &scope})
		if err != nil || len(rest.Records) != 1 || rest.NextCursor != "" {
			t.Errorf("the second page: %+v, %v", rest, err)
		}
		done, err := c.Resolve(t.Context(), onced.ResolveRequest{ID: keyOf("a"), Response: ok(), Reason: "seen"})
		if err != nil || done.State != onced.StateCompleted {
			t.Errorf("resolve completed: %+v, %v", done, err)
		}
		freed, err := c.Resolve(t.Context(), onced.ResolveRequest{ID: keyOf("."), Reason: "not seen"})
		if err != nil || freed.State != onced.StateAbsent {
			t.Errorf("resolve released: %+v, %v", freed, err)
		}
		wantCode(t, c.Forget(t.Context(), onced.ForgetRequest{ID: keyOf("b")}), onced.CodeOutcomeUnknown)
	})
}

// TestFailover is about one reserve and what the network does to its tries.
func TestFailover(t *testing.T) {
	for _, c := range []struct {
		name  string
		acts  map[string]act
		code  onced.Code
		hosts string // asked, in order
	}{
		{"the first works", nil, "", "n1"},
		{"refused", map[string]act{"n1": refuse}, "", "n1 n2"},
		{"cut", map[string]act{"n1": cut, "n2": cut}, "", "n1 n2 n3"},
		{"answer lost", map[string]act{"n1": lose}, "", "n1 n2"},
		{"hangs", map[string]act{"n1": hang}, "", "n1 n2"},
		{"503", map[string]act{"n1": shed, "n2": refuse}, "", "n1 n2 n3"},
		{"a page instead", map[string]act{"n1": garble}, "", "n1 n2"},
		{"502", map[string]act{"n1": gateway502}, "", "n1 n2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(byHost(c.acts))
				cl := newClient(t, n)
				r, err := cl.Reserve(within(t, 10*time.Second), reserveOf("k"))
				wantCode(t, err, c.code)
				if r.Record.Token != 1 || r.Record.Attempt != 1 {
					t.Errorf("not the one reservation: %+v", r)
				}
				finish(t, cl, n)
				if got := strings.Join(n.hosts(), " "); got != c.hosts {
					t.Errorf("asked %s, want %s", got, c.hosts)
				}
			})
		})
	}
}

// TestOneOwner: all tries of a reserve are one reservation's.
func TestOneOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		n := newNetwork(func(*http.Request) act {
			if tries++; tries < 7 {
				return lose
			}
			return deliver
		})
		c := newClient(t, n)
		r, err := c.Reserve(within(t, time.Minute), reserveOf("k"))
		if err != nil || !r.Repeated || r.Record.Attempt != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		finish(t, c, n)
		for _, s := range n.seen {
			if s.body != n.seen[0].body || !strings.Contains(s.body, `"owner":"`+r.Record.Owner) {
				t.Errorf("a try with another body: %s", s.body)
			}
			if s.rewindable || s.header.Get(onced.KeyHeader) != "" {
				t.Errorf("net/http may send it again: %+v", s)
			}
		}
	})
}

// TestDecided: what a node decided is not asked again.
func TestDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(deliver))
		c := newClient(t, n)
		defer finish(t, c, n)
		if _, err := c.Reserve(t.Context(), reserveOf("k")); err != nil {
			t.Fatal(err)
		}
		other := reserveOf("k")
		other.Fingerprint = "g"
		for _, call := range []struct {
			want onced.Code
			do   func() error
		}{
			{onced.CodeRequestInProgress, func() error { _, err := c.Reserve(t.Context(), reserveOf("k")); return err }},
			{onced.CodeConflict, func() error { _, err := c.Reserve(t.Context(), other); return err }},
			{onced.CodeStaleToken, func() error { return c.Release(t.Context(), onced.ReleaseRequest{ID: keyOf("k"), Token: 9}) }},
			{onced.CodeKeyNotFound, func() error { _, err := c.Get(t.Context(), onced.GetRequest{ID: keyOf("none")}); return err }},
		} {
			before := len(n.hosts())
			wantCode(t, call.do(), call.want)
			if asked := len(n.hosts()) - before; asked != 1 {
				t.Errorf("%s: asked %d times", call.want, asked)
			}
		}
	})
}

// TestRetryAfter: a node that says when is not asked before; the others are.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		n := newNetwork(func(*http.Request) act {
			if time.Since(start) < 900*time.Millisecond {
				return shed
			}
			return deliver
		})
		c := newClient(t, n)
		defer finish(t, c, n)
		if _, err := c.Reserve(within(t, 5*time.Second), reserveOf("k")); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Second || len(n.seen) != 4 {
			t.Errorf("%d tries in %s, want three at once and one after 1s", len(n.seen), took)
		}
		// No time is left for it: the answer comes at once.
		n.become(always(shed))
		start = time.Now()
		_, err := c.Get(within(t, 800*time.Millisecond), onced.GetRequest{ID: keyOf("k")})
		wantCode(t, err, onced.CodeUnavailable)
		if p := onced.AsProblem(err); time.Since(start) != 0 || p.RetryAfter != time.Second || !strings.Contains(p.Detail, "no leader") {
			t.Errorf("after %s: %+v", time.Since(start), p)
		}
	})
}

// TestSticky: calls begin with the node that worked last, and return to the first if asked to.
func TestSticky(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(byHost(map[string]act{"n1": refuse}))
		c := newClient(t, n, func(cfg *client.Config) { cfg.ReturnAfter = time.Minute })
		defer finish(t, c, n)
		get := func() { _, _ = c.Get(t.Context(), onced.GetRequest{ID: keyOf("k")}) }
		get() // n1 n2
		get() // n2
		time.Sleep(time.Minute)
		get() // n1 n2: still away
		get() // n2
		n.become(always(deliver))
		get() // n2: not yet time
		time.Sleep(time.Minute)
		get() // n1
		get() // n1
		want := strings.Fields("n1 n2 n2 n1 n2 n2 n2 n1 n1")
		if diff := cmp.Diff(want, n.hosts()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestOutageIsToldOnce: failovers are logged once a second, however many calls go from node to node.
func TestOutageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := newNetwork(always(refuse))
		c := newClient(t, n, func(cfg *client.Config) { cfg.Logger, cfg.Rounds = slog.New(slog.NewTextHandler(&log, nil)), 2 })
		defer finish(t, c, n)
		start := time.Now()
		for time.Since(start) < 10*time.Second {
			_, _ = c.Get(t.Context(), onced.GetRequest{ID: keyOf("k")})
		}
		if lines := strings.Count(log.String(), "going on with the next"); lines < 9 || lines > 11 || len(n.hosts()) < 200 {
			t.Errorf("%d lines of %d tries", lines, len(n.hosts()))
		}
	})
}

// TestRounds: with a bound on rounds a call ends before its time is over.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(refuse))
		c := newClient(t, n, func(cfg *client.Config) { cfg.Rounds = 1 })
		defer finish(t, c, n)
		start := time.Now()
		_, err := c.Get(t.Context(), onced.GetRequest{ID: keyOf("k")})
		wantCode(t, err, onced.CodeUnavailable)
		if got := strings.Join(n.hosts(), " "); got != "n1 n2 n3" || time.Since(start) != 0 {
			t.Errorf("asked %s in %s", got, time.Since(start))
		}
		for _, node := range threeNodes {
			if !strings.Contains(err.Error(), node) {
				t.Errorf("no %s in %v", node, err)
			}
		}
	})
}

// TestOperatorOnce: an operator's verb acts on the record that it saw, so it is not sent again
// once it may have arrived.
func TestOperatorOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			act   act
			tries int
		}{{refuse, 2}, {lose, 1}, {shed, 1}} {
			n := newNetwork(byHost(map[string]act{"n1": c.act}))
			cl := newClient(t, n)
			err := cl.Forget(within(t, 10*time.Second), onced.ForgetRequest{ID: keyOf("k")})
			if c.tries == 1 {
				wantCode(t, err, onced.CodeUnavailable)
			} else {
				wantCode(t, err, onced.CodeKeyNotFound)
			}
			if got := len(n.hosts()); got != c.tries {
				t.Errorf("act %d: %d tries, want %d", c.act, got, c.tries)
			}
			finish(t, cl, n)
		}
	})
}

// TestWaitIsShared: what a call has waited at one node, it does not wait again at the next.
func TestWaitIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(byHost(map[string]act{"n1": hang}))
		c := newClient(t, n)
		if _, err := n.keeper.Reserve(t.Context(), reserveOf("k")); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r := reserveOf("k")
		r.Wait = 8 * time.Second
		_, err := c.Reserve(t.Context(), r)
		wantCode(t, err, onced.CodeRequestInProgress)
		if took := time.Since(start).Truncate(10 * time.Millisecond); took != 8*time.Second+client.DefaultTryTimeout {
			t.Errorf("it took %s", took)
		}
		finish(t, c, n)
		if !strings.Contains(n.seen[0].body, `"wait":"8s"`) || strings.Contains(n.seen[1].body, "wait") {
			t.Errorf("%s, then %s", n.seen[0].body, n.seen[1].body)
		}
	})
}

func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(deliver))
		c := newClient(t, n, func(cfg *client.Config) { cfg.Token, cfg.Tenant = "secret", "ours" })
		defer finish(t, c, n)
		if _, err := c.Reserve(t.Context(), onced.ReserveRequest{ID: onced.ID{Key: "k"}}); err != nil {
			t.Fatal(err)
		}
		if h := n.seen[0].header; h.Get("Authorization") != "Bearer secret" || h.Get("Onced-Tenant") != "ours" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%v", h)
		}
		if _, err := n.keeper.Get(t.Context(), onced.GetRequest{ID: onced.ID{Tenant: "ours", Key: "k"}}); err != nil {
			t.Error(err)
		}
	})
}

// TestRefusedHere: what no node would take is refused without asking one.
func TestRefusedHere(t *testing.T) {
	n := newNetwork(always(deliver))
	c := newClient(t, n)
	defer finish(t, c, n)
	for name, call := range map[string]func() error{
		"tenant": func() error { return c.Forget(t.Context(), onced.ForgetRequest{ID: onced.ID{Tenant: "a b", Key: "k"}}) },
		"no key": func() error { return c.Forget(t.Context(), onced.ForgetRequest{ID: onced.ID{Tenant: "a"}}) },
		"fingerprint": func() error {
			_, err := c.Reserve(t.Context(), onced.ReserveRequest{ID: keyOf("k"), Fingerprint: "\xff"})
			return err
		},
		"no token": func() error { _, err := c.Renew(t.Context(), onced.RenewRequest{ID: keyOf("k")}); return err },
		"wait": func() error {
			_, err := c.Get(t.Context(), onced.GetRequest{ID: keyOf("k"), Wait: time.Hour})
			return err
		},
		"list": func() error { _, err := c.List(t.Context(), onced.ListRequest{Tenant: "ü"}); return err },
	} {
		if code := onced.CodeOf(call()); code != onced.CodeInvalidRequest && code != onced.CodeKeyInvalid {
			t.Errorf("%s: code %q", name, code)
		}
	}
	if len(n.hosts()) != 0 {
		t.Errorf("asked %v", n.hosts())
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		cfg  client.Config
		want string
	}{
		{client.Config{}, "there is no node"},
		{client.Config{Nodes: []string{"n1:8480"}}, "no node's address"},
		{client.Config{Nodes: []string{"http://n1:8480/v1"}}, "no node's address"},
		{client.Config{Nodes: []string{"http://n1:1", "http://n1:1/"}}, "twice"},
		{client.Config{Nodes: threeNodes, Tenant: "a b"}, "tenant"},
		{client.Config{Nodes: threeNodes, Token: "a\nb"}, "token"},
		{client.Config{Nodes: threeNodes, Timeout: -1}, "negative"},
		{client.Config{Nodes: threeNodes, RootCAs: x509.NewCertPool(), Transport: http.DefaultTransport}, "RootCAs"},
	} {
		if _, err := client.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}

// TestGivenUp: a reserve whose fate is not known leaves nothing behind, whenever its tries arrive.
func TestGivenUp(t *testing.T) {
	for name, a := range map[string]act{"lost answers": lose, "late arrival": later, "hangs": hang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(always(a))
				n.delay = func() time.Duration { return 5 * time.Second }
				c := newClient(t, n)
				_, err := c.Reserve(within(t, 2*time.Second), reserveOf("k"))
				wantCode(t, err, onced.CodeUnavailable)
				n.become(always(deliver))
				finish(t, c, n)
				_, err = n.keeper.Get(context.Background(), onced.GetRequest{ID: keyOf("k")})
				wantCode(t, err, onced.CodeKeyNotFound)
				if last := n.seen[len(n.seen)-1]; !strings.HasSuffix(last.path, "/release") || !strings.Contains(last.body, `"owner"`) {
					t.Errorf("the last request is %+v, want the cancel", last)
				}
			})
		})
	}
}

// TestNothingToCancel: where nothing was sent, or the owner is the caller's, nothing is cancelled.
func TestNothingToCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := reserveOf("k")
		own.Owner = "mine"
		for _, c := range []struct {
			act act
			r   onced.ReserveRequest
		}{{refuse, reserveOf("k")}, {shed, own}} {
			n := newNetwork(always(c.act))
			cl := newClient(t, n)
			_, err := cl.Reserve(within(t, 2*time.Second), c.r)
			wantCode(t, err, onced.CodeUnavailable)
			n.become(always(deliver))
			finish(t, cl, n)
			if slices.ContainsFunc(n.seen, func(s seen) bool { return strings.Contains(s.path, "release") }) {
				t.Errorf("act %d: a cancel was sent", c.act)
			}
		}
	})
}

// TestCloseIsBounded: an owed cancel that no node takes does not hold Close beyond its context.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(always(hang))
		c := newClient(t, n)
		_, err := c.Reserve(within(t, time.Second), reserveOf("k"))
		wantCode(t, err, onced.CodeUnavailable)
		start := time.Now()
		if err := c.Close(within(t, 3*time.Second)); err == nil || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		n.late.Wait()
	})
}
