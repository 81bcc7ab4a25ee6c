package transport

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/fanoutd/fanoutd/internal/server/frames"
)

// The server notices within half a minute that a silent peer is gone, or sooner if data is on
// the way to it. Clients may send keepalive pings every ten seconds.
var (
	keepaliveParameters = keepalive.ServerParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}
	keepaliveLimits     = keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}
)

// WriteBufferSize is how much is collected for one write to a socket. Without a buffer, large
// messages cost two to six times as much; with 16 KiB, a sixth more. With 32 KiB, an event of
// about 300 bytes for a hundred watches of a connection leaves in two writes. With 64 KiB, the
// data falls out of the nearest caches, and each connection that writes has such a buffer.
const WriteBufferSize = 40 << 10

const (
	// ConnectionTimeout is how long the handshake of a connection may take.
	ConnectionTimeout = 10 * time.Second

	// leastConnectionAge is the least MaxConnectionAge: connecting more often costs too much,
	// even if watches last no longer.
	leastConnectionAge = time.Minute

	// maxHeaderBytes is the size of the headers of a request, with 32 bytes for each header
	// besides its name and value. A token of a few KiB fits. The default of gRPC, 16 MiB, is
	// far more than any client needs.
	maxHeaderBytes = 64 << 10

	// connectionWindowBytes is the window of a connection. It does not limit memory: gRPC
	// reads from a connection what the windows of its streams allow.
	connectionWindowBytes = 1 << 20
)

// ServerOptions returns the options of gRPC for all connections. Requests may have up to
// requestBytes.
func ServerOptions(tls *tls.Config, requestBytes int, budgets StreamBudgets, failed HandshakeFailed) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(newCredentials(tls, budgets, failed)),
		grpc.WriteBufferSize(WriteBufferSize),
		grpc.ReadBufferSize(0), // frames.Conn reads ahead
		grpc.KeepaliveEnforcementPolicy(keepaliveLimits),
		grpc.ConnectionTimeout(ConnectionTimeout),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxRecvMsgSize(2 * requestBytes),
		grpc.StaticStreamWindowSize(frames.WindowBytes),
		grpc.StaticConnWindowSize(connectionWindowBytes),
	}
}

// ConnectionOptions returns the options of gRPC for connections from outside. Each carries up
// to so many streams; 0 means no limit. The server ends a connection gracefully when it is as
// old as a watch may get: its requests finish, and the client opens another one, perhaps to a
// new server. No connection gets older than oldest, unless that is zero.
func ConnectionOptions(streams int, watchTimeLimit, oldest time.Duration) []grpc.ServerOption {
	parameters := keepaliveParameters
	if watchTimeLimit > 0 {
		parameters.MaxConnectionAge = max(watchTimeLimit, leastConnectionAge)
	}
	if oldest > 0 && (watchTimeLimit == 0 || parameters.MaxConnectionAge > oldest) {
		parameters.MaxConnectionAge = oldest
	}
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(parameters),
	}
	if streams > 0 {
		options = append(options, grpc.MaxConcurrentStreams(uint32(streams)))
	}
	return options
}
