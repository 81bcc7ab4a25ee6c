package robustness

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/test/program"
)

var (
	fanoutd = program.Program{Package: "./cmd/fanoutd"}
	etcd    = program.Program{Package: "./test/etcd"}
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		fanoutd.Clean()
		etcd.Clean()
		os.Exit(code)
	}))
}
