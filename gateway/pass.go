package gateway

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"

	"onced"
)

// newProxy returns the proxy for what is not protected: streamed both ways,
// upgrades included, nothing recorded.
func (g *Gateway) newProxy(t *table) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { rewrite(t, p) },
		Transport:     passing{g.upstreams},
		FlushInterval: -1,
		ErrorHandler:  g.passFailed,
		ErrorLog:      slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
}

func rewrite(t *table, p *httputil.ProxyRequest) {
	p.Out.URL = upstreamURL(t.upstream, p.In.URL)
	p.Out.Host = p.In.Host
	for name := range p.Out.Header {
		if t.isOurs(name) {
			delete(p.Out.Header, name)
		}
	}
	for _, name := range []string{t.account.source(), onced.KeyHeader} {
		if values := p.In.Header[name]; values != nil {
			p.Out.Header[name] = values
		}
	}
	if carriesHTTP(p.Out.Header["Upgrade"]) {
		delete(p.Out.Header, "Upgrade")
		delete(p.Out.Header, "Connection")
	}
	setForwarded(p.Out.Header, p.In)
	nameRequest(p.Out.Header, p.In)
}

// carriesHTTP tells whether an upgrade leads to a connection on which requests follow that the gateway does not see,
// and that may be protected ones: h2c, another HTTP, or TLS. Such an upgrade is not passed on, which to the
// upstream is a request without it.
func carriesHTTP(upgrade []string) bool {
	for protocol := range strings.SplitSeq(strings.ToLower(strings.Join(upgrade, ",")), ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(protocol), "/")
		if name == "h2c" || name == "h2" || name == "h3" || name == "http" || name == "https" || name == "tls" {
			return true
		}
	}
	return false
}

// passing keeps Go's transport from repeating a request with an effect; see transports.once.
type passing struct{ transports }

// RoundTrip is part of http.RoundTripper.
func (t passing) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return t.kept.RoundTrip(r)
	}
	return t.once(true, r.Body == nil || r.Body == http.NoBody).RoundTrip(r)
}

// passFailed answers a request that the upstream did not.
func (g *Gateway) passFailed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	g.log.Debug("gateway: passing a request on", "request_id", requestIDOf(r), "method", r.Method, "error", err)
	c := newClient(w, r, standard)
	if unsent := (*notSentError)(nil); errors.As(err, &unsent) {
		c.refuse(refusal{problem: onced.Problemf(onced.CodeUnavailable, "the upstream could not be reached; nothing was started")})
		return
	}
	body, _ := json.Marshal(map[string]any{"type": "about:blank", "title": "Bad Gateway", "status": http.StatusBadGateway,
		"detail": "the upstream did not answer this request, which is not protected"})
	h := http.Header{"Content-Type": {"application/problem+json"}}
	c.share(h)
	expose(h, replayedHeader)
	c.send(http.StatusBadGateway, h, append(body, '\n'))
}
