package testserver

import (
	"context"
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
	server   *server.Server
	listener *listener
	tasks    sync.WaitGroup
	cancel   context.CancelFunc
}

// newInstance starts an instance.
func (s *Server) newInstance() *instance {
	ctx, cancel := context.WithCancel(context.Background())
	i := &instance{listener: newListener(s.listener.Addr()), cancel: cancel}
	codec, err := object.CodecByName("object")
	if err != nil {
		panic(err) // does not happen: there is such a codec
	}
	cfg := server.Config{
		Writes: true, MaxValueBytes: maxValueBytes, MaxOperations: maxOperations, MaxTTL: maxTTL, Log: discard,
		Observers: s.refuser(),
	}
	for _, store := range s.store.collections {
		c := cacher.New(cacher.Config{Resource: store.name, Store: store, Codec: codec, Preencode: wire.Preencode, Log: discard})
		d := dispatch.New(feed.Config{Source: c, Encoder: wire.Encoder{}})
		cfg.Resources = append(cfg.Resources, backend.Resource{
			Name: store.name, Codec: codec, Cacher: c, Dispatcher: d, Store: store, Values: plaintext{},
		})
		i.tasks.Go(func() { c.Run(ctx) })
		i.tasks.Go(func() { d.Run(ctx) })
	}
	i.server = server.New(cfg)
	i.tasks.Go(func() { _ = i.server.Serve(i.listener) }) // it ends when the server stops
	return i
}

// stop stops the instance, and waits for its goroutines.
func (i *instance) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	i.server.Stop(ctx)
	i.cancel()
	i.tasks.Wait()
}

// refuser returns interceptors that answer requests with the error of [Server.Refuse].
func (s *Server) refuser() rpc.Observers {
	return rpc.Observers{
		Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := s.refusing.Load().Err(); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		},
		Stream: func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if err := s.refusing.Load().Err(); err != nil {
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
