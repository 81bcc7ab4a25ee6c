package robustness

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/test/program"
)

var (
	fanoutd = program.Program{Folder: "cmd/fanoutd"}
	etcd    = program.Program{Folder: "test/etcd"}
	etcd36  = program.Program{Folder: "test/etcd36"}
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		fanoutd.Clean()
		etcd.Clean()
		etcd36.Clean()
		os.Exit(code)
	}))
}
