package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"onced"
	"onced/gateway/blob"
)

// reference is what a record has of an answer that is kept elsewhere: where, how long it is, and its digest, so that
// what was cut, damaged or exchanged is never taken for it.
type reference struct {
	name   blob.Name
	length int64
	sum    [sha256.Size]byte
}

// referencePrefix begins every reference of ours. A record may have one of somebody else's, who
// completed it by the API; those are left alone.
const referencePrefix = "onced-blob:1:"

// seal returns the reference as the record of id holds it. It is bound to the record by a code that is keyed with
// the cluster's secret: whoever can write records of one tenant cannot point them at another's blobs.
func (g *Gateway) seal(id onced.ID, r reference) string {
	text := referencePrefix + string(r.name) + ":" + strconv.FormatInt(r.length, 10) + ":" + base64.RawURLEncoding.EncodeToString(r.sum[:])
	return text + ":" + g.sealOf(id, text)
}

func (g *Gateway) sealOf(id onced.ID, text string) string {
	key := hmac.New(sha256.New, g.secret)
	key.Write([]byte("onced gateway blob v1"))
	mac := hmac.New(sha256.New, key.Sum(nil))
	for _, part := range []string{id.Tenant, id.Scope, string(id.Key), text} {
		mac.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// unseal is the inverse of seal, false for what is not ours or not of this record.
func (g *Gateway) unseal(id onced.ID, sealed string) (reference, bool) {
	cut := strings.LastIndexByte(sealed, ':')
	rest, ours := strings.CutPrefix(sealed, referencePrefix)
	if !ours || cut < len(referencePrefix) || !hmac.Equal([]byte(g.sealOf(id, sealed[:cut])), []byte(sealed[cut+1:])) {
		return reference{}, false
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 4 {
		return reference{}, false
	}
	name, err := blob.ParseName(parts[0])
	if err != nil {
		return reference{}, false
	}
	length, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || length < 0 {
		return reference{}, false
	}
	sum, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(sum) != sha256.Size {
		return reference{}, false
	}
	return reference{name: name, length: length, sum: [sha256.Size]byte(sum)}, true
}
