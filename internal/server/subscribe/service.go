package subscribe

import (
	"sync"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/work"
)

// Service serves the Subscribe method.
type Service struct {
	registry   *registry.Registry
	resourceOf map[*dispatch.Dispatcher]*backend.Resource
	ended      endedCounts
	readers    sync.WaitGroup
}

// New returns a service. The caller must stop it.
func New(watches *registry.Registry, resources backend.Resources) *Service {
	s := &Service{registry: watches, resourceOf: map[*dispatch.Dispatcher]*backend.Resource{}}
	for _, r := range resources {
		if r.Dispatcher != nil {
			s.resourceOf[r.Dispatcher] = r
		}
	}
	return s
}

// Stop waits for the goroutines of the streams. Call it after all handlers have returned.
func (s *Service) Stop() { s.readers.Wait() }

const fullMethod = fanoutv1.FanoutService_Subscribe_FullMethodName

// method describes the method to the interceptors. They see one request, the first: later ones
// are small, so no memory is reserved for them.
var method = &grpc.StreamServerInfo{FullMethod: fullMethod, IsServerStream: true}

// Handler returns the handler of the Subscribe method. Like that of Watch, it uses only the
// interceptor [rpc.Interceptors.AdmitRequest], and only around stream.accept.
func (s *Service) Handler() grpc.StreamHandler {
	accept := func(st any, requests grpc.ServerStream) error { return st.(*stream).accept(requests) }
	return func(_ any, rpcStream grpc.ServerStream) error {
		st := newStream(s, rpcStream)
		err := work.OnFreshStack(func() error {
			return s.registry.Interceptors.AdmitRequest(st, rpcStream, method, accept)
		})
		if err == nil {
			err = st.serve()
		}
		return st.finish(err)
	}
}
