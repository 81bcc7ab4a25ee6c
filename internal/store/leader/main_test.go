package leader_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/test/etcdproc"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		etcdproc.Clean()
		os.Exit(code)
	}))
}
