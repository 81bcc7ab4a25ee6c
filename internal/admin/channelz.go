package admin

import (
	"sync/atomic"
	_ "unsafe" // for go:linkname

	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/reflection"
)

// channelzState is 1 while gRPC collects data for channelz. grpc-go has no public way to
// change it: importing the service turns it on for the whole process. A test checks that
// the variable still has its effect.
//
//go:linkname channelzState google.golang.org/grpc/internal/channelz.curState
var channelzState int32

// Collecting the data costs 8 to 10 % of the delivery of a message, so it is off unless
// EnableChannelz turns it on. The service's package has been initialized before this one.
func init() { atomic.StoreInt32(&channelzState, 0) }

// EnableChannelz makes gRPC collect data for channelz, in the whole process and for good. It
// must be called before the process has any gRPC connection: gRPC panics when one that was
// made earlier connects again.
func EnableChannelz() { atomic.StoreInt32(&channelzState, 1) }

// newGRPC returns a gRPC server with reflection and, if on is set, the channelz service,
// which shows the connections and streams of this process. It is a server of its own, not
// a service of the protocol, because a client that may read objects must not see the
// addresses of all others. It serves only requests of this listener, so it has no limits
// of its own.
func newGRPC(on bool) *grpc.Server {
	s := grpc.NewServer()
	if on {
		channelz.RegisterChannelzServiceToServer(s)
	}
	reflection.Register(s)
	return s
}
