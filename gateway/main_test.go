package gateway

import (
	"testing"

	"go.uber.org/goleak"
)

// Every operation, renewal and late completion ends.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
