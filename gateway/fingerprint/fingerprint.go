package fingerprint

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/textproto"
)

// Mode says how a body is compared.
type Mode string

const (
	// Auto compares JSON by meaning, multipart part by part, anything else byte by byte.
	Auto Mode = "auto"
	// Raw compares byte by byte.
	Raw Mode = "raw"
	// None leaves the body and its media type out.
	None Mode = "none"
)

// version is the prefix of every fingerprint. Whatever changes the digest of any
// request needs another one, as old and new nodes would take each other's for a conflict.
const version = "f1:"

// Options choose what counts.
type Options struct {
	Body         Mode     // "" = Auto
	Headers      []string // names of request headers that count, in any case
	IgnoreFields []string // JSON pointers (RFC 6901) of fields that do not; Auto only
}

// Digester computes fingerprints. It is safe for concurrent use.
type Digester struct {
	key     []byte
	body    Mode
	headers []string // canonical
	ignore  *pointers
}

// New returns a Digester. secret is the cluster's, equal on all nodes; without one the
// key is a constant, so that nodes still agree, but the digest is then no secret.
//
// Errors name the option that is wrong.
func New(secret []byte, o Options) (*Digester, error) {
	d := &Digester{key: deriveKey(secret), body: o.Body}
	switch o.Body {
	case "":
		d.body = Auto
	case Auto, Raw, None:
	default:
		return nil, fmt.Errorf("body is %q: expected auto, raw or none", o.Body)
	}
	if len(o.IgnoreFields) > 0 && d.body != Auto {
		return nil, fmt.Errorf("ignore_fields needs body: auto, but body is %q", o.Body)
	}
	for _, name := range o.Headers {
		d.headers = append(d.headers, textproto.CanonicalMIMEHeaderKey(name))
	}
	var err error
	if d.ignore, err = parsePointers(o.IgnoreFields); err != nil {
		return nil, fmt.Errorf("ignore_fields: %w", err)
	}
	return d, nil
}

func deriveKey(secret []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("onced gateway fingerprint v1"))
	return mac.Sum(nil)
}

// Request is what a fingerprint is taken of.
type Request struct {
	Method   string
	Path     string              // escaped, in one normal form
	RawQuery string              // as sent, without the question mark
	Header   map[string][]string // canonical names; Content-Type and the chosen ones are read
	Body     []byte              // without its content coding, where that could be undone
	Coding   string              // the Content-Encoding that Body still has
	Raw      []byte              // as sent
}

// Sum returns the fingerprint: the version and 43 characters of base64url.
func (d *Digester) Sum(r Request) string {
	w := newWriter(d.key)
	w.field("method", []byte(r.Method))
	w.field("path", []byte(r.Path))
	writeQuery(w, r.RawQuery)
	for _, name := range d.headers {
		w.strings("header "+name, r.Header[name])
	}
	if d.body != None {
		d.writeBody(w, r)
	}
	return version + base64.RawURLEncoding.EncodeToString(w.sum())
}

func (d *Digester) writeBody(w *writer, r Request) {
	media := parseMedia(r.Header["Content-Type"])
	if d.body == Auto && r.Coding == "" {
		if media.isJSON() {
			if canonical, ok := canonicalJSON(r.Body, d.ignore); ok {
				media.write(w)
				w.field("json", canonical)
				return
			}
		}
		if boundary, ok := media.boundary(); ok {
			if parts, ok := splitMultipart(r.Body, boundary); ok {
				media.withoutBoundary().write(w)
				writeParts(w, parts)
				return
			}
		}
	}
	media.write(w)
	if d.body == Raw {
		w.field("raw", r.Raw)
		return
	}
	w.field("coding", []byte(r.Coding))
	w.field("bytes", r.Body)
}
