package transport

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/fanoutd/fanoutd/internal/server/frames"
)

// Keepalive: a peer that is gone without a word is noticed within half a minute, or
// sooner if something is on its way to it, and clients may ask as often as every ten seconds whether we are there.
var (
	keepaliveParameters = keepalive.ServerParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}
	keepaliveLimits     = keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}
)

// WriteBufferSize is how much is collected for one write to a socket. Large messages cost
// two to six times as much with no buffer, and a sixth more with 16 KiB. With 32 KiB an
// event of some 300 bytes leaves in two pieces for a hundred watches on a connection, and
// with 64 KiB what is collected falls out of the nearest caches; besides, connections that
// write at the same time have a buffer each.
const WriteBufferSize = 40 << 10

const (
	// ConnectionTimeout is how long a client may take to say its first words.
	ConnectionTimeout = 10 * time.Second

	// leastConnectionAge is for those who let watches last for no longer than
	// connecting again is worth.
	leastConnectionAge = time.Minute

	// maxHeaderBytes is how large the headers of a request may be, with 32 bytes
	// for each besides its name and value. A token of a few KiB has room; gRPC's own
	// limit of 16 MiB is that of no client.
	maxHeaderBytes = 64 << 10

	// connectionWindowBytes is how much may be on its way on a connection. It limits no
	// memory: gRPC takes from the connection what a stream has room for.
	connectionWindowBytes = 1 << 20
)

// options are what gRPC itself limits on all connections.
func ServerOptions(tls *tls.Config, requestBytes int) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(newCredentials(tls)),
		grpc.WriteBufferSize(WriteBufferSize),
		grpc.ReadBufferSize(0), // framed reads ahead
		grpc.KeepaliveEnforcementPolicy(keepaliveLimits),
		grpc.ConnectionTimeout(ConnectionTimeout),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxRecvMsgSize(2 * requestBytes),
		grpc.StaticStreamWindowSize(frames.WindowBytes),
		grpc.StaticConnWindowSize(connectionWindowBytes),
	}
}

// connectionOptions are what gRPC limits besides on the connections of clients. One is
// told to end when it is as old as a watch may get: what goes on on it is finished, and
// the client makes another one, perhaps to a server that was not there before.
//
// In any case it gets no older than oldest; zero: as old as it likes.
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
