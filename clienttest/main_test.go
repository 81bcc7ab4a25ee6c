package clienttest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a server or a client leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
