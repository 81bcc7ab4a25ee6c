package embedded

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/leader"
)

// clientRequests ends the requests of etcd's own clients when an embedded etcd stops.
//
// Without it, etcd would wait up to 7 s for open requests, regardless of the grace period
// of the server. It stops its gRPC servers gracefully, but a watch never ends on its own.
type clientRequests struct {
	stopping context.Context // done once the store begins to close
	stop     context.CancelFunc

	mu      sync.Mutex
	servers []*grpc.Server // guarded by mu: those that serve etcd's API
}

// trackClientRequests hooks into the gRPC servers that an embedded etcd will start. Admit
// allows a write of so many bytes; a write that only deletes has 0 bytes.
func trackClientRequests(cfg *embed.Config, admit func(bytes int64) error) *clientRequests {
	r := &clientRequests{}
	cfg.GRPCAdditionalServerOptions = append(cfg.GRPCAdditionalServerOptions, grpc.ChainUnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if bytes, writes := requestBytes(req); writes {
				if err := admit(bytes); err != nil {
					return nil, refusal(err)
				}
			}
			return handler(ctx, req)
		}))
	r.stopping, r.stop = context.WithCancel(context.Background())
	cfg.GRPCAdditionalServerOptions = append(cfg.GRPCAdditionalServerOptions, grpc.ChainStreamInterceptor(r.intercept))
	cfg.ServiceRegister = func(server *grpc.Server) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.servers = append(r.servers, server)
	}
	return r
}

// refusal returns the status of a write that is not admitted.
func refusal(err error) error {
	if forming, ok := errors.AsType[*object.FormingError](err); ok {
		return leader.Forming(forming.Error())
	}
	return rpctypes.ErrGRPCNoSpace
}

// requestBytes returns how much the puts of a request add to the database, and whether the
// request writes.
func requestBytes(req any) (bytes int64, writes bool) {
	switch r := req.(type) {
	case *etcdserverpb.PutRequest:
		return int64(proto.Size(r)) + recordOverhead, true
	case *etcdserverpb.DeleteRangeRequest:
		return 0, true
	case *etcdserverpb.TxnRequest:
		for _, op := range slices.Concat(r.GetSuccess(), r.GetFailure()) {
			if op.GetRequestPut() != nil || op.GetRequestTxn() != nil {
				return int64(proto.Size(r)) + recordOverhead*int64(len(r.GetSuccess())+len(r.GetFailure())), true
			}
			writes = writes || op.GetRequestDeleteRange() != nil
		}
	}
	return 0, writes
}

// finish ends watches and lease keep-alives now, and all other requests when ctx is
// done. The caller calls release after etcd has stopped.
func (r *clientRequests) finish(ctx context.Context) (release func() bool) {
	r.stop()
	return context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, server := range r.servers {
			server.Stop()
		}
	})
}

// intercept ends a stream once the store begins to close. Clients get the status with
// which they try another member. A snapshot is exempt because it ends on its own.
func (r *clientRequests) intercept(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if info.FullMethod == etcdserverpb.Maintenance_Snapshot_FullMethodName {
		return handler(srv, stream)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(r.stopping, cancel)()
	err := handler(srv, &streamWithContext{stream, ctx})
	if ctx.Err() != nil && stream.Context().Err() == nil {
		return rpctypes.ErrGRPCStopped
	}
	return err
}

// streamWithContext is a stream with another context.
type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements [grpc.ServerStream].
func (s *streamWithContext) Context() context.Context { return s.ctx }
