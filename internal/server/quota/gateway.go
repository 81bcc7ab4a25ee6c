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

// gateway knows the requests of the gateway for which the memory of responses stays reserved. For
// other clients the memory is free when gRPC has sent a response. The gateway then still holds it,
// as a message and as JSON, until its own client has read it, which may be never.
type gateway struct {
	latest atomic.Uint64
	open   sync.Map // of context.Context, by id; it is done when the client has its response
}

// GatewayHeader has the id of a request. It has a meaning only on connections within the process.
const GatewayHeader = "fanoutd-reservation"

// gatewayCopies is how many copies of a response the gateway holds at most.
const gatewayCopies = 2

// BeginGateway returns the context with which the gateway makes a request. The memory of
// the response stays reserved until the gateway has answered, see [access.Behalf].
func (l *Limiter) BeginGateway(ctx context.Context) context.Context {
	answered := access.BehalfOf(ctx).Answered
	if answered == nil {
		answered = ctx
	}
	if answered.Done() == nil {
		return ctx // the memory would never be released
	}
	id := strconv.FormatUint(l.gateway.latest.Add(1), 10)
	l.gateway.open.Store(id, answered)
	context.AfterFunc(answered, func() { l.gateway.open.Delete(id) })
	return metadata.AppendToOutgoingContext(ctx, GatewayHeader, id)
}

// answered returns a context that is done when the gateway holds the response to a request no longer.
// It returns nil for requests of other clients.
func (g *gateway) answered(ctx context.Context) context.Context {
	if !transport.IsLocal(ctx) {
		return nil
	}
	found, _ := g.open.Load(transport.Header(ctx, GatewayHeader))
	answered, _ := found.(context.Context)
	return answered
}
