package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
)

// Credential is who a token is of.
type Credential struct {
	Name   string // for the audit line: the file's, else made of tenant, role and 8 digits of the digest
	Tenant string // onced.CheckTenant holds
	Role   Role
}

// Table are the credentials of one file. It never changes once it is read, and may be
// used by many at once.
type Table struct {
	salt    [sha256.Size]byte
	entries map[[sha256.Size]byte]entry
}

type entry struct {
	sum [sha256.Size]byte
	Credential
}

func newTable() *Table {
	t := &Table{entries: map[[sha256.Size]byte]entry{}}
	rand.Read(t.salt[:]) // never fails, or ends the process
	return t
}

func (t *Table) add(sum [sha256.Size]byte, c Credential) {
	t.entries[t.place(sum)] = entry{sum, c}
}

// place is where the credential with the digest sum is kept. Nobody outside can choose
// or foresee it, so how long a map takes to find it tells nothing.
func (t *Table) place(sum [sha256.Size]byte) [sha256.Size]byte {
	var salted [2 * sha256.Size]byte
	copy(salted[:], t.salt[:])
	copy(salted[sha256.Size:], sum[:])
	return sha256.Sum256(salted[:])
}

// Len is how many credentials there are.
func (t *Table) Len() int { return len(t.entries) }

// Lookup returns whose token is.
func (t *Table) Lookup(token string) (Credential, bool) {
	sum := sha256.Sum256([]byte(token))
	found := t.entries[t.place(sum)] // the zero entry, which is compared all the same, where there is none
	if subtle.ConstantTimeCompare(sum[:], found.sum[:]) != 1 {
		return Credential{}, false
	}
	return found.Credential, true
}
