package gateway

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
)

// earKey is the context key of an *ear.
type earKey struct{}

// ear gets the connection that is made under a context.
type ear struct{ heard *hearing }

// hear wraps a connection for HTTP/1.1 such that it hears.
func hear(ctx context.Context, c net.Conn) *hearing {
	h := &hearing{Conn: c}
	if e, ok := ctx.Value(earKey{}).(*ear); ok {
		e.heard = h
	}
	return h
}

// hearing is a connection that keeps of the answer's head, as it goes by, what net/http does
// not tell: the names of the header lines as they were sent, in their order, and the
// Connection lines. It changes nothing. Before listen, and after a head, it does not look.
type hearing struct {
	net.Conn

	mu        sync.Mutex
	listening bool
	head      []byte   // of the answer, as far as it has come
	names     []string // of its lines
	options   []string // values of its Connection lines
}

// listen begins with the next byte that comes. The connection has no answer under way.
func (h *hearing) listen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listening, h.head, h.names, h.options = true, nil, nil, nil
}

// restore gives an answer its Connection header back, and returns the names of its lines. net/http takes the
// whole of that header away where one of its tokens is "close", and the headers that it names beside
// that one would be stored and passed on as if they were meant for the client. A nil hearing has heard nothing.
func (h *hearing) restore(resp *http.Response) []string {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.options) > 0 {
		resp.Header["Connection"] = h.options
	}
	return h.names
}

// Read is part of net.Conn.
func (h *hearing) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listening && n > 0 {
		h.hear(p[:n])
	}
	return n, err
}

// hear takes the next bytes of a head. A 1xx answer is followed by another head. What is longer
// than net/http takes is not a head to it either.
func (h *hearing) hear(b []byte) {
	h.head = append(h.head, b...)
	for h.listening {
		end := headEnd(h.head)
		if end < 0 {
			h.listening = len(h.head) <= maxHead
			return
		}
		interim := bytes.HasPrefix(h.head[min(len(h.head), len("HTTP/1.1 ")):], []byte("1"))
		h.names, h.options = headLines(h.head[:end])
		if h.listening = interim; interim {
			h.head = h.head[end:]
			continue
		}
		h.head = nil
	}
}

// headEnd returns where the blank line that ends a head is over, -1 when there is none yet.
func headEnd(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return -1
		}
		line := bytes.TrimRight(b[at:at+i], "\r")
		at += i + 1
		if len(line) == 0 {
			return at
		}
	}
}

// headLines returns the names of a head's lines, and the values of those that are Connection's.
func headLines(head []byte) (names, options []string) {
	for line := range strings.Lines(string(head)) {
		name, value, found := strings.Cut(line, ":")
		if !found || !isToken(name) { // the status line, or a line that is folded
			continue
		}
		names = append(names, name)
		if textproto.CanonicalMIMEHeaderKey(name) == "Connection" {
			options = append(options, textproto.TrimString(value))
		}
	}
	return names, options
}
