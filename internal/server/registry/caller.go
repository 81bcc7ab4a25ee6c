package registry

import (
	"context"
	"sync/atomic"
	"unique"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// Caller is who has made an RPC with watches, and how.
type Caller struct {
	Conn            *frames.Conn // nil: within the process
	Peer, UserAgent string
	Identity        *access.Identity
	Pass            *access.Pass // of the credentials that the RPC began with

	starts   *starts
	registry *Registry // nil: not registered
	number   uint64    // of the RPC
	name     atomic.Pointer[SubscriberName]
	timers   timers // that end the RPC
}

// starts is what it takes to admit the watches of an RPC.
type starts struct {
	client quota.Client // whom limits apply to
	many   bool         // the RPC may start any number of watches
	pace   frames.Starts
	latest *Parsed // of the latest start, if there may be many. Only the goroutine that reads the requests uses it
}

// Init sets the caller of the RPC with the context of its handler. The argument many reports
// whether the RPC may start any number of watches. Each of them then counts like an RPC.
func (c *Caller) Init(ctx context.Context, many bool) {
	c.Conn, c.Identity, c.Pass = transport.FramesOf(ctx), &rpc.CallOf(ctx).Identity, rpc.PassOf(ctx)
	c.Peer, c.UserAgent = transport.CallerOf(ctx)
	c.starts = &starts{client: quota.ClientOf(ctx), many: many, pace: c.Conn.Starts()}
}

// Client returns whom limits apply to.
func (c *Caller) Client() quota.Client { return c.starts.client }

// Number returns the number of the RPC, or 0 if it is not registered.
func (c *Caller) Number() uint64 { return c.number }

// Token returns the token with which the client names the watch of an RPC in reports.
func (c *Caller) Token() string { return c.registry.tokens.of(c.number) }

// HasOpened reports whether the caller with an identity has made the RPC. Callers with the same name
// are the same, however they have shown it, and all anonymous callers are the same.
func (c *Caller) HasOpened(identity access.Identity) bool {
	return c.Identity.Name == identity.Name && c.Identity.Anonymous() == identity.Anonymous()
}

// SetName sets the name of the client's program.
func (c *Caller) SetName(s *fanoutv1.Subscriber) {
	if name := nameOf(s); name != (SubscriberName{}) {
		c.name.Store(&name)
	}
}

// Name returns the name of the client's program. The watches of an RPC share it.
func (c *Caller) Name() SubscriberName {
	if name := c.name.Load(); name != nil {
		return *name
	}
	return SubscriberName{}
}

// goAway makes the client use another connection for its next requests.
func (c *Caller) goAway() {
	if c.Conn != nil {
		c.Conn.GoAway()
	}
}

// AwaitTurn waits until a start may begin, like a new stream of the connection. Only ctx ends the wait
// early.
func (c *Caller) AwaitTurn(ctx context.Context) error {
	c.starts.pace.Await(ctx.Done())
	return ctx.Err()
}

// SubscriberName is an encoded Subscriber. Watches with equal names share one copy in memory.
// The zero value is no name.
type SubscriberName struct{ encoded unique.Handle[string] }

// nameOf returns the name of a subscriber. It leaves out unknown fields.
func nameOf(s *fanoutv1.Subscriber) SubscriberName {
	if s.GetInstance() == "" && len(s.GetLabels()) == 0 {
		return SubscriberName{}
	}
	return SubscriberName{encodeOnce(&fanoutv1.Subscriber{Instance: s.GetInstance(), Labels: s.GetLabels()})}
}

// encodeOnce returns an encoded message. Equal messages share one copy in memory.
func encodeOnce(m proto.Message) unique.Handle[string] {
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m) // cannot fail: it was a part of a request
	return unique.Make(string(b))
}

// Subscriber returns the name as a message, or nil if there is none.
func (n SubscriberName) Subscriber() *fanoutv1.Subscriber {
	if n == (SubscriberName{}) {
		return nil
	}
	s := &fanoutv1.Subscriber{}
	_ = proto.Unmarshal([]byte(n.encoded.Value()), s) // nameOf has marshalled it
	return s
}
