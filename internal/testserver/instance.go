package testserver

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// The limits of writes are the defaults of fanoutd.
const (
	maxValueBytes = 1 << 20
	maxOperations = 128
	maxTTL        = 30 * 24 * time.Hour
)

// instance is a running server over the store.
type instance struct {
	server                       *server.Server
	serving, caching             sync.WaitGroup
	dispatching                  sync.WaitGroup
	stopDispatching, stopCaching context.CancelFunc
}

// start starts an instance. If refusal returns an error, that is the answer to a request.
func start(names []string, collections []*collection, listener net.Listener, refusal func() error) *instance {
	i := &instance{}
	caching, stopCaching := context.WithCancel(context.Background())
	dispatching, stopDispatching := context.WithCancel(context.Background())
	i.stopDispatching, i.stopCaching = stopDispatching, stopCaching
	codec, err := object.CodecByName("object")
	if err != nil {
		panic(err) // does not happen: there is such a codec
	}
	cfg := server.Config{
		Writes: true, MaxValueBytes: maxValueBytes, MaxOperations: maxOperations, MaxTTL: maxTTL, Log: discard,
		Observers: refuser(refusal),
	}
	for n, name := range names {
		c := cacher.New(cacher.Config{Resource: name, Store: collections[n], Codec: codec, Preencode: wire.Preencode, Log: discard})
		d := dispatch.New(feed.Config{Source: c, Encoder: wire.Encoder{}})
		cfg.Resources = append(cfg.Resources, backend.Resource{
			Name: name, Codec: codec, Cacher: c, Dispatcher: d, Store: collections[n], Values: plaintext{},
		})
		i.caching.Go(func() { c.Run(caching) })
		i.dispatching.Go(func() { d.Run(dispatching) })
	}
	i.server = server.New(cfg)
	i.serving.Go(func() { _ = i.server.Serve(listener) }) // it ends when the server stops
	return i
}

// stop stops the instance, and waits for its goroutines.
func (i *instance) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	i.server.Stop(ctx)
	i.serving.Wait()
	i.stopDispatching()
	i.dispatching.Wait()
	i.stopCaching()
	i.caching.Wait()
}

// refuser returns interceptors that refuse requests.
func refuser(refusal func() error) rpc.Observers {
	return rpc.Observers{
		Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := refusal(); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		},
		Stream: func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if err := refusal(); err != nil {
				return err
			}
			return handler(srv, stream)
		},
	}
}

// plaintext says that values are not encrypted.
type plaintext struct{}

// Encrypts implements backend.Values.
func (plaintext) Encrypts() bool { return false }

// Primary implements backend.Values.
func (plaintext) Primary() uint32 { return 0 }
