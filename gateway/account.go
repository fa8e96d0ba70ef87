package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"onced"
)

// account tells whose keys a request uses. Exactly one of its fields is set.
type account struct {
	header string // the canonical name of the header whose value is the tenant
	key    []byte // authorization: the key of the hash
	single bool   // tenant "default" for all
}

// singleTenant is the tenant of tenant: single.
const singleTenant = "default"

func parseAccount(text string, secret []byte) (account, error) {
	name, isHeader := strings.CutPrefix(text, "header:")
	switch {
	case text == "":
		return account{}, errTenantUnsaid
	case text == "single":
		return account{single: true}, nil
	case text == "authorization":
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte("onced gateway account v1"))
		return account{key: mac.Sum(nil)}, nil
	case !isHeader || !isToken(name):
		return account{}, fmt.Errorf("%q: expected header:NAME, authorization or single", text)
	}
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	if canonical == "Authorization" || canonical == onced.KeyHeader || hopByHop[canonical] {
		return account{}, fmt.Errorf("%q names no account: expected the header that whatever authenticates before us sets, or tenant: authorization", text)
	}
	return account{header: canonical}, nil
}

// source is the header that the account is read from, "" for single. It is passed on
// even if the client's Connection header names it.
func (a account) source() string {
	if a.key != nil {
		return "Authorization"
	}
	return a.header
}

// tenantOf returns the tenant of a request.
//
// Problems: unauthenticated where the header is missing, stands twice, or is no name.
func (a account) tenantOf(h http.Header) (string, error) {
	if a.single {
		return singleTenant, nil
	}
	lines := h[a.source()]
	if len(lines) != 1 || strings.Trim(lines[0], " \t") == "" {
		return "", onced.Problemf(onced.CodeUnauthenticated, "there are %d usable %s lines; a protected operation needs exactly one, which names the account", usable(lines), a.source())
	}
	value := strings.Trim(lines[0], " \t")
	if a.key != nil {
		if scheme, rest, ok := strings.Cut(value, " "); ok {
			value = strings.ToLower(scheme) + " " + strings.TrimLeft(rest, " ") // a scheme has no case (RFC 9110 §11.1)
		}
		mac := hmac.New(sha256.New, a.key)
		mac.Write([]byte(value))
		return "a_" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16]), nil
	}
	if onced.CheckTenant(value) != nil {
		return "", onced.Problemf(onced.CodeUnauthenticated, "the %s header is no account's name: expected 1 to %d of A-Z a-z 0-9 . _ : @ -", a.header, onced.MaxTenantBytes)
	}
	return value, nil
}

func usable(lines []string) int {
	n := 0
	for _, l := range lines {
		if strings.Trim(l, " \t") != "" {
			n++
		}
	}
	return n
}
