package admin_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/internal/admin"
)

var channelzError error

// Channelz is off until it is enabled. It depends on a variable of grpc-go that is not
// exported.
func TestGRPCChannelzIsOffUntilItIsEnabled(t *testing.T) {
	if channelzError != nil {
		t.Error(channelzError)
	}
}

// The library that rotates the audit log starts a goroutine per opened file and never ends
// it. A process opens one file.
//
// Channelz is a state of the whole process that must be set before there are connections.
func TestMain(m *testing.M) {
	channelzError = admin.CheckChannelz()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}
