package gateway

import (
	"net/http"
	"strconv"
	"strings"
)

// acceptable tells whether a client takes a body with these codings (RFC 9110 §12.5.3). One that says
// nothing takes all.
func acceptable(accept []string, codings []string) bool {
	if len(accept) == 0 {
		return true
	}
	weights, rest, said := acceptedWeights(accept)
	for _, coding := range codings {
		weight, ok := weights[coding]
		if !ok {
			weight = rest // of "*", else nothing
			ok = said
		}
		if !ok || weight == 0 {
			return false
		}
	}
	return true
}

// acceptedWeights reads Accept-Encoding: the weights of codings by name, and that of "*", where it is said.
// What is no weight is none: the coding is not accepted by it.
func acceptedWeights(accept []string) (weights map[string]float64, rest float64, said bool) {
	weights = map[string]float64{}
	for entry := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, parameters, _ := strings.Cut(entry, ";")
		weight := weightOf(parameters)
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "":
		case "*":
			rest, said = weight, true
		case "x-gzip":
			weights["gzip"] = max(weights["gzip"], weight)
		default:
			weights[name] = weight
		}
	}
	return weights, rest, said
}

// weightOf reads "q=0.5"; 1 where none is said.
func weightOf(parameters string) float64 {
	if strings.TrimSpace(parameters) == "" {
		return 1
	}
	name, value, _ := strings.Cut(parameters, "=")
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if !strings.EqualFold(strings.TrimSpace(name), "q") || err != nil || !(q >= 0 && q <= 1) {
		return 0
	}
	return q
}

// identityRefused tells whether a client takes no body without a coding.
func identityRefused(accept []string) bool {
	weights, rest, said := acceptedWeights(accept)
	if weight, ok := weights["identity"]; ok {
		return weight == 0
	}
	return said && rest == 0
}

// digestsOfBytes are headers that are computed from the very bytes of a body.
var digestsOfBytes = []string{"Content-Md5", "Digest", "Content-Digest", "Repr-Digest"}

// dropDigests takes away what no longer is true of a body whose bytes were changed.
func dropDigests(h http.Header) {
	for _, name := range digestsOfBytes {
		delete(h, name)
	}
}

// readable returns the body of a stored answer as the client can read it. Where its coding is not among those that
// the request accepts, it is decoded, and h changed to that: the coding and what speaks of the old bytes are gone, a
// strong ETag is a weak one, as the meaning is the same and the bytes are not, and Vary says what it depends on. A
// body that cannot be decoded within max bytes, or that the client does not accept decoded either, stays as it is.
func readable(accept []string, status int, h http.Header, body []byte, max int64) []byte {
	coding := strings.Join(h["Content-Encoding"], ",")
	codings := codingsOf(coding)
	if len(codings) == 0 || len(body) == 0 || status == http.StatusPartialContent {
		return body
	}
	if acceptable(accept, codings) || identityRefused(accept) {
		return body
	}
	plain, err := decodeContent(coding, body, max)
	if err != nil {
		return body
	}
	delete(h, "Content-Encoding")
	vary(h, "Accept-Encoding")
	dropDigests(h)
	delete(h, "Accept-Ranges") // ranges are of the coded bytes
	if tags := h["Etag"]; len(tags) == 1 && !strings.HasPrefix(tags[0], "W/") {
		h["Etag"] = []string{"W/" + tags[0]}
	}
	return plain
}
