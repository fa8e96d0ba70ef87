package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"onced"
	"onced/gateway/blob"
)

// noise is a body that no piece of is like another.
func noise(size int) string {
	body := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size)}).Read(body)
	return string(body)
}

const largeHead = "HTTP/1.1 201 Created\r\nContent-Type: application/pdf\r\nETag: \"v1\"\r\nLink: <a>; rel=x\r\nLink: <b>; rel=y\r\nSet-Cookie: a=1\r\n"

// whole is an answer with a body, by its length or in chunks.
func whole(framing, body string) string {
	if framing == "chunked" {
		return largeHead + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	return largeHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// blobBench is a gateway that keeps answers of more than 1 KiB in a directory.
func blobBench(t *testing.T, up *upstream, m Meter, max Size) (*bench, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	c := Config{Tenant: "header:X-Account", Blobs: &Blobs{Dir: dir, MaxBlob: max}, Routes: []Route{{Match: "POST /charge", MaxResponse: "1KiB", Retention: "2h"}}}
	return newBenchOf(t, up, c, Deps{Meter: m}), dir
}

// blobsIn lists what is under names in a directory.
func blobsIn(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "20*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestALargeAnswerIsReplayed(t *testing.T) {
	for _, framing := range []string{"length", "chunked"} {
		for _, size := range []int{1025, pieceSize, 300_000} {
			t.Run(fmt.Sprint(framing, size), func(t *testing.T) {
				body, m := noise(size), &tally{}
				up := newUpstream(t, answers(whole(framing, body)))
				b, dir := blobBench(t, up, m, "")
				first := b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
				if first.body != body || first.header.Get("Set-Cookie") == "" {
					t.Fatalf("the first answer has %d bytes\n%s", len(first.body), first.raw)
				}
				for range 2 {
					again := b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
					if again.body != body || again.header.Get("Content-Length") != fmt.Sprint(size) || again.cut != nil {
						t.Fatalf("the replay has %d bytes\n%s", len(again.body), again.raw)
					}
					drop := func(h http.Header) http.Header {
						h = h.Clone()
						for _, name := range []string{"Idempotency-Replayed", "Idempotency-Expires", "Date", "X-Request-Id", "Set-Cookie", "Content-Length"} {
							h.Del(name)
						}
						return h
					}
					if diff := cmp.Diff(drop(first.header), drop(again.header)); diff != "" || again.header.Get("Set-Cookie") != "" {
						t.Fatalf("%s\n%s", diff, again.raw)
					}
				}
				rec := b.record("k")
				if r := rec.Response; !r.BodyOmitted || len(r.Body) != 0 || !strings.HasPrefix(r.Reference, referencePrefix) || rec.ExpiresAt.Sub(rec.CompletedAt) != 2*time.Hour {
					t.Fatalf("the record is %+v %+v", rec, r)
				}
				if got := blobsIn(t, dir); len(got) != 1 || m.of(blobKept) != 1 || m.of(blobReplayed) != 2 {
					t.Fatalf("the blobs are %v; the meter says %v", got, m)
				}
				b.expectRuns(1)
			})
		}
	}
}

// The body is on the disk, under its name, before the record says so; and the client's last byte comes after both.
func TestTheBlobIsThereBeforeItsRecord(t *testing.T) {
	body := noise(100_000)
	up := newUpstream(t, answers(whole("length", body)))
	b, dir := blobBench(t, up, nil, "")
	asked, store := make(chan struct{}), make(chan struct{})
	b.keeper.hook(&b.keeper.complete, func() error { close(asked); <-store; return nil })
	got := make(chan reply, 1)
	c := b.dial(charge("k", "x"))
	go func() { got <- b.read(c) }()
	<-asked
	names := blobsIn(t, dir)
	if len(names) != 1 {
		t.Fatalf("the blobs are %v", names)
	}
	if kept, err := os.ReadFile(names[0]); err != nil || string(kept) != body {
		t.Fatalf("%d bytes are kept, %v", len(kept), err)
	}
	select {
	case r := <-got:
		t.Fatalf("the answer was whole before it was recorded: %d bytes", len(r.body))
	default:
	}
	close(store)
	if r := <-got; r.body != body {
		t.Fatalf("%d bytes arrived", len(r.body))
	}
}

func TestABlobThatIsNotWhatItWas(t *testing.T) {
	for name, c := range map[string]struct {
		event  string
		damage func(t *testing.T, mine, other string) error
	}{
		"missing":   {blobMissing, func(_ *testing.T, mine, _ string) error { return os.Remove(mine) }},
		"cut":       {blobDamaged, func(_ *testing.T, mine, _ string) error { return os.Truncate(mine, 99_999) }},
		"empty":     {blobDamaged, func(_ *testing.T, mine, _ string) error { return os.Truncate(mine, 0) }},
		"longer":    {blobDamaged, func(_ *testing.T, mine, _ string) error { return os.Truncate(mine, 100_001) }},
		"exchanged": {blobDamaged, func(_ *testing.T, mine, other string) error { return os.Rename(other, mine) }},
		"one bit": {blobDamaged, func(t *testing.T, mine, _ string) error {
			raw, err := os.ReadFile(mine)
			if err != nil {
				return err
			}
			raw[50_000] ^= 1
			return os.WriteFile(mine, raw, 0o600)
		}},
		"a folder": {blobUnreadable, func(_ *testing.T, mine, _ string) error {
			os.Remove(mine)
			return os.Mkdir(mine, 0o700)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &tally{}
			up := newUpstream(t, func(n int, _ *http.Request, c net.Conn) bool {
				io.WriteString(c, whole("length", noise(100_000)[n:]+strings.Repeat("e", n)))
				return false
			})
			b, dir := blobBench(t, up, m, "")
			b.send(charge("k", "x")).expect(t, 201, "")
			mine := blobsIn(t, dir)[0]
			b.send(charge("other", "y")).expect(t, 201, "")
			other := blobsIn(t, dir)[0]
			if other == mine {
				other = blobsIn(t, dir)[1]
			}
			if err := c.damage(t, mine, other); err != nil {
				t.Fatal(err)
			}
			r := b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept).replayed(t, "true")
			if !strings.Contains(r.body, `"original_status":201`) || m.of(c.event) != 1 {
				t.Fatalf("got\n%v\nthe meter says %v", r, m)
			}
			b.expectRuns(2)
		})
	}
}

// A record is answered with its own blob alone, whoever wrote its reference.
func TestAReferenceIsBoundToItsRecord(t *testing.T) {
	body := noise(2000)
	up := newUpstream(t, answers(whole("length", body)))
	b, _ := blobBench(t, up, nil, "")
	b.send(charge("k", "x")).expect(t, 201, "")
	reference := b.record("k").Response.Reference
	forge := func(id onced.ID, reference string) {
		t.Helper()
		granted, err := b.keeper.Reserve(t.Context(), onced.ReserveRequest{ID: id, Fingerprint: fingerprintOf(t, b)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.keeper.Complete(t.Context(), onced.CompleteRequest{ID: id, Token: granted.Record.Token, Response: &onced.Response{Status: 201, BodyOmitted: true, Reference: reference}})
		if err != nil {
			t.Fatal(err)
		}
	}
	cut := strings.LastIndex(reference, ":")
	for i, forged := range []string{reference, reference[:cut], reference[:cut+1], referencePrefix, "https://example.com/a", strings.Replace(reference, ":2000:", ":1999:", 1), referencePrefix + "../../../etc/passwd:1:a:b", ""} {
		for _, tenant := range []string{"acme", "evil"} {
			forge(onced.ID{Tenant: tenant, Key: onced.Key(fmt.Sprint("f", i))}, forged)
			request := strings.Replace(charge(fmt.Sprint("f", i), "x"), "acme", tenant, 1)
			b.send(request).expect(t, 409, onced.CodeResponseNotKept)
		}
	}
	forge(onced.ID{Tenant: "evil", Key: "k"}, reference) // the same key, of another tenant
	b.send(strings.Replace(charge("k", "x"), "acme", "evil", 1)).expect(t, 409, onced.CodeResponseNotKept)
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
	b.expectRuns(1)
}

// scriptedStore is a store whose steps fail or hang as a test says. A nil step goes well.
type scriptedStore struct {
	create, write, commit func(context.Context) error
	open                  func(blob.Name) (io.ReadSeekCloser, error)
	deleted               chan blob.Name
}

func step(f func(context.Context) error, ctx context.Context) error {
	if f == nil {
		return nil
	}
	return f(ctx)
}

func (s *scriptedStore) Create(ctx context.Context, _ blob.Name) (blob.Writer, error) {
	return scriptedWriter{s, ctx}, step(s.create, ctx)
}
func (s *scriptedStore) Open(_ context.Context, n blob.Name) (io.ReadSeekCloser, error) {
	return s.open(n)
}
func (s *scriptedStore) Delete(_ context.Context, n blob.Name) error   { s.deleted <- n; return nil }
func (s *scriptedStore) Sweep(context.Context, time.Time) (int, error) { return 0, nil }

type scriptedWriter struct {
	s   *scriptedStore
	ctx context.Context
}

func (w scriptedWriter) Write(p []byte) (int, error)      { return len(p), step(w.s.write, w.ctx) }
func (w scriptedWriter) Commit(ctx context.Context) error { return step(w.s.commit, ctx) }
func (w scriptedWriter) Abort()                           {}

// use puts a store in the place of the configured one.
func (b *bench) use(s blob.Store, timeout time.Duration) {
	t := *b.g.table.Load()
	t.blobs = newBlobStore(s, 1<<30, timeout)
	b.g.table.Store(&t)
}

// Whatever becomes of the store, the client has its answer and the operation is recorded.
func TestAStoreThatFailsFailsNothingElse(t *testing.T) {
	errs := func(context.Context) error { return errors.New("scripted") }
	over := make(chan struct{})
	defer close(over)
	hangs := func(context.Context) error { <-over; return nil }
	patient := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, s := range map[string]*scriptedStore{
		"create errs": {create: errs}, "write errs": {write: errs}, "commit errs": {commit: errs},
		"create hangs": {create: hangs}, "write hangs": {write: hangs}, "commit hangs": {commit: hangs},
		"create waits": {create: patient}, "write waits": {write: patient}, "commit waits": {commit: patient},
	} {
		t.Run(name, func(t *testing.T) {
			body, m := noise(1_000_000), &tally{}
			up := newUpstream(t, answers(whole("chunked", body)))
			b, _ := blobBench(t, up, m, "")
			b.use(s, 50*time.Millisecond)
			if r := b.send(charge("k", "x")).expect(t, 201, ""); r.body != body || r.cut != nil {
				t.Fatalf("%d bytes arrived, %v", len(r.body), r.cut)
			}
			r := b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept)
			if !strings.Contains(r.body, `"original_status":201`) || m.of(blobNotKept) != 1 || m.of(blobKept) != 0 {
				t.Fatalf("got\n%v\nthe meter says %v", r, m)
			}
			b.expectRuns(1)
		})
	}
}

func TestWhatIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		status int // of the repeat
		code   onced.Code
		noted  int64
	}{
		"larger than max_blob, said":   {whole("length", noise(5000)), 409, onced.CodeResponseNotKept, 1},
		"larger than max_blob, unsaid": {whole("chunked", noise(5000)), 409, onced.CodeResponseNotKept, 1},
		"a cut answer":                 {largeHead + "Content-Length: 3000\r\n\r\n" + noise(2000), 409, onced.CodeOutcomeUnknown, 0},
		"an event stream":              {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + noise(2000) + "\r\n0\r\n\r\n", 409, onced.CodeResponseNotKept, 0},
		"an unknown outcome":           {"HTTP/1.1 500 No\r\nContent-Length: 2000\r\n\r\n" + noise(2000), 409, onced.CodeOutcomeUnknown, 0},
		"what frees the key":           {"HTTP/1.1 429 No\r\nContent-Length: 2000\r\n\r\n" + noise(2000), 429, "", 0},
		"what fits into the record":    {whole("length", noise(1024)), 201, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := &tally{}
			up := newUpstream(t, answers(c.answer))
			b, dir := blobBench(t, up, m, "4KiB")
			io.Copy(io.Discard, b.dial(charge("k", "x", "Connection: close"))) // also what is cut at its head
			b.send(charge("k", "x")).expect(t, c.status, c.code)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := b.g.Drain(ctx); err != nil {
				t.Fatal(err)
			}
			if got := blobsIn(t, dir); len(got) != 0 || m.of(blobKept) != 0 || m.of(blobNotKept) != c.noted {
				t.Fatalf("the blobs are %v; the meter says %v", got, m)
			}
		})
	}
}

// Where another attempt's answer is the record's, the blob that nobody names goes.
func TestABlobOfAnOvertakenAttemptIsDeleted(t *testing.T) {
	up := newUpstream(t, answers(whole("length", noise(100_000))))
	b, _ := blobBench(t, up, nil, "")
	s := &scriptedStore{deleted: make(chan blob.Name, 1)}
	b.use(s, time.Second)
	b.keeper.hook(&b.keeper.complete, func() error { // another has taken over and completed
		b.keeper.hook(&b.keeper.complete, nil)
		rec := b.record("k")
		_, err := b.keeper.Keeper.Complete(t.Context(), onced.CompleteRequest{ID: rec.ID, Token: rec.Token, Response: &onced.Response{Status: 202}})
		if err != nil {
			t.Error(err)
		}
		return nil
	})
	if r := b.send(charge("k", "x")); r.cut == nil {
		t.Fatalf("an answer that is not the record's came whole:\n%s", r.raw)
	}
	if n := <-s.deleted; n == "" {
		t.Fatal("no name")
	}
	b.send(charge("k", "x")).expect(t, 202, "").replayed(t, "true")
}

// changing is a blob that is another one when it is read again.
type changing struct {
	*bytes.Reader
	then []byte
}

func (c *changing) Seek(int64, int) (int64, error) { c.Reader = bytes.NewReader(c.then); return 0, nil }
func (c *changing) Close() error                   { return nil }

func TestABlobThatChangesWhileItIsSentIsNeverWhole(t *testing.T) {
	body := noise(100_000)
	for name, then := range map[string]string{"changed": body[:99_999] + "!", "cut": body[:90_000], "cut sooner": body[:40_000]} {
		t.Run(name, func(t *testing.T) {
			m := &tally{}
			up := newUpstream(t, answers(whole("length", body)))
			b, _ := blobBench(t, up, m, "")
			b.send(charge("k", "x")).expect(t, 201, "")
			b.use(&scriptedStore{open: func(blob.Name) (io.ReadSeekCloser, error) {
				return &changing{bytes.NewReader([]byte(body)), []byte(then)}, nil
			}}, time.Second)
			if r := b.send(charge("k", "x")); r.cut == nil {
				t.Fatalf("it came whole: %d bytes", len(r.body))
			}
			if m.of(blobDamaged)+m.of(blobUnreadable) != 1 {
				t.Fatalf("the meter says %v", m)
			}
		})
	}
}

// A store that hangs does not hang its readers.
func TestABlobThatCannotBeReadInTime(t *testing.T) {
	up, m := newUpstream(t, answers(whole("length", noise(2000)))), &tally{}
	b, _ := blobBench(t, up, m, "")
	b.send(charge("k", "x")).expect(t, 201, "")
	over := make(chan struct{})
	defer close(over)
	b.use(&scriptedStore{open: func(blob.Name) (io.ReadSeekCloser, error) { <-over; return nil, blob.ErrNotFound }}, 50*time.Millisecond)
	b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept)
	if m.of(blobUnreadable) != 1 {
		t.Fatalf("the meter says %v", m)
	}
}

// Nor does it gather goroutines without end.
func TestAStoreThatHangsIsLeftAlone(t *testing.T) {
	m, over := &tally{}, make(chan struct{})
	up := newUpstream(t, answers(whole("length", noise(2000))))
	b, _ := blobBench(t, up, m, "")
	b.use(&scriptedStore{create: func(context.Context) error { <-over; return nil }}, time.Millisecond)
	busy := &b.g.table.Load().blobs.busy
	busy.limit.Store(3)
	for i := range 10 {
		b.send(charge(fmt.Sprint("k", i), "x")).expect(t, 201, "")
	}
	if busy.used.Load() != 3 || m.of(blobNotKept) != 10 {
		t.Fatalf("%d wait; the meter says %v", busy.used.Load(), m)
	}
	close(over)
	b.expectRuns(10)
}

func TestDueBlobsAreSwept(t *testing.T) {
	m, dir := &tally{}, t.TempDir()
	d, err := blob.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, due := range []time.Duration{-2 * time.Hour, time.Hour} {
		w, err := d.Create(t.Context(), blob.NewName(time.Now().Add(due)))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c := Config{Tenant: "single", Blobs: &Blobs{Dir: dir}}
	up := newUpstream(t, answers(created))
	newBenchOf(t, up, c, Deps{Meter: m})
	m.wait(blobSwept, 1)
	if got := blobsIn(t, dir); len(got) != 1 {
		t.Fatalf("the blobs are %v", got)
	}
}

// A blob stays for as long as its record can be replayed, and not much longer.
func TestABlobOutlastsItsRecord(t *testing.T) {
	up := newUpstream(t, answers(whole("length", noise(2000))))
	b, dir := blobBench(t, up, nil, "")
	b.send(charge("k", "x")).expect(t, 201, "")
	rec := b.record("k")
	hour := filepath.Base(filepath.Dir(blobsIn(t, dir)[0]))
	due, err := blob.ParseHour(hour)
	if err != nil {
		t.Fatal(err)
	}
	if after := due.Sub(rec.ExpiresAt.Time()); after < blobSlack-time.Minute || after > blobSlack+time.Hour {
		t.Fatalf("it is due %s after its record expires", after)
	}
}

// Without the store that has them, and with another, answers are as if they had not been kept.
func TestAReloadWithoutTheStore(t *testing.T) {
	m := &tally{}
	up := newUpstream(t, answers(whole("length", noise(2000))))
	b, dir := blobBench(t, up, m, "")
	b.send(charge("k", "x")).expect(t, 201, "")
	c := Config{Tenant: "header:X-Account", Upstream: "http://" + up.ln.Addr().String(), Routes: []Route{{Match: "POST /charge", MaxResponse: "1KiB"}}}
	for _, blobs := range []*Blobs{nil, {Dir: t.TempDir()}} {
		c.Blobs = blobs
		if err := b.g.Reload(c); err != nil {
			t.Fatal(err)
		}
		b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept)
	}
	c.Blobs = &Blobs{Dir: filepath.Join(dir, "tmp", "\x00")}
	if err := b.g.Reload(c); err == nil || !strings.Contains(err.Error(), "gateway: blobs: dir: ") {
		t.Fatalf("got %v", err)
	}
	c.Blobs = &Blobs{Dir: dir}
	if err := b.g.Reload(c); err != nil {
		t.Fatal(err)
	}
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true")
	if m.of(blobMissing) != 2 {
		t.Fatalf("the meter says %v", m)
	}
	b.expectRuns(1)
}

// 64 MiB pass, are kept and are replayed without being in memory.
func TestLargeAnswersNeedLittleMemory(t *testing.T) {
	piece := noise(1 << 20)
	const pieces = 64
	up := newUpstream(t, func(_ int, _ *http.Request, c net.Conn) bool {
		fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n", largeHead, pieces<<20)
		for range pieces {
			io.WriteString(c, piece)
		}
		return false
	})
	b, _ := blobBench(t, up, nil, "")
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before, during := heap(), int64(0)
	b.keeper.hook(&b.keeper.complete, func() error { during = heap(); return nil }) // all but the last piece has passed
	for range 2 {
		c := b.dial(charge("k", "x"))
		c.SetDeadline(time.Now().Add(time.Minute)) // the disk may be anybody's
		n, err := io.Copy(io.Discard, io.LimitReader(c, pieces<<20))
		c.Close()
		if n != pieces<<20 || err != nil {
			t.Fatalf("%d bytes arrived, %v", n, err)
		}
		during = max(during, heap())
	}
	if grown := during - before; grown > 8<<20 {
		t.Fatalf("the heap has grown by %d KiB", grown>>10)
	}
	b.expectRuns(1)
}

// A large answer that has to be changed for its client is, as a small one would be: by its contract, or decoded.
func TestALargeAnswerIsChangedForItsClient(t *testing.T) {
	padding := strings.Repeat("ab", 4<<10)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(`{"pad":"` + noiseText(8<<10) + `"}`))
	z.Close()
	up := newUpstream(t, func(_ int, r *http.Request, c net.Conn) bool {
		head, body := "", `{"pad":"`+padding+`"}`
		if r.URL.Path == "/packed" {
			head, body = "Content-Encoding: gzip\r\n", packed.String()
		}
		fmt.Fprintf(c, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nETag: \"v1\"\r\n%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
		return false
	})
	dir, m := filepath.Join(t.TempDir(), "blobs"), &tally{}
	b := newBenchOf(t, up, Config{Tenant: "header:X-Account", Blobs: &Blobs{Dir: dir}, Routes: []Route{
		{Match: "POST /charge", MaxResponse: "1KiB", Contract: "realtime"}, {Match: "POST /packed", MaxResponse: "1KiB"},
	}}, Deps{Meter: m})
	b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "false")
	if r := b.send(charge("k", "x")).expect(t, 201, "").replayed(t, "true"); r.body != `{"replayed":true,"pad":"`+padding+`"}` || r.header.Get("ETag") != "" {
		t.Fatalf("the replay is %d bytes: %.60s\n%s", len(r.body), r.body, r.raw)
	}
	if packed.Len() <= 1<<10 {
		t.Fatal("the packed body is no blob")
	}
	b.send(post("/packed", "p", "x", "Accept-Encoding: gzip")).expect(t, 201, "")
	if r := b.send(post("/packed", "p", "x", "Accept-Encoding: gzip")).replayed(t, "true"); r.body != packed.String() || r.header.Get("ETag") != `"v1"` {
		t.Fatalf("who takes gzip gets %d bytes\n%s", len(r.body), r.raw)
	}
	if r := b.send(post("/packed", "p", "x", "Accept-Encoding: identity")).replayed(t, "true"); r.body != `{"pad":"`+noiseText(8<<10)+`"}` || r.header.Get("Content-Encoding") != "" {
		t.Fatalf("who takes nothing encoded gets %d bytes: %.60q\n%s", len(r.body), r.body, r.raw)
	}
	for _, file := range blobsIn(t, dir) { // one that is damaged is no answer here either
		if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.send(charge("k", "x")).expect(t, 409, onced.CodeResponseNotKept)
	if n := b.g.bodies.used.Load(); n != 0 {
		t.Fatalf("%d bytes are still held", n)
	}
	b.expectRuns(2)
}

// noiseText is noise in printable text.
func noiseText(size int) string { return fmt.Sprintf("%x", noise(size/2)) }
