package tokens

import "fmt"

// Role is what a credential may do.
type Role string

// The roles of contract §6.
const (
	RoleClient   Role = "client"   // every call on its tenant's keys
	RoleOperator Role = "operator" // also resolve, DELETE, and what concerns the whole cluster
	RoleGateway  Role = "gateway"  // as a client, for any tenant
)

// ParseRole returns the role that name is. Its error says what is expected.
func ParseRole(name string) (Role, error) {
	switch r := Role(name); r {
	case RoleClient, RoleOperator, RoleGateway:
		return r, nil
	}
	return "", fmt.Errorf("%.40q is no role: expected client, operator or gateway", name)
}
