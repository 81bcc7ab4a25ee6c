package clients

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/fanoutdproc"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		fanoutdproc.Clean()
		etcdproc.Clean()
		os.Exit(code)
	}))
}
