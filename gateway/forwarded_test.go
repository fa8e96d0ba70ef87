package gateway

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
)

func TestWhoAskedIsToldOn(t *testing.T) {
	for _, tc := range []struct {
		name   string
		peer   string
		host   string
		secure bool
		sent   http.Header
		wanted http.Header
	}{
		{name: "nobody before us", peer: "192.0.2.1:99", host: "pay.example", wanted: http.Header{
			"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Host": {"pay.example"}, "X-Forwarded-Proto": {"http"}, "Forwarded": {"for=192.0.2.1;host=pay.example;proto=http"}}},
		{name: "IPv6, a port and TLS", peer: "[2001:db8::1]:99", host: "pay.example:8443", secure: true, wanted: http.Header{
			"X-Forwarded-For": {"2001:db8::1"}, "X-Forwarded-Host": {"pay.example:8443"}, "X-Forwarded-Proto": {"https"},
			"Forwarded": {`for="[2001:db8::1]";host="pay.example:8443";proto=https`}}},
		{name: "a zone", peer: "[fe80::1%eth0]:99", host: "[::1]:80", wanted: http.Header{
			"X-Forwarded-For": {"fe80::1%eth0"}, "X-Forwarded-Host": {"[::1]:80"}, "X-Forwarded-Proto": {"http"}, "Forwarded": {`for="[fe80::1]";host="[::1]:80";proto=http`}}},
		{name: "no address and no host", peer: "@", wanted: http.Header{
			"X-Forwarded-Host": {""}, "X-Forwarded-Proto": {"http"}, "Forwarded": {"for=unknown;proto=http"}}},
		{name: "proxies before us", peer: "192.0.2.1:99", host: "inner", sent: http.Header{
			"X-Forwarded-For": {"198.51.100.7, 10.0.0.1", "10.0.0.2"}, "X-Forwarded-Host": {"pay.example"}, "X-Forwarded-Proto": {"https"},
			"Forwarded": {`for=198.51.100.7;proto=https, for="_a\",b"`, "for=10.0.0.2"}}, wanted: http.Header{
			"X-Forwarded-For": {"198.51.100.7, 10.0.0.1, 10.0.0.2, 192.0.2.1"}, "X-Forwarded-Host": {"pay.example"}, "X-Forwarded-Proto": {"https"},
			"Forwarded": {`for=198.51.100.7;proto=https, for="_a\",b", for=10.0.0.2, for=192.0.2.1;host=inner;proto=http`}}},
		{name: "an open string would swallow ours", peer: "192.0.2.1:99", host: "h", sent: http.Header{"Forwarded": {`for="10.0.0.1`}}, wanted: http.Header{
			"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Host": {"h"}, "X-Forwarded-Proto": {"http"}, "Forwarded": {"for=192.0.2.1;host=h;proto=http"}}},
		{name: "a host in quotes", peer: "192.0.2.1:99", host: `a"\b`, wanted: http.Header{
			"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Host": {`a"\b`}, "X-Forwarded-Proto": {"http"}, "Forwarded": {`for=192.0.2.1;host="a\"\\b";proto=http`}}},
	} {
		in := &http.Request{RemoteAddr: tc.peer, Host: tc.host, Header: tc.sent.Clone()}
		if tc.secure {
			in.TLS = &tls.ConnectionState{}
		}
		out := http.Header{}
		setForwarded(out, in)
		if len(out) != len(tc.wanted) {
			t.Errorf("%s: got %v", tc.name, out)
		}
		for name, lines := range tc.wanted {
			if strings.Join(out[name], "|") != strings.Join(lines, "|") {
				t.Errorf("%s: %s is %q, expected %q", tc.name, name, out[name], lines)
			}
		}
		for name, lines := range tc.sent {
			if strings.Join(in.Header[name], "|") != strings.Join(lines, "|") {
				t.Errorf("%s: the client's %s was changed to %q", tc.name, name, in.Header[name])
			}
		}
	}
}

// Protected or not, the upstream is told the same; a client cannot name the lines away.
func TestForwardedOnTheWire(t *testing.T) {
	up := newUpstream(t, answers(strings.Replace(created, "\r\n", "\r\nConnection: close\r\n", 1)))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	for i, path := range []string{"/charge", "/other"} {
		b.send(post(path, "k", "x", "Forwarded: for=_hidden", "X-Forwarded-For: 10.0.0.9", "X-Forwarded-Proto: https",
			"Connection: Forwarded, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host")).expect(t, 201, "")
		for _, line := range []string{"Forwarded: for=_hidden, for=127.0.0.1;host=pay.example;proto=http", "X-Forwarded-For: 10.0.0.9, 127.0.0.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: pay.example"} {
			if strings.Count(up.request(i+1), "\r\n"+line+"\r\n") != 1 {
				t.Errorf("%s: %q is not once in\n%s", path, line, up.request(i+1))
			}
		}
	}
}
