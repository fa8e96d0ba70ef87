package httpapi

import (
	"net/http"

	"onced"
	"onced/internal/tokens"
)

// TenantHeader names the tenant that a caller acts for, where its credential leaves that open.
const TenantHeader = "Onced-Tenant"

// DefaultTenant is the tenant of a caller that names none and has no credential.
const DefaultTenant = "default"

// Role is what a caller may do.
type Role = tokens.Role

// The roles of contract §6.
const (
	RoleClient   = tokens.RoleClient
	RoleOperator = tokens.RoleOperator
	RoleGateway  = tokens.RoleGateway
)

// Caller is who makes a call.
type Caller struct {
	Name   string // for the audit line: the credential's name, never its secret
	Tenant string // onced.CheckTenant holds
	Role   Role
}

// Authority tells who makes a call.
type Authority interface {
	// Authenticate judges r by its head alone; it must not read the body.
	//
	// Problems: unauthenticated, forbidden (a tenant that the caller may not act for), invalid_request
	// (a tenant that is no name). Any other error refuses the call as unavailable.
	Authenticate(r *http.Request) (Caller, error)
}

// NoAuth takes everybody for an operator, of the tenant that the Onced-Tenant header names,
// else of DefaultTenant. It is for loopback and for networks where everybody is trusted.
type NoAuth struct{}

// Authenticate implements Authority.
func (NoAuth) Authenticate(r *http.Request) (Caller, error) {
	tenant, err := tenantOf(r)
	if err != nil {
		return Caller{}, err
	}
	if tenant == "" {
		tenant = DefaultTenant
	}
	return Caller{Name: "anonymous", Tenant: tenant, Role: RoleOperator}, nil
}

// tenantOf returns the tenant that the header names, "" where there is no such line. Two
// lines are never one tenant, and an empty one is a mistake, not the default.
func tenantOf(r *http.Request) (string, error) {
	switch lines := r.Header[TenantHeader]; len(lines) {
	case 0:
		return "", nil
	case 1:
		return lines[0], onced.CheckTenant(lines[0])
	default:
		return "", onced.Problemf(onced.CodeInvalidRequest, "there are %d %s lines: expected at most one", len(lines), TenantHeader)
	}
}

// authenticate asks the authority, after what holds for every authority, and whether the
// caller's role may make the call. Nothing has been looked at by then but the request's head.
func (a *api) authenticate(r *http.Request, v verb) (Caller, error) {
	if n := len(r.Header["Authorization"]); n > 1 {
		return Caller{}, onced.Problemf(onced.CodeUnauthenticated, "there are %d Authorization lines: expected at most one", n)
	}
	caller, err := a.Authority.Authenticate(r)
	switch {
	case err != nil:
		return Caller{}, err
	case v.operator && caller.Role != RoleOperator:
		return caller, onced.Problemf(onced.CodeForbidden, "this call is an operator's: these credentials have the role %q", caller.Role)
	case v.everyTenant && caller.Role == RoleClient:
		return caller, onced.Problemf(onced.CodeForbidden, "this tells of every tenant, which a client may not see: expected the role operator or gateway")
	}
	return caller, nil
}
