package peer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// has waits for text to be logged: the other side's goroutine writes it.
func (l *lines) has(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if strings.Contains(l.String(), text) {
			return
		}
	}
	t.Fatalf("log lacks %q:\n%s", text, l)
}

// open listens on loopback and closes at the test's end.
func open(t *testing.T, id string, security *TLS) (*Port, *lines) {
	t.Helper()
	log := new(lines)
	p, err := Listen(Config{NodeID: id, Addr: "127.0.0.1:0", TLS: security, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, log
}

func secretTLS(t *testing.T, secret, id string) *TLS {
	t.Helper()
	s, err := SecretTLS([]byte(secret), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// echo answers with the body it got.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	b, err := ReadBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	Reply(w, b)
})

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestListenRefusals(t *testing.T) {
	busy, _ := open(t, "n1", nil)
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"in use", Config{NodeID: "n1", Addr: busy.Addr()}, "is in use by another process"},
		{"no id", Config{Addr: "127.0.0.1:0"}, "node id is empty"},
		{"bad id", Config{NodeID: "n=1", Addr: "127.0.0.1:0"}, `node id "n=1"`},
		{"no port", Config{NodeID: "n1", Addr: "127.0.0.1"}, "expected host:port"},
		{"bad port", Config{NodeID: "n1", Addr: "127.0.0.1:99999"}, `port "99999"`},
		{"cleartext everywhere", Config{NodeID: "n1", Addr: ":0"}, "is not loopback"},
		{"cleartext on a name", Config{NodeID: "n1", Addr: "example:0"}, "is not loopback"},
		{"nobody can dial", Config{NodeID: "n1", Addr: "0.0.0.0:0", TLS: secretTLS(t, "0123456789abcdef", "n1")}, "cannot dial that"},
		{"bad advertise", Config{NodeID: "n1", Addr: "127.0.0.1:0", Advertise: "here"}, "advertised cluster address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := Listen(tc.cfg)
			if err == nil {
				p.Close()
				t.Fatal("listened")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q lacks %q", err, tc.want)
			}
		})
	}
}

func TestAdvertisedNameIsKept(t *testing.T) {
	p, err := Listen(Config{NodeID: "n1", Addr: "127.0.0.1:0", Advertise: "localhost:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !strings.HasPrefix(p.Addr(), "localhost:") || strings.HasSuffix(p.Addr(), ":0") {
		t.Errorf("Addr() = %q, want localhost and the port listened on", p.Addr())
	}
	tr := p.RaftTransport(time.Second)
	if got := string(tr.LocalAddr()); got != p.Addr() {
		t.Errorf("raft's address = %q, want %q", got, p.Addr())
	}
}

func TestCall(t *testing.T) {
	for name, tlsOf := range map[string]func(id string) *TLS{
		"cleartext": func(string) *TLS { return nil },
		"secret":    func(id string) *TLS { return secretTLS(t, "a secret of the cluster\n", id) },
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := open(t, "n1", tlsOf("n1"))
			b, _ := open(t, "n2", tlsOf("n2"))
			a.SetClusterID("c")
			b.SetClusterID("c")
			b.Handle("/echo", echo)
			for _, size := range []int{0, 1, 1 << 20, MaxBody} {
				body := bytes.Repeat([]byte("x"), size)
				got, err := a.Call(within(t), b.Addr(), "/echo", body)
				if err != nil || !bytes.Equal(got, body) {
					t.Fatalf("size %d: %d bytes, %v", size, len(got), err)
				}
			}
			_, err := a.Call(within(t), b.Addr(), "/echo", make([]byte, MaxBody+1))
			if !errors.Is(err, ErrNotSent) {
				t.Errorf("too large: %v, want ErrNotSent", err)
			}
		})
	}
}

func TestCallRefusals(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, _ := open(t, "n2", nil)
	b.Handle("/echo", echo)
	b.HandleAny("/hello", echo)
	for _, tc := range []struct {
		name, callers, own, path string
		code                     int
		want                     string
	}{
		{"before there is a cluster", "c", "", "/echo", 503, "belongs to no cluster yet"},
		{"caller without a cluster", "", "c", "/echo", 421, "the caller to none yet"},
		{"another cluster", "d", "c", "/echo", 421, "belongs to cluster c, the caller to cluster d"},
		{"no such call", "c", "c", "/nothing", 404, "knows no call"},
		{"same cluster", "c", "c", "/echo", 0, ""},
		{"any, none", "", "", "/hello", 0, ""},
		{"any, another cluster", "d", "c", "/hello", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a.SetClusterID(tc.callers)
			b.SetClusterID(tc.own)
			_, err := a.Call(within(t), b.Addr(), tc.path, []byte("x"))
			var status *StatusError
			switch {
			case tc.code == 0 && err != nil:
				t.Fatal(err)
			case tc.code == 0:
			case !errors.As(err, &status) || status.Code != tc.code || !strings.Contains(err.Error(), tc.want):
				t.Fatalf("error %v, want status %d with %q", err, tc.code, tc.want)
			case errors.Is(err, ErrNotSent):
				t.Fatalf("a refusal is called not sent: %v", err)
			}
		})
	}
}

func TestCallOfAnotherNodesAddress(t *testing.T) {
	a, _ := open(t, "n1", nil)
	b, log := open(t, "n3", nil)
	b.HandleAny("/hello", echo)
	a.SetMembers(map[string]string{b.Addr(): "n2"})
	_, err := a.Call(within(t), b.Addr(), "/hello", nil)
	var refused *RefusedError
	if !errors.Is(err, ErrNotSent) || !errors.As(err, &refused) || !strings.Contains(err.Error(), "leads to node n3, not to node n2") {
		t.Fatalf("error %v", err)
	}
	log.has(t, "leads to node n3, not to node n2")
	a.SetMembers(map[string]string{b.Addr(): "n3"})
	if _, err := a.Call(within(t), b.Addr(), "/hello", nil); err != nil {
		t.Fatal(err)
	}
}

func TestWrongSecretIsSaidInASentence(t *testing.T) {
	a, logA := open(t, "n1", secretTLS(t, "the secret of the cluster", "n1"))
	b, logB := open(t, "n2", secretTLS(t, "another secret altogether", "n2"))
	b.HandleAny("/hello", echo)
	_, err := a.Call(within(t), b.Addr(), "/hello", nil)
	if !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "its cluster secret differs from this node's") {
		t.Errorf("caller: %v", err)
	}
	logB.has(t, "its cluster secret differs from this node's")
	if strings.Contains(logA.String(), "secret differs") {
		t.Errorf("the caller's port logged what it returned: %s", logA)
	}
}

func TestOneSideWithoutTLS(t *testing.T) {
	plain, logPlain := open(t, "n1", nil)
	secured, logSecured := open(t, "n2", secretTLS(t, "the secret of the cluster", "n2"))
	if _, err := plain.Call(within(t), secured.Addr(), "/hello", nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("cleartext to TLS: %v", err)
	}
	logSecured.has(t, "speaks no TLS")
	if _, err := secured.Call(within(t), plain.Addr(), "/hello", nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("TLS to cleartext: %v", err)
	}
	logPlain.has(t, "neither a cluster secret nor certificates")
}
