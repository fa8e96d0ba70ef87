package onced_test

import (
	"strings"
	"testing"

	"onced"
)

// The bare and the quoted form of a key are one key; what could be read as another key is none. (F53, F54, F57)
func TestParseKey(t *testing.T) {
	for _, tc := range []struct {
		lines []string
		want  onced.Key
		code  onced.Code // "" = it is the key wanted
	}{
		{[]string{`abc`}, `abc`, ""},
		{[]string{`"abc"`}, `abc`, ""},
		{[]string{" \tabc\t "}, `abc`, ""},
		{[]string{`Abc`}, `Abc`, ""},
		{[]string{`a"b`}, `a"b`, ""},
		{[]string{`"a\"b"`}, `a"b`, ""},
		{[]string{`a\b`}, `a\b`, ""},
		{[]string{`"a\\b"`}, `a\b`, ""},
		{[]string{`"a, b"`}, `a, b`, ""},
		{[]string{`" a"`}, ` a`, ""},
		{[]string{`~`}, `~`, ""},
		{[]string{strings.Repeat("k", 191)}, onced.Key(strings.Repeat("k", 191)), ""},
		{[]string{`"` + strings.Repeat(`\"`, 191) + `"`}, onced.Key(strings.Repeat(`"`, 191)), ""},
		{nil, "", onced.CodeKeyRequired},
		{[]string{`abc`, `abc`}, "", onced.CodeKeyInvalid},
		{[]string{`abc`, ``}, "", onced.CodeKeyInvalid},
		{[]string{`a,b`}, "", onced.CodeKeyInvalid},
		{[]string{`"a", "b"`}, "", onced.CodeKeyInvalid},
		{[]string{`"a","a"`}, "", onced.CodeKeyInvalid},
		{[]string{``}, "", onced.CodeKeyInvalid},
		{[]string{`""`}, "", onced.CodeKeyInvalid},
		{[]string{`"`}, "", onced.CodeKeyInvalid},
		{[]string{`"abc`}, "", onced.CodeKeyInvalid},
		{[]string{`"abc\"`}, "", onced.CodeKeyInvalid},
		{[]string{`"abc\`}, "", onced.CodeKeyInvalid},
		{[]string{`"a\bc"`}, "", onced.CodeKeyInvalid},
		{[]string{`"abc"x`}, "", onced.CodeKeyInvalid},
		{[]string{`"abc";p=1`}, "", onced.CodeKeyInvalid},
		{[]string{`a b`}, "", onced.CodeKeyInvalid},
		{[]string{"a\x7f"}, "", onced.CodeKeyInvalid},
		{[]string{"\"a\x1f\""}, "", onced.CodeKeyInvalid},
		{[]string{"ké"}, "", onced.CodeKeyInvalid},
		{[]string{strings.Repeat("k", 192)}, "", onced.CodeKeyInvalid},
		{[]string{`"` + strings.Repeat("k", 192) + `"`}, "", onced.CodeKeyInvalid},
	} {
		got, err := onced.ParseKey(tc.lines, onced.MaxHeaderKeyBytes)
		if got != tc.want || onced.CodeOf(err) != tc.code {
			t.Errorf("%.40q: got %.40q, %v; expected %.40q, %q", tc.lines, got, err, tc.want, tc.code)
		}
	}
}

// The digest is a documented one, so that a person can find a key's lines:
// printf 'acme\0POST /charge\0order-42' | sha256sum | cut -c1-16
func TestDigest(t *testing.T) {
	id := onced.ID{Tenant: "acme", Scope: "POST /charge", Key: "order-42"}
	if got, want := id.Digest(), "1b9b071b205ac1ec"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	others := []onced.ID{{Tenant: "acme", Key: "order-42"}, {Tenant: "globex", Scope: "POST /charge", Key: "order-42"},
		{Tenant: "acme", Scope: "POST /charge", Key: "order-43"}, {Tenant: "acmePOST /charge", Key: "order-42"}}
	for _, other := range others {
		if other.Digest() == id.Digest() {
			t.Errorf("%v has the digest of %v", other, id)
		}
	}
}
