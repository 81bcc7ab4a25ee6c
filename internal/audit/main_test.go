package audit

import (
	"testing"

	"go.uber.org/goleak"
)

// The rotation library starts one goroutine per opened file and never ends it. The server
// opens only one file.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}
