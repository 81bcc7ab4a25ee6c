package quota

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/metadata"

	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// gatewayReservations hold the room of responses that go to others within the process. gRPC has sent
// such a response when it is there; but there it is held as a message and as JSON until
// its reader has taken it, who may never do so.
type gatewayReservations struct {
	latest atomic.Uint64
	open   sync.Map // of *tab, by id
}

// gatewayReservation is the room of one response.
type gatewayReservation struct {
	mu          sync.Mutex
	reservation *Reservation // guarded by mu; nil: none yet
	closed      bool         // guarded by mu: nobody holds the response any more
}

// GatewayHeader has the id of the tab of a request. It means something on connections within
// the process only.
const GatewayHeader = "fanoutd-tab"

// gatewayCopies is how often a response is there, at most, that has a tab.
const gatewayCopies = 2

// begin opens a tab for a request, which is closed when its context is done, and returns
// the context to make it with.
func (t *gatewayReservations) begin(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx // nobody would close it
	}
	one, id := &gatewayReservation{}, strconv.FormatUint(t.latest.Add(1), 10)
	t.open.Store(id, one)
	context.AfterFunc(ctx, func() {
		t.open.Delete(id)
		one.put(nil)
	})
	return metadata.AppendToOutgoingContext(ctx, GatewayHeader, id)
}

// of returns the tab of a request that is being served, or nil.
func (t *gatewayReservations) of(ctx context.Context) *gatewayReservation {
	if !transport.IsLocal(ctx) {
		return nil
	}
	one, _ := t.open.Load(transport.Header(ctx, GatewayHeader))
	found, _ := one.(*gatewayReservation)
	return found
}

// put has the tab give the room back when it is closed; nil closes it.
func (t *gatewayReservation) put(room *Reservation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room != nil {
		t.reservation = room
	} else {
		t.closed = true
	}
	if t.closed {
		t.reservation.Release()
	}
}
