package client

import (
	"bytes"
	"net/http"
	"net/textproto"
	"slices"
	"sort"
	"strconv"
	"strings"

	"onced"
	"onced/internal/wire"
)

// recorder takes a handler's answer.
type recorder struct {
	header http.Header
	status int         // 0 = not said yet
	sent   http.Header // header as of the status
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. Informational answers are not passed on.
func (r *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic("client: the handler's status is " + strconv.Itoa(status))
	}
	if r.status == 0 && status >= 200 {
		r.status, r.sent = status, r.header.Clone()
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if !bodyAllowed(r.status) {
		return 0, http.ErrBodyNotAllowed
	}
	return r.body.Write(b)
}

// Flush implements http.Flusher, for handlers that take it for granted. Nothing goes out before the
// answer is recorded.
func (r *recorder) Flush() { r.WriteHeader(http.StatusOK) }

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// finish closes the answer: what the handler left to net/http is filled in, so that a repeat
// gets the same.
func (r *recorder) finish() {
	r.WriteHeader(http.StatusOK)
	dropHop(r.sent)
	delete(r.sent, "Content-Length")
	_, typed := r.sent["Content-Type"]
	if !typed && r.sent.Get("Content-Encoding") == "" && r.body.Len() > 0 {
		r.sent.Set("Content-Type", http.DetectContentType(r.body.Bytes()))
	}
}

// hopByHop are the headers of one connection.
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding",
	"Upgrade", "Proxy-Authenticate", "Proxy-Authorization"}

// dropHop removes the headers of one connection, those that Connection names, and trailers.
func dropHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
	for name := range h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			delete(h, name)
		}
	}
}

// neverReplayed belong to one moment or one person.
var neverReplayed = []string{"Set-Cookie", "Www-Authenticate", "Date"}

func (o *operation) kept(name string) bool {
	return !slices.Contains(neverReplayed, name) ||
		slices.ContainsFunc(o.KeepHeaders, func(keep string) bool { return strings.EqualFold(keep, name) })
}

// response is what is stored of the answer.
func (o *operation) response(r *recorder) *onced.Response {
	names := make([]string, 0, len(r.sent))
	for name := range r.sent {
		if o.kept(name) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	stored := &onced.Response{Status: r.status}
	for _, name := range names {
		for _, value := range r.sent[name] {
			stored.Headers = append(stored.Headers, onced.Header{Name: name, Value: value})
		}
	}
	if int64(r.body.Len()) > o.MaxResponse {
		stored.BodyOmitted = true
	} else {
		stored.Body = r.body.Bytes()
	}
	return stored
}

// replay answers with a completed record.
func (o *operation) replay(rec onced.Record) {
	s := rec.Response
	switch {
	case s == nil:
		o.refuse(onced.Problemf(onced.CodeUnavailable, "the record is completed, but its answer could not be read; nothing was started"))
		return
	case s.BodyOmitted || s.Status < 200:
		o.mark(true, rec.ExpiresAt)
		o.refuse(onced.Problemf(onced.CodeResponseNotKept,
			"the operation was done and answered with status %d, but that answer was not kept; do not send it again", s.Status))
		return
	}
	h := http.Header{}
	for _, line := range s.Headers {
		h.Add(line.Name, line.Value)
	}
	dropHop(h)
	for name := range h {
		if !o.kept(name) {
			delete(h, name)
		}
	}
	o.mark(true, rec.ExpiresAt)
	o.send(s.Status, h, s.Body)
}

// send sends an answer whole.
func (o *operation) send(status int, h http.Header, body []byte) {
	out := o.w.Header()
	for name, values := range h {
		out[name] = values
	}
	if _, typed := h["Content-Type"]; !typed {
		out["Content-Type"] = nil // or net/http would guess one
	}
	if bodyAllowed(status) {
		out.Set("Content-Length", strconv.Itoa(len(body)))
	}
	o.w.WriteHeader(status)
	if bodyAllowed(status) {
		// The client may be gone; there is nobody else to tell.
		_, _ = o.w.Write(body)
	}
}

// mark adds the markers. expires is 0 where nothing was recorded.
func (o *operation) mark(replayed bool, expires onced.Instant) {
	h := o.w.Header()
	h.Set("Idempotency-Replayed", strconv.FormatBool(replayed))
	if expires != 0 {
		h.Set("Idempotency-Expires", expires.Time().Format("2006-01-02T15:04:05.000Z"))
	}
}

// tellUnknown answers the first request of an operation whose outcome is not recorded.
func (o *operation) tellUnknown(detail string) {
	o.mark(false, 0)
	wire.WriteProblem(o.w, onced.Problemf(onced.CodeOutcomeUnknown, "%s", detail), http.StatusGatewayTimeout)
}
