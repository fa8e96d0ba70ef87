package propose

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"onced/fsm"
	"onced/fsm/command"
)

// frameOf is a frame as another node would send it.
func frameOf(t *testing.T, term uint64, cmds ...*command.Command) []byte {
	t.Helper()
	data, err := proto.Marshal(&command.Frame{Term: term, Commands: cmds})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func received(t *testing.T, n *node, frame []byte) *command.Results {
	t.Helper()
	answer, err := n.Receive(context.Background(), frame)
	if err != nil {
		t.Fatal(err)
	}
	results := new(command.Results)
	if err := proto.Unmarshal(answer, results); err != nil {
		t.Fatal(err)
	}
	return results
}

// What is put together by hand must be what the generated code would write.
func TestBytesAreThoseOfTheSchema(t *testing.T) {
	now := time.Now()
	local, err := newCall(reserve("a", "o"), now.Add(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	late, _ := newCall(reserve("late", "o"), now.Add(-time.Second))
	data, kept := frame(7, 5000, now, []*call{local, late})
	got := new(command.Frame)
	if err := proto.Unmarshal(data, got); err != nil {
		t.Fatal(err)
	}
	sent := reserve("a", "o")
	sent.NotAfterMs = 7000
	if diff := cmp.Diff(&command.Frame{Term: 7, Commands: []*command.Command{sent}}, got, protocmp.Transform()); diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}
	if len(kept) != 1 || !errors.Is(late.err, ErrTooLate) {
		t.Errorf("%d calls were kept; the late one: %v", len(kept), late.err)
	}

	frameBytes := data
	term, hops, err := readFrame(frameBytes)
	if err != nil || term != 7 || len(hops) != 1 {
		t.Fatalf("readFrame = %d, %d calls, %v", term, len(hops), err)
	}
	elsewhere := &call{group: newGroup(1), hop: 6, body: hops[0].body}
	own, _ := newCall(complete("b", 3, 5), now.Add(time.Second))
	data, kept = entry(7, 6500, now, []*call{hops[0], elsewhere, own})
	ownSent := complete("b", 3, 5)
	ownSent.NotAfterMs = 7500
	want := &command.Entry{Version: fsm.Version, StampMs: 6500, Commands: []*command.Command{sent, ownSent}}
	decoded, err := fsm.DecodeEntry(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, decoded, protocmp.Transform()); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if len(kept) != 2 || !errors.Is(elsewhere.err, ErrNoLeader) {
		t.Errorf("%d calls were kept; the one of another term: %v", len(kept), elsewhere.err)
	}
	_, hops, _ = readFrame(frameBytes)
	late, _ = newCall(reserve("late", "o"), now.Add(-time.Second))
	if _, kept := entry(7, 7001, now, []*call{hops[0], late}); len(kept) != 0 || !errors.Is(hops[0].err, ErrTooLate) || !errors.Is(late.err, ErrTooLate) {
		t.Errorf("%d late calls were kept: %v, %v", len(kept), hops[0].err, late.err)
	}
	if cap(data) > batchBytes(kept)+batchBytes(kept) {
		t.Errorf("an entry of %d bytes takes %d", len(data), cap(data))
	}
}

func TestReceiveRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		defer w.close()
		w.elect(0)
		w.elect(1)
		w.elect(0) // term 3
		for name, tc := range map[string]struct {
			n    *node
			term uint64
			want bool
		}{
			"this term": {w.nodes[0], 3, false}, "an older term of the same leader": {w.nodes[0], 1, true},
			"a term to come": {w.nodes[0], 4, true}, "not the leader": {w.nodes[1], 3, true},
		} {
			results := received(t, tc.n, frameOf(t, tc.term, reserve(name, name)))
			if results.Refused != tc.want {
				t.Errorf("%s: refused %v", name, results.Refused)
			}
			if in := w.count(reserves(name)) > 0; in == tc.want {
				t.Errorf("%s: in the log %v", name, in)
			}
			if results.Refused && (results.NowMs != 0 || len(results.Results) != 0) {
				t.Errorf("%s: a refusal says more: %v", name, results)
			}
		}
		if got := received(t, w.nodes[0], frameOf(t, 3)); got.NowMs != time.Now().UnixMilli() {
			t.Errorf("an empty frame is told the time %d", got.NowMs)
		}
	})
}

// A frame that would stop every node never gets into the log.
func TestReceiveMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		defer w.close()
		w.elect(0)
		good := frameOf(t, 1, reserve("k", "o"))
		newer := reserve("k", "o")
		newer.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01}) // field 127
		for name, frame := range map[string][]byte{
			"empty": {}, "no term": frameOf(t, 0, reserve("k", "o")), "cut": good[:len(good)-1],
			"no kind": frameOf(t, 1, &command.Command{}), "a newer kind": frameOf(t, 1, reserve("k", "p"), newer),
			"a newer field": append(bytes.Clone(good), 0xf8, 0x07, 0x01),
			"garbage":       []byte("GET / HTTP/1.1\r\n"),
		} {
			if _, err := w.nodes[0].Receive(context.Background(), frame); !errors.Is(err, ErrBadCommand) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(w.log()) != 0 {
			t.Errorf("the log holds %d commands", len(w.log()))
		}
	})
}

// What waits on a leader that loses the lead is told so, and goes nowhere.
func TestOneHopAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, func(c *Config) { c.MaxEntries, c.MaxFrames, c.MaxBatch = 1, 1, 1 })
		defer w.close()
		w.elect(0)
		w.hold(true)
		w.setLink(func(int, int) fault { return fault{delay: 2 * time.Second} })
		for _, own := range []string{"under way", "queued"} { // the second one takes the only way to the next leader
			go w.nodes[0].Do(within(t, time.Minute), reserve(own, own))
			synctest.Wait()
		}
		start := time.Now()
		results := make(chan *command.Results, 1)
		go func() { results <- received(t, w.nodes[0], frameOf(t, 1, reserve("k", "hop"))) }()
		synctest.Wait()
		w.nodes[0].routes.Set(Route{Known: true, Leader: "n1", Addr: "1", Term: 2})
		if r := <-results; r.Results[0].Fate != command.Fate_FATE_NOT_APPLIED || time.Since(start) != 0 {
			t.Errorf("after %s, a hop that was queued: %v", time.Since(start), r)
		}
		w.elect(1)
		w.hold(false)
		time.Sleep(time.Minute)
		if w.count(reserves("hop")) != 0 || w.count(reserves("queued")) != 1 {
			t.Errorf("the log holds the hop %d times, the own command %d times", w.count(reserves("hop")), w.count(reserves("queued")))
		}

		// The same when it is taken for forwarding before the change was noticed.
		hop := &call{group: newGroup(1), hop: 1}
		if _, kept := frame(2, 1, time.Now(), []*call{hop}); len(kept) != 0 || !errors.Is(hop.err, ErrNoLeader) {
			t.Errorf("a hop would have been forwarded: %v", hop.err)
		}
	})
}

func TestFatesOfAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, func(c *Config) { c.MaxEntries, c.Reserves = 1, Share{Commands: 1, Bytes: 1 << 20} })
		defer w.close()
		w.elect(0)
		late := reserve("late", "late")
		late.NotAfterMs = time.Now().UnixMilli() - 1
		inTime := reserve("a", "a")
		inTime.NotAfterMs = time.Now().UnixMilli() + 1
		got := received(t, w.nodes[0], frameOf(t, 1, late, inTime, reserve("b", "b"), complete("c", 1, 1)))
		var fates []command.Fate
		for _, r := range got.Results {
			fates = append(fates, r.Fate)
		}
		want := []command.Fate{command.Fate_FATE_TOO_LATE, command.Fate_FATE_DECIDED, command.Fate_FATE_OVERLOADED, command.Fate_FATE_DECIDED}
		if diff := cmp.Diff(want, fates); diff != "" {
			t.Errorf("fates (-want +got):\n%s", diff)
		}
		for _, f := range []command.Fate{0, 1, 2, 3, 4} {
			if back := fateOf(errorOf(f)); back != f {
				t.Errorf("fate %v comes back as %v", f, back)
			}
		}
		if err := errorOf(99); !errors.Is(err, ErrUnknown) {
			t.Errorf("a fate of a newer release: %v", err)
		}
	})
}

// A frame's commands may be queued when the leader's log stalls and the sender goes away.
func TestReceiveEndsWithItsSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, func(c *Config) { c.MaxEntries = 1 })
		defer w.close()
		w.elect(0)
		w.hold(true)
		go w.nodes[0].Do(within(t, time.Minute), reserve("first", "first"))
		synctest.Wait()
		ctx, hangUp := context.WithCancel(t.Context())
		go w.nodes[0].Receive(ctx, frameOf(t, 1, reserve("k", "gone")))
		synctest.Wait()
		hangUp()
		synctest.Wait()
		w.hold(false)
		synctest.Wait()
		if w.count(reserves("gone")) != 0 {
			t.Error("a command whose sender had gone was taken out of the queue into the log")
		}
	})
}

// Results that are too many for one answer are unknown, and come when asked for again.
func TestAnswerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, func(c *Config) { c.MaxResultBytes = 3000 })
		defer w.close()
		w.elect(0)
		var again []*command.Command
		for _, key := range []string{"a", "b", "c"} {
			r, err := w.nodes[0].Do(t.Context(), reserve(key, key))
			if err != nil {
				t.Fatal(err)
			}
			row, _ := fsm.DecodeResult(r.Result)
			if _, err := w.nodes[0].Do(t.Context(), complete(key, row.Row.Token, 2000)); err != nil {
				t.Fatal(err)
			}
			again = append(again, reserve(key, key+"2"))
		}
		got := received(t, w.nodes[0], frameOf(t, 1, again...))
		if got.Results[0].Fate != 0 || got.Results[1].Fate != command.Fate_FATE_UNKNOWN || got.Results[2].Fate != command.Fate_FATE_UNKNOWN {
			t.Errorf("fates: %v %v %v", got.Results[0].Fate, got.Results[1].Fate, got.Results[2].Fate)
		}
		for _, cmd := range again {
			r, err := w.nodes[1].retrier.Submit(within(t, time.Minute), cmd, ByCaller)
			if err != nil || outcome(r) != fsm.OutcomeReplayed {
				t.Errorf("replay through a follower: %v, %v", outcome(r), err)
			}
		}
	})
}

func TestFrameNotSentAndReplyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		defer w.close()
		w.elect(1)
		n := w.nodes[0]
		if _, err := n.Do(t.Context(), reserve("k", "o")); err != nil {
			t.Fatal(err)
		}
		w.setLink(func(int, int) fault { return fault{notSent: true} })
		if _, err := n.Do(t.Context(), reserve("k", "not sent")); fateName(err) != "not applied" {
			t.Errorf("a frame that was not sent: %v", err)
		}
		w.setLink(func(int, int) fault { return fault{loseReply: true} })
		if _, err := n.Do(within(t, time.Second), reserve("k", "lost")); fateName(err) != "unknown" {
			t.Errorf("a frame whose reply was lost: %v", err)
		}
		w.setLink(nil)
		if w.count(reserves("not sent")) != 0 || w.count(reserves("lost")) != 1 {
			t.Errorf("the log disagrees: %d, %d", w.count(reserves("not sent")), w.count(reserves("lost")))
		}
		w.elect(1) // nothing is known of the new leader's time
		w.setLink(func(int, int) fault { return fault{loseReply: true} })
		if _, err := n.Do(within(t, time.Second), reserve("k", "time lost")); fateName(err) != "not applied" && fateName(err) != "unknown" {
			t.Errorf("asking for the time in vain: %v", err)
		}
		if w.count(reserves("time lost")) != 0 {
			t.Error("a command was sent without a not_after")
		}
	})
}

// The peer says that it does not lead: then nothing of the frame was taken, and nothing is unknown.
func TestPeerDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		defer w.close()
		n := w.nodes[0]
		n.routes.Set(Route{Known: true, Leader: "n1", Addr: "1", Term: 5})
		for _, when := range []string{"asked for the time", "sent a frame"} {
			if _, err := n.Do(t.Context(), reserve("k", "o")); fateName(err) != "not applied" {
				t.Errorf("%s: %v", when, err)
			}
			n.estimate.sample(5, time.Now().UnixMilli(), time.Now())
		}
		if got := w.nodes[1].counters.FramesRefused.Load(); got != 2 {
			t.Errorf("%d frames were refused, want 2", got)
		}
	})
}

// When the leader dies with a frame in its hands, its followers do not wait for it.
func TestRouteChangeEndsFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		defer w.close()
		w.elect(1)
		w.hold(true)
		start := time.Now()
		errs := make(chan error, 1)
		go func() { _, err := w.nodes[0].Do(within(t, time.Minute), reserve("k", "o")); errs <- err }()
		time.Sleep(100 * time.Millisecond)
		w.nodes[0].routes.Set(Route{Known: true, Leader: "n2", Addr: "2", Term: 2}) // node 1 hangs
		if err := <-errs; fateName(err) != "unknown" || time.Since(start) != 100*time.Millisecond {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

// The heart of it: a frame that hangs in the network past its caller's end is not applied,
// in the same term and with the leader willing.
func TestDelayedFrameIsNotApplied(t *testing.T) {
	for _, tc := range []struct {
		name          string
		delay, budget time.Duration
		applied       bool
	}{
		{"in time", 900 * time.Millisecond, time.Second, true},
		{"just late", 1100 * time.Millisecond, time.Second, false},
		{"very late", time.Hour, time.Second, false},
		{"longer than any budget", 11 * time.Second, time.Hour, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, nil)
				defer w.close()
				w.elect(1)
				n := w.nodes[0]
				if _, err := n.Do(t.Context(), reserve("before", "before")); err != nil {
					t.Fatal(err) // so that the leader's time is known
				}
				time.Sleep(5 * time.Second)
				w.setLink(func(int, int) fault { return fault{delay: tc.delay} })
				_, err := n.Do(within(t, tc.budget), reserve("k", "delayed"))
				time.Sleep(2 * time.Hour)
				if in := w.count(reserves("delayed")) == 1; in != tc.applied || in != (err == nil) {
					t.Errorf("in the log: %v; its caller was told %v", in, err)
				}
			})
		})
	}
}

// An answer that is no answer leaves everything open.
func TestUnreadableAnswer(t *testing.T) {
	p := &Proposer{cfg: Config{Forwarder: answering(unreadable)}}
	c, _ := newCall(reserve("k", "o"), time.Now().Add(time.Minute))
	p.estimate.sample(1, 1, time.Now())
	p.cfg = p.cfg.withDefaults()
	results, batch, err := p.fly(t.Context(), Route{Known: true, Term: 1}, []*call{c})
	p.landed(batch, results, err)
	if fateName(c.err) != "unknown" {
		t.Errorf("after an unreadable answer: %v", c.err)
	}
}

type answering []byte

func (a answering) Forward(context.Context, string, []byte) ([]byte, error) { return a, nil }

func TestEstimate(t *testing.T) {
	t0 := time.Now()
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	var e estimate
	check := func(term uint64, ms int, want int64) {
		t.Helper()
		got, ok := e.now(term, at(ms))
		if ok != (want != 0) || got != want {
			t.Errorf("at %d ms in term %d: %d, %v, want %d", ms, term, got, ok, want)
		}
	}
	check(1, 0, 0)
	e.sample(1, 1000, at(0))
	check(1, 500, 1500)
	check(2, 500, 0)
	e.sample(1, 1400, at(500)) // travelled longer
	check(1, 500, 1500)
	e.sample(1, 1600, at(500)) // travelled less
	check(1, 600, 1700)
	e.sample(1, 2000, at(1600)) // the old one is old
	check(1, 1600, 2000)
	check(1, 21_600, 22_000)
	check(1, 21_601, 0)
	e.sample(2, 100, at(21_700)) // another leader's clock
	check(2, 21_700, 100)
	e.sample(1, 99_999, at(21_800)) // too late to matter
	check(2, 21_800, 200)
}

// A follower that takes the leader's time for too early is set right by the refusal.
func TestEstimateTooEarlyHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		defer w.close()
		w.elect(1)
		n := w.nodes[0]
		n.estimate.sample(1, time.Now().UnixMilli()-60_000, time.Now().Add(-500*time.Millisecond))
		if _, err := n.Do(within(t, time.Second), reserve("k", "o")); !errors.Is(err, ErrTooLate) {
			t.Fatalf("with a wrong estimate: %v", err)
		}
		if _, err := n.Do(within(t, time.Second), reserve("k", "o")); err != nil {
			t.Errorf("the next try: %v", err)
		}
	})
}
