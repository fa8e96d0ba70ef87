package peer

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPrefaceRoundTrip(t *testing.T) {
	for _, want := range []preface{
		{kind: kindRPC},
		{kind: kindRaft, cluster: strings.Repeat("c", 32), from: "n1", to: "n2"},
	} {
		b, err := want.encode()
		if err != nil {
			t.Fatal(err)
		}
		r := bytes.NewReader(append(b, "next"...))
		got, err := readPreface(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(preface{})); diff != "" {
			t.Error(diff)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "next" {
			t.Errorf("reading took bytes that are not its own; left %q", rest)
		}
	}
}

// The bytes on the wire are those of every version of the same number.
func TestPrefaceGolden(t *testing.T) {
	b, err := preface{kind: kindRaft, cluster: "c0", from: "n1", to: "n2"}.encode()
	if err != nil {
		t.Fatal(err)
	}
	if want := "\xF1\x01\x00\x09\x02c0\x02n1\x02n2"; string(b) != want {
		t.Errorf("preface %q, want %q", b, want)
	}
}

func FuzzReadPreface(f *testing.F) {
	f.Add([]byte("\xF1\x01\x00\x09\x02c0\x02n1\x02n2"))
	f.Add([]byte("\xF2\x01\xFF\xFF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readPreface(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := p.encode()
		if err != nil || !bytes.HasPrefix(b, again) {
			t.Errorf("%q was read as %+v, which is written as %q", b, p, again)
		}
	})
}

func TestGarbageIsClosed(t *testing.T) {
	for _, tc := range []struct{ name, send, logged string }{
		{"http", "GET / HTTP/1.1\r\n\r\n", "first byte 0x47"},
		{"tls", "\x16\x03\x01\x00\x05hello", "it speaks TLS"},
		{"other version", "\xF1\x63\x00\x00", "speaks version 99"},
		{"too long", "\xF1\x01\xFF\xFF", "a preface of 65535 bytes"},
		{"cut short", "\xF1\x01\x00\x03\x05c0", "cut short"},
		{"too many bytes", "\xF2\x01\x00\x04\x00\x00\x00\x00", "1 bytes too many"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, log := open(t, "n1", nil)
			c, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte(tc.send)); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			if n, err := c.Read(make([]byte, 64)); n != 0 || err == nil || isTimeout(err) {
				t.Errorf("read %d bytes, %v; want the connection closed", n, err)
			}
			log.has(t, tc.logged)
		})
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func TestSlowPrefaceIsClosed(t *testing.T) {
	for name, security := range map[string]*TLS{"cleartext": nil, "TLS": secretTLS(t, "the secret of the cluster", "n1")} {
		t.Run(name, func(t *testing.T) {
			log := new(lines)
			p, err := Listen(Config{NodeID: "n1", Addr: "127.0.0.1:0", TLS: security, handshake: 50 * time.Millisecond,
				Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			c, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = c.Write([]byte{0xF1}) // and no more
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := io.ReadAll(c); isTimeout(err) {
				t.Error("still open")
			}
			if security == nil {
				log.has(t, "did not introduce itself within 50ms")
			}
		})
	}
}

// One that is slow keeps nobody else out, and too many are closed unheard.
func TestManySlowPrefaces(t *testing.T) {
	p, log := open(t, "n1", nil)
	p.HandleAny("/echo", echo)
	var all []net.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	for range maxHandshakes - 1 {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	a, _ := open(t, "n2", nil)
	if _, err := a.Call(within(t), p.Addr(), "/echo", []byte("x")); err != nil {
		t.Fatalf("kept out by slow ones: %v", err)
	}
	for range 2 {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	log.has(t, "too many handshakes")
}

func TestQuiet(t *testing.T) {
	var q quiet
	if !q.allow("a") || q.allow("a") || !q.allow("b") {
		t.Error("want one line per subject and minute")
	}
	for i := range 2 * quietSize {
		q.allow(strings.Repeat("x", i))
	}
	if len(q.last) > quietSize {
		t.Errorf("%d subjects remembered, at most %d wanted", len(q.last), quietSize)
	}
}
