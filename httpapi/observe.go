package httpapi

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"onced"
	"onced/internal/wire"
)

// RequestIDHeader carries the id of a request, in its answer too.
const RequestIDHeader = "X-Request-Id"

// observed is the ResponseWriter of one request, and what is told of it afterwards. It
// belongs to the request's goroutine.
type observed struct {
	http.ResponseWriter
	requestID string
	call      string // "" = no call: a page, or a path that nobody serves
	page      string // health or a page for a person; "" = none
	outcome   string // of the call: reserved, replayed, ok, or a problem's code
	tenant    string
	id        onced.ID // of a call of a key, else empty. No line but an audit has the key, nor a path, which may hold one: only its digest
	status    int      // 0 = nothing was sent yet
}

// WriteHeader implements http.ResponseWriter.
func (o *observed) WriteHeader(status int) {
	if o.status == 0 && status >= 200 {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (o *observed) Write(b []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	return o.ResponseWriter.Write(b)
}

// observedOf returns the observed that the outermost handler made.
func observedOf(w http.ResponseWriter) *observed { return w.(*observed) }

// observe is the outermost handler: it names the request, catches a panic, measures and logs.
func (a *api) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		o := &observed{ResponseWriter: w, requestID: requestID(r.Header)}
		h := w.Header()
		h.Set(RequestIDHeader, o.requestID)
		h.Set("X-Content-Type-Options", "nosniff")
		defer func() {
			a.recovered(o, r, recover())
			took := time.Since(begun)
			if a.Metrics != nil && o.call != "" {
				a.Metrics.Request(o.call, o.outcome, took)
			}
			if a.Logger.Enabled(r.Context(), slog.LevelDebug) { // gathering what it says costs more than asking
				a.Logger.LogAttrs(r.Context(), slog.LevelDebug, "request", append(o.attrs(r),
					slog.Int("status", o.status), slog.String("outcome", o.outcome), slog.Duration("took", took))...)
			}
		}()
		next.ServeHTTP(o, r)
	})
}

// keyDigest is the digest of the key; "" where there is none.
func (o *observed) keyDigest() string {
	if o.id.Key == "" {
		return ""
	}
	return o.id.Digest()
}

// attrs tell which request it is, for a log.
func (o *observed) attrs(r *http.Request) []slog.Attr {
	attrs := []slog.Attr{slog.String("request_id", o.requestID), slog.String("remote", r.RemoteAddr), slog.String("method", r.Method)}
	for _, a := range []slog.Attr{slog.String("call", o.call), slog.String("page", o.page), slog.String("tenant", o.tenant), slog.String("key_digest", o.keyDigest())} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// recovered answers for a handler that panicked with reason. What it did is not
// known, which is what unavailable says to a holder.
func (a *api) recovered(o *observed, r *http.Request, reason any) {
	if reason == nil {
		return
	}
	if reason == http.ErrAbortHandler {
		panic(reason)
	}
	a.Logger.LogAttrs(r.Context(), slog.LevelError, "panic in a handler", append(o.attrs(r),
		slog.Any("reason", reason), slog.String("stack", string(debug.Stack())))...)
	if o.status != 0 {
		// Half an answer must not look like a whole one: cut the connection.
		panic(http.ErrAbortHandler)
	}
	o.outcome = string(onced.CodeUnavailable)
	wire.WriteProblem(o, o.brokenDown(), 0)
}

// brokenDown is the refusal of a request that met a panic.
func (o *observed) brokenDown() *onced.Problem {
	return &onced.Problem{Code: onced.CodeUnavailable, RetryAfter: time.Second,
		Detail: "this node met an error of its own; see its log for the request " + o.requestID}
}

// requestID returns the caller's id where it is a sane one, else a new one.
func requestID(h http.Header) string {
	if lines := h[RequestIDHeader]; len(lines) == 1 && saneID(lines[0]) {
		return lines[0]
	}
	return rand.Text()
}

func saneID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	return strings.IndexFunc(id, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._:@/+=-", c))
	}) < 0
}

// guard refuses what must not reach a route: a path that is not as it was sent, and a
// write by a foreign web page through somebody's browser.
func (a *api) guard(next http.Handler) http.Handler {
	browser := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkPath(r); err != nil {
			wire.WriteProblem(w, onced.AsProblem(err), 0)
			return
		}
		if err := browser.Check(r); err != nil {
			wire.WriteProblem(w, onced.Problemf(onced.CodeForbidden, "a web page of another origin may not do this"), 0)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkPath refuses a path with a byte that has to be percent-encoded and is not. net/url
// would encode such a path anew from its decoded form, and make a slash of %2F on the way: `"a%2Freserve` would
// turn into a reserve of `"a`.
func checkPath(r *http.Request) error {
	if raw := r.URL.RawPath; raw != "" && raw != r.URL.EscapedPath() {
		return onced.Problemf(onced.CodeKeyInvalid, "the path %.100q has bytes that are not percent-encoded: expected only unreserved ones and escapes", raw)
	}
	return nil
}
