package gateway

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"onced"
	"onced/gateway/fingerprint"
)

// watcher is a gateway of which only the detector is looked at.
type watcher struct {
	g     *Gateway
	meter *tally
	log   *lines
}

func newWatcher() *watcher {
	w := &watcher{meter: &tally{}, log: &lines{}}
	w.g = &Gateway{detector: newDetector(), meter: w.meter}
	return w
}

// reserved tells the detector of a request that got its reservation.
func (w *watcher) reserved(tenant, key, payload string, change func(*operation)) {
	o := &operation{
		g: w.g, t: &table{detectWindow: time.Minute}, route: &route{pattern: pattern{text: "POST /charge"}}, body: []byte("{}"),
		id: onced.ID{Tenant: tenant, Key: onced.Key(key)}, fingerprint: payload,
	}
	o.log = slog.New(slog.NewTextHandler(w.log, nil)).With("tenant", tenant, "key_digest", o.id.Digest())
	if change != nil {
		change(o)
	}
	o.detect()
}

func (w *watcher) expect(t *testing.T, tenant string, found, told int64) {
	t.Helper()
	if got := w.meter.of("suspected " + tenant); got != found {
		t.Fatalf("%d were suspected of %s, expected %d", got, tenant, found)
	}
	if got := int64(strings.Count(w.log.String(), "the same payload")); got != told {
		t.Fatalf("%d lines, expected %d:\n%s", got, told, w.log)
	}
}

func TestTheSamePayloadUnderAnotherKeyIsSuspected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher()
		w.reserved("acme", "k1", "p", nil)
		time.Sleep(59 * time.Second)
		w.reserved("acme", "k2", "p", nil)
		w.expect(t, "acme", 1, 1)
		line := w.log.String()
		for _, want := range []string{"level=WARN", "tenant=acme", "key_digest=" + onced.ID{Tenant: "acme", Key: "k2"}.Digest(), "earlier_key_digest=" + onced.ID{Tenant: "acme", Key: "k1"}.Digest(), `route="POST /charge"`} {
			if !strings.Contains(line, want) {
				t.Errorf("no %s in %s", want, line)
			}
		}
		time.Sleep(59 * time.Second) // counted from the last of them
		w.reserved("acme", "k3", "p", nil)
		w.expect(t, "acme", 2, 1)
		time.Sleep(time.Minute)
		w.reserved("acme", "k4", "p", nil) // too long ago
		w.expect(t, "acme", 2, 1)
		time.Sleep(time.Second)
		w.reserved("acme", "k5", "p", nil)
		w.expect(t, "acme", 3, 2)
		if !strings.Contains(w.log.String(), "more_since_the_last_line=1") {
			t.Errorf("the silent one is not told:\n%s", w.log)
		}
	})
}

func TestWhatIsNoRegeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher()
		w.reserved("acme", "k1", "p", nil)
		w.reserved("acme", "k1", "p", nil) // the same key: it was freed in between
		w.reserved("acme", "k2", "q", nil) // another payload
		w.reserved("other", "k3", "p", nil)
		for i := range 3 {
			w.reserved("acme", fmt.Sprint("empty", i), "e", func(o *operation) { o.body = nil })
			w.reserved("acme", fmt.Sprint("none", i), "n", func(o *operation) { o.route.bodyless = true })
			w.reserved("acme", fmt.Sprint("off", i), "o", func(o *operation) { o.t.detectWindow = 0 })
		}
		w.expect(t, "acme", 0, 0)
		w.expect(t, "other", 0, 0)
	})
}

// A tenant that sends without end neither makes the table grow nor pushes out what is known of others.
func TestAFloodPushesOutItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher()
		const quiet = 1000
		for i := range quiet {
			w.reserved("quiet", fmt.Sprint("a", i), fmt.Sprint("p", i), nil)
		}
		before := len(w.g.detector.sets)
		time.Sleep(time.Second)
		for i := range 5 * detectorSets * setPlaces {
			w.g.detector.see(onced.ID{Tenant: "flood", Key: "k"}, fmt.Sprint(i), time.Minute, time.Now())
		}
		if len(w.g.detector.sets) != before {
			t.Fatal("the table has grown")
		}
		for i := range quiet {
			w.reserved("quiet", fmt.Sprint("b", i), fmt.Sprint("p", i), nil)
		}
		if got := w.meter.of("suspected quiet"); got < quiet*99/100 {
			t.Fatalf("of %d retries under new keys only %d were found beside a flood", quiet, got)
		}
	})
}

func TestSuspectsAreServed(t *testing.T) {
	up := newUpstream(t, answers(created))
	m := &tally{}
	b := newBench(t, up, Deps{Meter: m}, Route{Match: "POST /charge"}, Route{Match: "POST /any", Fingerprint: Fingerprint{Body: fingerprint.None}})
	for i := range 3 {
		b.send(charge(fmt.Sprint("k", i), "x")).expect(t, 201, "").replayed(t, "false")
		b.send(charge(fmt.Sprint("k", i), "x")).expect(t, 201, "").replayed(t, "true")
		b.send(post("/any", fmt.Sprint("n", i), "x")).expect(t, 201, "")
	}
	if got := m.of("suspected acme"); got != 2 {
		t.Fatalf("%d were suspected, expected 2: %v", got, m)
	}
	b.expectRuns(6)
}
