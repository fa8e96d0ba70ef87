package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framed is a scripted HTTP/2 server that writes its frames itself. It notes every request whole, and
// every connection.
type framed struct {
	ln net.Listener

	mu       sync.Mutex
	requests []string // fields in their order, an empty line, and the body
	conns    int
	script   func(n int, s *stream) bool // answers request n (from 1); the connection is closed when it returns false
}

// stream is one request at a framed server, or one answer at a framed client.
type stream struct {
	*http2.Framer
	id     uint32
	fields []string
	body   bytes.Buffer
}

func newFramed(t *testing.T, secure *tls.Config, script func(n int, s *stream) bool) *framed {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &framed{ln: ln, script: script}
	var all sync.WaitGroup
	var open sync.Map
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Store(c, true)
			all.Go(func() {
				defer c.Close()
				f.mu.Lock()
				f.conns++
				f.mu.Unlock()
				if secure != nil {
					f.serve(tls.Server(c, secure))
				} else {
					f.serve(c)
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		all.Wait()
	})
	return f
}

func (f *framed) serve(c net.Conn) {
	defer c.Close()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	frames := newFramer(c)
	frames.WriteSettings()
	streams := map[uint32]*stream{}
	for {
		frame, err := frames.ReadFrame()
		if err != nil {
			return
		}
		s, ended := take(frames, streams, frame)
		if !ended {
			continue
		}
		f.mu.Lock()
		f.requests = append(f.requests, strings.Join(s.fields, "\n")+"\n\n"+s.body.String())
		n := len(f.requests)
		f.mu.Unlock()
		if !f.script(n, s) {
			return
		}
	}
}

func newFramer(c net.Conn) *http2.Framer {
	frames := http2.NewFramer(c, c)
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return frames
}

// take notes a frame, and returns the stream that it ends.
func take(frames *http2.Framer, streams map[uint32]*stream, frame http2.Frame) (*stream, bool) {
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			frames.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !frame.IsAck() {
			frames.WritePing(true, frame.Data)
		}
	case *http2.MetaHeadersFrame:
		s := streams[frame.StreamID]
		if s == nil {
			s = &stream{Framer: frames, id: frame.StreamID}
			streams[frame.StreamID] = s
		}
		for _, field := range frame.Fields {
			s.fields = append(s.fields, field.Name+": "+field.Value)
		}
		return s, frame.StreamEnded()
	case *http2.DataFrame:
		s := streams[frame.StreamID]
		s.body.Write(frame.Data())
		return s, frame.StreamEnded()
	}
	return nil, false
}

// head writes HEADERS of "name: value" lines.
func (s *stream) head(last bool, lines ...string) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if strings.HasPrefix(line, ":") {
			name, value, _ = strings.Cut(line[1:], ": ")
			name = ":" + name
		}
		encoder.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: last})
}

// runs is how many requests came, over how many connections.
func (f *framed) runs() (requests, conns int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests), f.conns
}

func (f *framed) request(n int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[n-1]
}

// pair is a certificate for 127.0.0.1 and pay.example that is its own authority, in files.
type pair struct {
	cert, key string
	config    *tls.Config // of a server
	roots     *x509.CertPool
}

// newPair makes one with this serial number.
func newPair(t *testing.T, serial int64) pair {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"pay.example"}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := pair{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), roots: x509.NewCertPool()}
	for file, block := range map[string]*pem.Block{p.cert: {Type: "CERTIFICATE", Bytes: cert}, p.key: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	p.config = &tls.Config{Certificates: []tls.Certificate{loaded}, NextProtos: []string{"h2"}}
	p.roots.AddCert(loaded.Leaf)
	return p
}

// ask writes a request to a gateway as HTTP/2 frames on a connection of its own, and returns the stream and its connection.
func (b *bench) ask(secure *tls.Config, lines []string, body string) (*stream, net.Conn) {
	b.t.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if secure != nil {
		c = tls.Client(c, secure)
	}
	io.WriteString(c, http2.ClientPreface)
	s := &stream{Framer: newFramer(c), id: 1}
	s.WriteSettings()
	s.head(body == "", lines...)
	if body != "" {
		s.WriteData(1, true, []byte(body))
	}
	return s, c
}

// chargeFields is a POST /charge of tenant acme in HTTP/2.
func chargeFields(key string, more ...string) []string {
	return append([]string{":method: POST", ":scheme: http", ":authority: pay.example", ":path: /charge", "x-account: acme", "idempotency-key: " + key}, more...)
}

// answer reads frames until the stream is over: its fields and body, or what ended it.
func (s *stream) answer() (string, error) {
	streams := map[uint32]*stream{}
	for {
		frame, err := s.ReadFrame()
		if err != nil {
			return "", err
		}
		if reset, ok := frame.(*http2.RSTStreamFrame); ok && reset.ErrCode != http2.ErrCodeNo {
			return "", fmt.Errorf("reset: %s", reset.ErrCode)
		}
		if got, ended := take(s.Framer, streams, frame); ended {
			return strings.Join(got.fields, "\n") + "\n\n" + got.body.String(), nil
		}
	}
}
