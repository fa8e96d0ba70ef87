package gateway

import (
	"net/http"
	"strings"

	"onced"
)

// keyOf reads the key of a request as the route takes it.
//
// Problems: those of onced.ParseKey; idempotency_key_invalid when it does not have the form of key_pattern.
func (rt *route) keyOf(h http.Header) (onced.Key, error) {
	lines := h[onced.KeyHeader]
	key, err := onced.ParseKey(lines, rt.contract.maxKey)
	if err != nil || rt.keyPattern == nil {
		return key, err
	}
	form, what := string(key), "the key"
	if rt.keyAsSent {
		form, what = strings.Trim(lines[0], " \t"), "the key, as it was sent,"
	}
	if !rt.keyPattern.MatchString(form) {
		return "", onced.Problemf(onced.CodeKeyInvalid, "%s does not have the form that this route demands: %s", what, rt.keyPattern)
	}
	return key, nil
}

// setKeyPattern compiles key_pattern. Where the contract says so, one that begins with a quote is matched
// over the key as it was sent, and so takes the quoted form only.
func (rt *route) setKeyPattern(text string) (err error) {
	rt.keyPattern, err = wholePattern(text)
	rt.keyAsSent = rt.contract.quotedKeys && strings.HasPrefix(strings.TrimPrefix(text, "^"), `"`)
	return err
}
