package gateway

import (
	"net"
	"net/http"
	"strings"
)

// setForwarded tells the upstream who asked (X-Forwarded-*, and Forwarded of RFC 7239).
//
// The lists For and Forwarded get one element more, which is ours: whom this gateway talked to, by which name and
// scheme. What stands before it is what the caller said, and worth as much as the caller. Host and Proto are one
// value each, and stay as a proxy before us said them.
func setForwarded(h http.Header, in *http.Request) {
	proto := "http"
	if in.TLS != nil {
		proto = "https"
	}
	peer, _, err := net.SplitHostPort(in.RemoteAddr)
	if err != nil {
		peer = "" // no address: another kind of socket
	}
	if peer != "" {
		h["X-Forwarded-For"] = []string{strings.Join(append(append([]string(nil), in.Header["X-Forwarded-For"]...), peer), ", ")}
	}
	for name, ours := range map[string]string{"X-Forwarded-Host": in.Host, "X-Forwarded-Proto": proto} {
		if h[name] = in.Header[name]; len(h[name]) == 0 {
			h[name] = []string{ours}
		}
	}
	h["Forwarded"] = []string{strings.Join(append(elements(in.Header["Forwarded"]), forwardedElement(peer, in.Host, proto)), ", ")}
}

// elements returns the caller's lines of Forwarded, none of them where a quoted string in them is left open:
// it would swallow our element.
func elements(lines []string) []string {
	quoted, escaped := false, false
	for _, line := range lines {
		for i := range len(line) {
			switch {
			case escaped:
				escaped = false
			case quoted && line[i] == '\\':
				escaped = true
			case line[i] == '"':
				quoted = !quoted
			}
		}
		if quoted {
			return nil
		}
	}
	return append([]string(nil), lines...)
}

// forwardedElement is one element of Forwarded.
func forwardedElement(peer, host, proto string) string {
	element := "for=" + forwardedValue(forwardedNode(peer))
	if host != "" {
		element += ";host=" + forwardedValue(host)
	}
	return element + ";proto=" + proto
}

// forwardedNode is an address as RFC 7239 §6 writes it: an IPv6 one in brackets, and without its zone, which is a matter of this
// machine alone.
func forwardedNode(peer string) string {
	switch {
	case peer == "":
		return "unknown"
	case strings.Contains(peer, ":"):
		address, _, _ := strings.Cut(peer, "%")
		return "[" + address + "]"
	}
	return peer
}

// forwardedValue is a token as it is, and anything else as a quoted string.
func forwardedValue(s string) string {
	if isToken(s) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
