package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// attack describes hostile clients on one host or on several.
type attack struct {
	Kind    kind
	Address string // of the server
	Size    int    // number of streams or connections
	Streams int    // that each connection opens at once; only for such attacks
	Stale   bool   // these streams do not wait for etcd
	Hosts   int

	begun, refused atomic.Int64
	conns          []io.Closer // open until the end

	// What the attack waits for before it ends: connections with streams that the server has neither
	// begun nor ended, or the first connection that the server closes because of resets.
	unanswered sync.WaitGroup
	calmed     func() // only for resets: a connection was closed

	// Closed when the attack is over. Clients that have not read until then may read what the server
	// has answered.
	over chan struct{}

	// Only for watches that are opened at once.
	accepted atomic.Int64 // streams that the server has begun and not ended

	mu     sync.Mutex
	limits map[string]int // guarded by mu: refused streams by the limit that the status names, or by another reason
}

// result is what has become of the streams or connections of an attack.
type result struct {
	Begun, Refused int
	Accepted       int            // see attack
	Limits         map[string]int // see attack
}

type kind string

// The kinds of attacks.
const (
	neverRead  kind = "watches of everything that are never read"
	pickNone   kind = "watches with giant selectors that pick nothing"
	pickAll    kind = "watches with giant selectors that pick everything"
	wantAll    kind = "watches of everything that take it"
	sayLittle  kind = "connections that say little"
	comeAndGo  kind = "clients that connect and leave"
	beginAndGo kind = "watches that begin and end"
	readAlways kind = "clients that read as fast as they can"
)

// loops is the number of clients that connect and leave in parallel.
const loops = 4

// start starts the attack, and returns when all lasting streams and connections are open.
// Clients that connect and leave do so until ctx ends.
func (a *attack) start(ctx context.Context, group *sync.WaitGroup) error {
	switch a.Kind {
	case neverRead:
		return a.watch(ctx, func(int) string { return "" })
	case pickNone:
		return a.watch(ctx, func(i int) string { return giant(i, "z") })
	case pickAll:
		return a.watch(ctx, func(i int) string { return giant(i, "!z") })
	case wantAll:
		return a.watch(ctx, func(int) string { return "" })
	case sayLittle:
		return a.connect(ctx)
	case subscribeNeverRead, subscribeWantAll:
		return a.subscribeMany(ctx, group)
	case subscribeInSilence:
		return a.subscribeSilently(ctx, group)
	case readAlways:
		for i := range a.Size {
			group.Go(func() { a.readAgain(ctx, i) })
		}
		return nil
	case resetGRPC, resetHTTP:
		a.untilCalmed(ctx, group, a.reset)
		return nil
	case restartAlways:
		a.untilCalmed(ctx, group, a.restart)
		return nil
	case startSnapshots, startFromNow:
		a.countingLimits(ctx, group, a.startAtOnce)
		return nil
	case openSnapshots, openFromNow:
		a.countingLimits(ctx, group, a.openAtOnce)
		return nil
	}
	for i := range loops {
		group.Go(func() {
			switch a.Kind {
			case comeAndGo:
				a.comeAndGo(ctx, i)
			case beginAndGo:
				a.beginAndGo(ctx, i)
			default:
				a.subscribeAgain(ctx, i)
			}
		})
	}
	return nil
}

// untilCalmed runs all clients of the attack. It counts as unanswered until the server has calmed one
// of them: on a busy machine, it takes a while until the server has counted enough.
func (a *attack) untilCalmed(ctx context.Context, group *sync.WaitGroup, client func(context.Context, int)) {
	a.unanswered.Add(1)
	a.calmed = sync.OnceFunc(a.unanswered.Done)
	for i := range a.Size {
		group.Go(func() {
			defer a.calmed()
			client(ctx, i)
		})
	}
}

// countingLimits runs all clients of the attack, and counts the limits that refuse them.
func (a *attack) countingLimits(ctx context.Context, group *sync.WaitGroup, client func(context.Context, int)) {
	a.limits = map[string]int{}
	a.unanswered.Add(a.Size)
	for i := range a.Size {
		group.Go(func() { client(ctx, i) })
	}
}

// ended writes to the log of the test why a client cannot go on, unless ctx has ended.
func (a *attack) ended(ctx context.Context, err error) {
	if ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", a.Kind, err)
	}
}

// dial connects from one of the attackers' hosts.
func (a *attack) dial(i int) *grpc.ClientConn {
	// Use the smallest flow control windows that gRPC allows.
	const window = 64 << 10
	conn, err := grpc.NewClient(a.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return a.from(i).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		panic(err) // the options are wrong
	}
	return conn
}

func (a *attack) from(i int) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, byte(1+i%a.Hosts))}}
}

// perConnection is the number of streams per connection.
const perConnection = 100

// watch opens watches, and reads only until they have begun.
func (a *attack) watch(ctx context.Context, selector func(i int) string) error {
	for i := range a.Size / perConnection {
		conn := a.dial(i)
		a.conns = append(a.conns, conn)
		reads := fanoutv1.NewFanoutServiceClient(conn)
		var streams []fanoutv1.FanoutService_WatchClient
		for j := range perConnection {
			req := &fanoutv1.WatchRequest{Resource: resource, LabelSelector: selector(i*perConnection + j)}
			if a.Kind != neverRead {
				req.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}
			}
			stream, err := reads.Watch(ctx, req)
			if err != nil {
				return err
			}
			a.begun.Add(1)
			streams = append(streams, stream)
		}
		for _, stream := range streams {
			if h, err := stream.Header(); err != nil || h == nil {
				a.refused.Add(1)
			}
		}
	}
	return nil
}

// giant returns one of the largest allowed selectors, different for each i. Only its last
// requirement decides what it matches.
func giant(i int, last string) string {
	var all []string
	for n := range selector.MaxRequirements - 1 {
		all = append(all, fmt.Sprintf("a%d!=%d", n, i))
	}
	return strings.Join(append(all, last), ",")
}

// comeAndGo connects, starts to watch and leaves, again and again.
func (a *attack) comeAndGo(ctx context.Context, i int) {
	for ; ctx.Err() == nil; i += loops {
		conn := a.dial(i)
		a.begin(ctx, conn)
		_ = conn.Close()
	}
}

// beginAndGo starts and leaves watches on one connection, again and again.
func (a *attack) beginAndGo(ctx context.Context, i int) {
	conn := a.dial(i)
	for ctx.Err() == nil {
		a.begin(ctx, conn)
	}
	_ = conn.Close()
}

func (a *attack) begin(ctx context.Context, conn *grpc.ClientConn) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stream, err := fanoutv1.NewFanoutServiceClient(conn).Watch(ctx, &fanoutv1.WatchRequest{Resource: resource})
	if err == nil {
		_, err = stream.Recv()
	}
	if ctx.Err() != nil {
		return
	}
	if a.begun.Add(1); err != nil {
		a.refused.Add(1)
	}
}

// readAgain reads an object on one connection, again and again.
func (a *attack) readAgain(ctx context.Context, i int) {
	conn := a.dial(i)
	reads := fanoutv1.NewFanoutServiceClient(conn)
	for ctx.Err() == nil {
		_, err := reads.Get(ctx, &fanoutv1.GetRequest{
			Resource: resource, Key: "first", Consistency: &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}},
		}, grpc.WaitForReady(true))
		if a.begun.Add(1); err != nil && ctx.Err() == nil {
			a.refused.Add(1)
		}
	}
	_ = conn.Close()
}

// connect opens connections that send nothing, only the HTTP/2 preface, or an incomplete
// request.
func (a *attack) connect(ctx context.Context) error {
	for i := range a.Size {
		conn, err := a.from(i).DialContext(ctx, "tcp", a.Address)
		if err != nil {
			return err
		}
		a.begun.Add(1)
		a.conns = append(a.conns, conn)
		if i%3 == 0 {
			continue
		}
		_, err = io.WriteString(conn, http2.ClientPreface)
		if err == nil {
			framer := http2.NewFramer(conn, conn)
			if err = framer.WriteSettings(); err == nil && i%3 == 2 {
				// The header block is incomplete and not decodable.
				err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x83}})
			}
		}
		if err != nil {
			a.refused.Add(1)
		}
	}
	return nil
}
