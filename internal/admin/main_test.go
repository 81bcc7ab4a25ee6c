package admin_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The library that rotates the audit log starts a goroutine per opened file and never ends
// it. A process opens one file.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}
