package onced

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

const (
	// MaxKeyBytes is the longest key that the API of a node and the stripe
	// contract take.
	MaxKeyBytes = 255
	// MaxHeaderKeyBytes is the longest key that the gateway takes from an
	// Idempotency-Key header unless a route's contract says otherwise.
	MaxHeaderKeyBytes = 191
	// MaxScopeBytes bounds the name of a scope.
	MaxScopeBytes = 255
	// MaxTenantBytes bounds the name of a tenant.
	MaxTenantBytes = 128
)

// KeyHeader is the canonical name of the header that carries a key.
const KeyHeader = "Idempotency-Key"

// Key is a client's idempotency key, unquoted and unescaped. Its case matters.
type Key string

// ParseKey reads the key from the values of the Idempotency-Key header lines
// of one request (one element per line, as in http.Header). Both the bare form
// and the quoted form (a Structured Field string) of one key give the same Key.
// max is the longest key taken, in bytes after unquoting.
//
// Errors: CodeKeyRequired when there is no line; CodeKeyInvalid for several
// lines, a comma or a space in the bare form, an unclosed quote, an escape other
// than \" and \\, anything after the closing quote, a length outside 1..max, or
// a byte outside printable ASCII. Lines are never joined into another key.
func ParseKey(lines []string, max int) (Key, error) {
	switch len(lines) {
	case 0:
		return "", Problemf(CodeKeyRequired, "this operation needs an %s header", KeyHeader)
	case 1:
	default:
		return "", Problemf(CodeKeyInvalid, "there are %d %s lines; send exactly one", len(lines), KeyHeader)
	}
	value := strings.Trim(lines[0], " \t")
	if strings.HasPrefix(value, `"`) {
		return parseQuoted(value, max)
	}
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == ',':
			return "", Problemf(CodeKeyInvalid, "the key has a comma at byte %d; a key with a comma must be quoted, and two keys are never joined", i)
		case c < 0x21 || c > 0x7E:
			return "", Problemf(CodeKeyInvalid, "the key has byte 0x%02X at %d; a bare key is printable ASCII without spaces (0x21–0x7E)", c, i)
		}
	}
	return checkLength(value, max)
}

// parseQuoted reads the Structured Field string (RFC 9651 §3.3.3) that value,
// which begins with a quote, must consist of.
func parseQuoted(value string, max int) (Key, error) {
	var b strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\':
			i++
			if i == len(value) {
				return "", Problemf(CodeKeyInvalid, "the quoted key ends in the middle of an escape")
			}
			if value[i] != '"' && value[i] != '\\' {
				return "", Problemf(CodeKeyInvalid, `the quoted key has the escape \%c at byte %d; only \" and \\ are escapes`, printable(value[i]), i-1)
			}
			b.WriteByte(value[i])
		case c == '"':
			if rest := value[i+1:]; rest != "" {
				return "", Problemf(CodeKeyInvalid, "there are %d bytes after the key's closing quote; nothing may follow it", len(rest))
			}
			return checkLength(b.String(), max)
		case c < 0x20 || c > 0x7E:
			return "", Problemf(CodeKeyInvalid, "the quoted key has byte 0x%02X at %d; a key is printable ASCII (0x20–0x7E)", c, i)
		default:
			b.WriteByte(c)
		}
	}
	return "", Problemf(CodeKeyInvalid, "the key's opening quote is never closed")
}

func printable(c byte) rune {
	if c < 0x20 || c > 0x7E {
		return '?'
	}
	return rune(c)
}

// KeyFromPath checks a key that stood percent-encoded in a path and has been
// decoded. It takes up to MaxKeyBytes bytes of 0x20–0x7E, commas and quotes too.
func KeyFromPath(decoded string) (Key, error) {
	for i := 0; i < len(decoded); i++ {
		if c := decoded[i]; c < 0x20 || c > 0x7E {
			return "", Problemf(CodeKeyInvalid, "the key has byte 0x%02X at %d; a key is printable ASCII (0x20–0x7E)", c, i)
		}
	}
	return checkLength(decoded, MaxKeyBytes)
}

func checkLength(key string, max int) (Key, error) {
	if len(key) == 0 {
		return "", Problemf(CodeKeyInvalid, "the key is empty; a key has 1 to %d bytes", max)
	}
	if len(key) > max {
		return "", Problemf(CodeKeyInvalid, "the key has %d bytes; a key has 1 to %d bytes", len(key), max)
	}
	return Key(key), nil
}

var tenantForm = regexp.MustCompile(`^[A-Za-z0-9._:@-]{1,128}$`)

// CheckTenant returns a CodeInvalidRequest problem unless name is 1 to
// MaxTenantBytes of A-Za-z0-9._:@- .
func CheckTenant(name string) error {
	if !tenantForm.MatchString(name) {
		return Problemf(CodeInvalidRequest, "the tenant %.140q is not a name: expected 1 to %d of A-Z a-z 0-9 . _ : @ -", name, MaxTenantBytes)
	}
	return nil
}

// CheckScope returns a CodeInvalidRequest problem unless scope is at most
// MaxScopeBytes of printable ASCII (0x20–0x7E). "" is the scope of a key that names none.
func CheckScope(scope string) error {
	if len(scope) > MaxScopeBytes {
		return Problemf(CodeInvalidRequest, "the scope has %d bytes; at most %d are taken", len(scope), MaxScopeBytes)
	}
	for i := 0; i < len(scope); i++ {
		if c := scope[i]; c < 0x20 || c > 0x7E {
			return Problemf(CodeInvalidRequest, "the scope has byte 0x%02X at %d; a scope is printable ASCII (0x20–0x7E)", c, i)
		}
	}
	return nil
}

// ID names one record of the table. Two tenants never share one.
type ID struct {
	Tenant string // CheckTenant holds
	Scope  string // CheckScope holds; "" is a scope like any other
	Key    Key
}

// Digest names the record in a log without telling its key: the first 16 hexadecimal digits of
// the SHA-256 of tenant, scope and key, each but the last followed by a NUL, which none of them
// has. Whoever knows a key can make its digest, and two tenants with one key have two.
func (id ID) Digest() string {
	sum := sha256.Sum256([]byte(id.Tenant + "\x00" + id.Scope + "\x00" + string(id.Key)))
	return hex.EncodeToString(sum[:8])
}
