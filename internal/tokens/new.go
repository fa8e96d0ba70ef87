package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"onced"
)

// Prefix begins every token that New makes, so that a person, or a scanner of leaked secrets,
// knows one when it sees it.
const Prefix = "onced_"

// tokenBytes is how much chance is in a token: 256 bits.
const tokenBytes = 32

// letters are digits and letters in one case: a double click selects the whole token, and it
// survives being read aloud.
var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// New makes a credential for a tenant. token is what its owner sends, and is kept nowhere; line
// is what the tokens file gets. name, which may be "", tells whose it is in the audit line.
//
// Errors: a tenant, role or name that is none, worded for a person.
func New(tenant string, role Role, name string) (token, line string, err error) {
	if err := onced.CheckTenant(tenant); err != nil {
		return "", "", fmt.Errorf("tenant: %s", onced.AsProblem(err).Detail)
	}
	if _, err := ParseRole(string(role)); err != nil {
		return "", "", fmt.Errorf("role: %w", err)
	}
	if name != "" && !nameForm.MatchString(name) {
		return "", "", errName(name)
	}
	secret := make([]byte, tokenBytes)
	rand.Read(secret) // never fails, or ends the process
	token = Prefix + letters.EncodeToString(secret)
	sum := sha256.Sum256([]byte(token))
	return token, strings.TrimRight(fmt.Sprintf("%s%s %s %s %s", digestPrefix, hex.EncodeToString(sum[:]), tenant, role, name), " "), nil
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9._:@/-]{1,64}$`)

func errName(name string) error {
	return fmt.Errorf("%.80q is no name: expected 1 to 64 of A-Z a-z 0-9 . _ : @ / -", name)
}
