package tokens

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"onced"
)

// digestPrefix names the digest in a line of the file, so that there can be another one day.
const digestPrefix = "sha256:"

// maxFileBytes bounds the file: about 100,000 lines.
const maxFileBytes = 16 << 20

// Load reads the tokens file at path.
//
// Errors: those of the file system, and those of Parse.
func Load(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the tokens file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the tokens file: %w", err)
	case len(data) > maxFileBytes:
		return nil, fmt.Errorf("%s: has more than %d bytes", path, maxFileBytes)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return t, nil
}

// Parse reads the lines of a tokens file: `sha256:HEX TENANT ROLE [NAME]`, separated by
// white space. Empty lines and those that begin with # say nothing. A file without any
// credential is one: its last token may just have been revoked.
//
// Errors begin with the number of the line, and never quote a digest or what may be a token.
func Parse(data []byte) (*Table, error) {
	t := newTable()
	first := map[[sha256.Size]byte]int{}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text := string(bytes.TrimSpace(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		c, sum, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
		if at, twice := first[sum]; twice {
			return nil, fmt.Errorf("%d: repeats the token of line %d: expected each token once", number, at)
		}
		first[sum] = number
		t.add(sum, c)
	}
	return t, nil
}

func parseLine(text string) (Credential, [sha256.Size]byte, error) {
	var c Credential
	var sum [sha256.Size]byte
	fields := strings.Fields(text)
	digest, hashed := strings.CutPrefix(fields[0], digestPrefix)
	switch {
	case strings.HasPrefix(fields[0], Prefix):
		return c, sum, errors.New("has a token itself, which must not be kept: expected its SHA-256, as `onced token new` prints it")
	case !hashed:
		return c, sum, fmt.Errorf("does not begin with %s: expected %sHEX TENANT ROLE [NAME]", digestPrefix, digestPrefix)
	case len(fields) < 3 || len(fields) > 4:
		return c, sum, fmt.Errorf("has %d words: expected %sHEX TENANT ROLE [NAME]", len(fields), digestPrefix)
	}
	raw, err := hex.DecodeString(digest)
	if err != nil || len(raw) != sha256.Size {
		return c, sum, fmt.Errorf("has no SHA-256 after %s: expected %d hexadecimal digits", digestPrefix, 2*sha256.Size)
	}
	sum = [sha256.Size]byte(raw)
	if err := onced.CheckTenant(fields[1]); err != nil {
		return c, sum, errors.New(onced.AsProblem(err).Detail)
	}
	c.Tenant = fields[1]
	if c.Role, err = ParseRole(fields[2]); err != nil {
		return c, sum, err
	}
	c.Name = fmt.Sprintf("%s:%s:%x", c.Tenant, c.Role, sum[:4])
	if len(fields) == 4 {
		if c.Name = fields[3]; !nameForm.MatchString(c.Name) {
			return c, sum, errName(c.Name)
		}
	}
	return c, sum, nil
}
