package observability

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/test/etcdproc"
)

func TestMain(m *testing.M) {
	// The library that rotates the audit log leaves one goroutine for each log.
	rotation := goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun")
	goleak.VerifyTestMain(m, rotation, goleak.Cleanup(func(code int) {
		etcdproc.Clean()
		os.Exit(code)
	}))
}
