package testserver

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

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
		Observers: rpc.Observers{Calls: func(*grpc.StreamServerInfo) rpc.CallObserver { return refuser{s} }},
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

// refuser answers requests with the error of [Server.Refuse].
type refuser struct{ *Server }

// Begin implements [rpc.CallObserver].
func (r refuser) Begin() error { return r.refusing.Load().Err() }

// Received implements [rpc.CallObserver].
func (refuser) Received() {}

// Sent implements [rpc.CallObserver].
func (refuser) Sent() {}

// End implements [rpc.CallObserver].
func (refuser) End(codes.Code, time.Duration) {}

// plaintext says that values are not encrypted.
type plaintext struct{}

// Encrypts implements backend.Values.
func (plaintext) Encrypts() bool { return false }

// Primary implements backend.Values.
func (plaintext) Primary() uint32 { return 0 }
