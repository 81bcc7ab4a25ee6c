package quota

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/metadata"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// gatewayReservations keep the memory of responses to the gateway reserved. For other
// clients the memory is free when gRPC has sent a response. The gateway then still holds it,
// as a message and as JSON, until its own client has read it, which may be never.
type gatewayReservations struct {
	latest atomic.Uint64
	open   sync.Map // of *gatewayReservation, by id
}

// gatewayReservation is the memory of the response to one request.
type gatewayReservation struct {
	mu     sync.Mutex
	memory *Reservation // guarded by mu; nil: none yet
	closed bool         // guarded by mu: the request has ended
}

// GatewayHeader has the id of the reservation of a request. It has a meaning only on
// connections within the process.
const GatewayHeader = "fanoutd-reservation"

// gatewayCopies is how many copies of a response the gateway holds at most.
const gatewayCopies = 2

// begin returns the context for a request of the gateway. Its reservation is closed when
// the gateway holds the response no longer.
func (g *gatewayReservations) begin(ctx context.Context) context.Context {
	answered := access.BehalfOf(ctx).Answered
	if answered == nil {
		answered = ctx
	}
	if answered.Done() == nil {
		return ctx // the reservation would never be closed
	}
	r, id := &gatewayReservation{}, strconv.FormatUint(g.latest.Add(1), 10)
	g.open.Store(id, r)
	context.AfterFunc(answered, func() {
		g.open.Delete(id)
		r.close()
	})
	return metadata.AppendToOutgoingContext(ctx, GatewayHeader, id)
}

// of returns the reservation of a request that is being served, or nil.
func (g *gatewayReservations) of(ctx context.Context) *gatewayReservation {
	if !transport.IsLocal(ctx) {
		return nil
	}
	found, _ := g.open.Load(transport.Header(ctx, GatewayHeader))
	r, _ := found.(*gatewayReservation)
	return r
}

// put makes the reservation release the memory when it is closed.
func (r *gatewayReservation) put(memory *Reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory = memory; r.closed {
		memory.Release()
	}
}

func (r *gatewayReservation) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.memory.Release()
}
