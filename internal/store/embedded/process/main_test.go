package process

import (
	"testing"

	"go.uber.org/goleak"
)

// What etcd reports as fatal never returns.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/fanoutd/fanoutd/internal/store/embedded/process.(*FatalErrors).OnWrite"))
}
