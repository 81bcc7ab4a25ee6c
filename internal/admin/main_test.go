package admin_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The library that rotates the audit log has one goroutine for each file that it has
// opened, and does not end it. The process opens one.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}
