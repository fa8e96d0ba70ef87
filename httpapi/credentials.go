package httpapi

import (
	"net/http"
	"strings"
	"sync/atomic"

	"onced"
	"onced/internal/tokens"
)

// Credentials is the Authority of a tokens file. A caller shows a token; its tenant and its
// role are the file's. It may be used by many at once.
type Credentials struct {
	table atomic.Pointer[tokens.Table]
}

// NewCredentials returns an Authority by table.
func NewCredentials(table *tokens.Table) *Credentials {
	c := &Credentials{}
	c.Use(table)
	return c
}

// Use puts table in force: a token that it does not have is refused from the next call on.
func (c *Credentials) Use(table *tokens.Table) { c.table.Store(table) }

// Len is how many tokens are in force.
func (c *Credentials) Len() int { return c.table.Load().Len() }

// Authenticate implements Authority. A token that was never known, one that was revoked and one that is
// cut short are all the same to it.
func (c *Credentials) Authenticate(r *http.Request) (Caller, error) {
	token, ok := bearer(r.Header)
	if !ok {
		return Caller{}, onced.Problemf(onced.CodeUnauthenticated, "there are no credentials: expected one line Authorization: Bearer TOKEN")
	}
	who, ok := c.table.Load().Lookup(token)
	if !ok {
		return Caller{}, onced.Problemf(onced.CodeUnauthenticated, "these credentials are not known")
	}
	tenant, err := tenantOf(r)
	if err != nil {
		return Caller{}, err
	}
	switch {
	case tenant == "":
		tenant = who.Tenant
	case tenant != who.Tenant && who.Role != RoleGateway:
		return Caller{}, onced.Problemf(onced.CodeForbidden, "these credentials are not of the tenant in %s: expected their own tenant, or no such line; only the role gateway acts for others", TenantHeader)
	}
	return Caller{Name: who.Name, Tenant: tenant, Role: who.Role}, nil
}

// bearer returns the token of the one Authorization line (RFC 6750), whose scheme is in any case.
func bearer(h http.Header) (string, bool) {
	lines := h["Authorization"]
	if len(lines) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	token = strings.Trim(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}
