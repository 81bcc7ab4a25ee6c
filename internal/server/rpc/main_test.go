package rpc

import (
	"testing"

	"go.uber.org/goleak"
)

// The library that rotates the audit log starts one goroutine for each file that it opens,
// and never ends it. The process opens one file.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}
