package server

import (
	"context"
	"sync"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// drain ends the streams of a server that stops: watches first, each with its
// last position, then those of other services, such as health, which would
// otherwise stay for as long as their clients like.
type drain struct {
	watches    context.Context // done when watches have to end
	others     context.Context // done when all other streams have to end
	endWatches context.CancelFunc
	endOthers  context.CancelFunc

	mu     sync.Mutex
	begun  bool           // guarded by mu
	active sync.WaitGroup // watches; guarded by mu while begun is false
}

func newDrain() *drain {
	d := &drain{}
	d.watches, d.endWatches = context.WithCancel(context.Background())
	d.others, d.endOthers = context.WithCancel(context.Background())
	return d
}

// enter counts a watch, unless it comes too late. Who has entered must leave.
func (d *drain) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun {
		return false
	}
	d.active.Add(1)
	return true
}

func (d *drain) leave() { d.active.Done() }

// end ends all streams. It returns when the watches have ended; cutting off the
// connections ends those whose clients do not read.
func (d *drain) end() {
	d.mu.Lock()
	d.begun = true
	d.mu.Unlock()
	d.endWatches()
	d.active.Wait()
	d.endOthers()
}

// intercept gives streams of other services an end.
func (d *drain) intercept(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if info.FullMethod == fanoutv1.FanoutService_Watch_FullMethodName {
		return handler(srv, stream)
	}
	client := stream.Context()
	ctx, cancel := context.WithCancel(client)
	defer cancel()
	defer context.AfterFunc(d.others, cancel)()
	wrapped := middleware.WrapServerStream(stream)
	wrapped.WrappedContext = ctx
	err := handler(srv, wrapped)
	if err != nil && ctx.Err() != nil && client.Err() == nil {
		return errDraining // the client has not cancelled and is not to be told so
	}
	return err
}
