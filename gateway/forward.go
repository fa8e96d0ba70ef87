package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"

	"onced"
	"onced/gateway/fingerprint"
	"onced/internal/planted"
)

// bodyOnce is a body that hides that it could be rewound.
type bodyOnce struct{ r *bytes.Reader }

func (b bodyOnce) Read(p []byte) (int, error) { return b.r.Read(p) }
func (b bodyOnce) Close() error               { return nil }

// forward sends the operation to the upstream, once. A *notSentError means that
// nothing was sent; after any other error it may have happened.
func (o *operation) forward(ctx context.Context) (*http.Response, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			o.client.inform(status, http.Header(h))
			return nil
		},
	})
	out := o.outgoing(ctx)
	resp, order, err := o.g.upstreams.once(o.route.reuse, out.Body == nil).exchange(out)
	if planted.ForwardTwice && err == nil && o.token%16 == 0 {
		resp.Body.Close()
		resp, order, err = o.g.upstreams.once(false, true).exchange(o.outgoing(ctx))
	}
	var unsent *notSentError
	switch {
	case err == nil:
		if order == nil {
			order = byName(resp.Header)
		}
		o.client.order = order
		return resp, nil
	case errors.As(err, &unsent):
		return nil, unsent
	case context.Cause(ctx) != nil && errors.Is(context.Cause(ctx), errTimeout):
		return nil, errTimeout
	}
	return nil, fmt.Errorf("reading the upstream's answer: %w", err)
}

// outgoing builds the request for the upstream: the client's, Host as sent, without hop-by-hop
// headers, with attempt and token.
func (o *operation) outgoing(ctx context.Context) *http.Request {
	in := o.req
	out := (&http.Request{
		Method: in.Method, URL: upstreamURL(o.t.upstream, in.URL), Host: in.Host, Header: make(http.Header, len(in.Header)+6),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(o.body)),
	}).WithContext(ctx)
	hop := named(in.Header)
	delete(hop, o.t.account.source()) // whoever it is cannot be named away
	delete(hop, onced.KeyHeader)
	for name, values := range in.Header {
		if !hopByHop[name] && !hop[name] && !o.t.isOurs(name) && name != "Expect" && name != "Content-Length" {
			out.Header[name] = values
		}
	}
	out.Header[attemptHeader] = []string{strconv.FormatUint(uint64(o.attempt), 10)}
	out.Header[tokenHeader] = []string{strconv.FormatUint(uint64(o.token), 10)}
	setForwarded(out.Header, in)
	nameRequest(out.Header, in)
	if _, ok := in.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = []string{""} // or net/http would add its own
	}
	if len(o.body) > 0 {
		out.Body = bodyOnce{bytes.NewReader(o.body)}
	}
	return out
}

// upstreamURL is the client's URL at the upstream's place: path and query as sent.
func upstreamURL(upstream, in *url.URL) *url.URL {
	return &url.URL{Scheme: upstream.Scheme, Host: upstream.Host, Path: in.Path, RawPath: in.RawPath, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery}
}

// digestible is what the fingerprint is taken of. A digester that compares raw bytes
// gets them as they were sent.
func digestible(r *http.Request, plain []byte, coding string, raw []byte) fingerprint.Request {
	return fingerprint.Request{
		Method: methodOf(r), Path: plainPath(r.URL.EscapedPath()), RawQuery: r.URL.RawQuery, Header: r.Header,
		Body: plain, Coding: coding, Raw: raw,
	}
}
