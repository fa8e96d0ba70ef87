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

// arranged is the connection of an HTTP/1 client, on which a head that net/http writes gets the order and
// spelling of lines that the answer had. net/http itself sorts them by name.
//
// It changes no line's value, adds none and drops none; what does not look like a head goes by as it is.
type arranged struct {
	net.Conn

	mu   sync.Mutex
	want []string // of the head that comes next; nil = as it comes
	head []byte   // of that head, as far as it was written
}

// connKey is the context key of a request's net.Conn.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// wireOf returns the connection of an HTTP/1 request, nil where it cannot arrange.
func wireOf(r *http.Request) *arranged {
	if r.ProtoMajor != 1 {
		return nil // on one connection, many answers, and no lines
	}
	c, _ := r.Context().Value(connKey{}).(*arranged)
	return c
}

// arrange sets the order of the next head. Nothing is being written on the connection.
func (a *arranged) arrange(names []string) {
	if a == nil || len(names) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.want, a.head = names, nil
}

// Write is part of net.Conn. A head that is not whole yet is held back: net/http writes the rest of
// it before anything else.
func (a *arranged) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.want == nil {
		return a.Conn.Write(p)
	}
	a.head = append(a.head, p...)
	end := headEnd(a.head)
	if end < 0 && len(a.head) <= 2*maxHead {
		return len(p), nil
	}
	out := a.head
	if end >= 0 {
		out = append(inOrder(a.head[:end:end], a.want), a.head[end:]...)
	}
	a.want, a.head = nil, nil
	if _, err := a.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite lets net/http end its side first, so that a client that still sends reads its answer.
func (a *arranged) CloseWrite() error {
	if half, ok := a.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// inOrder returns a whole head with its lines in the order of names, each spelled as there; lines of
// other names follow as they are.
func inOrder(head []byte, names []string) []byte {
	lines := bytes.SplitAfter(head, []byte("\r\n"))
	if !bytes.HasPrefix(head, []byte("HTTP/1.")) || !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		return head // also one whose lines end otherwise, which net/http does not write
	}
	fields := lines[1 : len(lines)-2] // between the status line, and the empty one and what Split leaves after it
	byName := make(map[string][]int, len(fields))
	for i, line := range fields {
		name, _, _ := strings.Cut(string(line), ":")
		name = textproto.CanonicalMIMEHeaderKey(name)
		byName[name] = append(byName[name], i)
	}
	out := append(make([]byte, 0, len(head)), lines[0]...)
	used := make([]bool, len(fields))
	for _, spelled := range names {
		name := textproto.CanonicalMIMEHeaderKey(spelled)
		if at := byName[name]; len(at) > 0 && !framing[name] {
			out = append(append(out, spelled...), fields[at[0]][len(spelled):]...)
			used[at[0]], byName[name] = true, at[1:]
		}
	}
	for i, line := range fields {
		if !used[i] {
			out = append(out, line...)
		}
	}
	return append(out, "\r\n"...)
}

// framing are the headers of the message that this side makes anew; they stand after the answer's own.
var framing = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Connection": true}
