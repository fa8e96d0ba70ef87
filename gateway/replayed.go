package gateway

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
)

// maxEdited bounds an answer that is decoded in order to be edited, in bytes.
const maxEdited = 16 << 20

// sayReplayed puts "replayed": true at the top level of a JSON object. An encoded body is decoded first; what
// cannot be decoded, or is no JSON object, stays as it is. Where the body changes, the headers that spoke of the old
// bytes are dropped from h.
func sayReplayed(h http.Header, body []byte) []byte {
	if !saysJSON(h["Content-Type"]) {
		return body
	}
	plain := body
	if coding := h["Content-Encoding"]; len(coding) > 0 {
		var err error
		if plain, err = decodeContent(strings.Join(coding, ","), body, maxEdited); err != nil {
			return body
		}
	}
	edited, ok := setMember(plain, "replayed", "true")
	if !ok || bytes.Equal(edited, body) {
		return body
	}
	delete(h, "Content-Encoding")
	dropDigests(h)
	delete(h, "Etag")
	delete(h, "Last-Modified")
	return edited
}

// saysJSON tells whether a Content-Type is one of JSON. An answer that says none may be.
func saysJSON(lines []string) bool {
	if len(lines) == 0 {
		return true
	}
	kind, _, err := mime.ParseMediaType(lines[0])
	return err == nil && len(lines) == 1 && (kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json"))
}
