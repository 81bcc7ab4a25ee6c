package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// Limits bound what clients may take. A client is who it has shown to be or else the
// host that it asks from. Zero is no limit, except where something else is said.
type Limits struct {
	// Watchers is how many watches there may be at once, and WatchersPerClient how
	// many of them may be those of one client.
	Watchers, WatchersPerClient int

	// Selectors is how many different selectors watches may have that are looked at
	// with each change of their scope, and SelectorsPerClient how many of them one
	// client may have. Those of one requirement that an index answers do not count.
	Selectors, SelectorsPerClient int

	// Snapshots is how many catch-ups of kind RESET or DELTA are sent at once. The
	// others wait for their turn.
	Snapshots int

	// ListBytes is how much the responses of lists may hold that have not been
	// sent yet. Who finds no room waits.
	ListBytes int64

	// RequestBytes is the size of the largest request. Zero: 4 MiB.
	RequestBytes int

	// RequestMemory is how many bytes of requests may be on their way that are not
	// there at once. Who finds no room waits.
	RequestMemory int64

	// StreamsPerConnection is how many requests and watches one connection carries
	// at once.
	StreamsPerConnection int

	// Connections is how many connections there may be at once, and
	// ConnectionsPerClient how many of them may come from one host.
	Connections, ConnectionsPerClient int

	// ConnectionRate is how many connections one host may begin per second, and
	// ConnectionBurst how many at once when it has begun none for a while. The others
	// wait, for up to two seconds. Zero for the latter: as many as in a second.
	ConnectionRate  float64
	ConnectionBurst int

	// RequestRate is how many requests a client may begin per second, and
	// RequestBurst how many it may begin at once when it has not asked for a while.
	// Zero for the latter: as many as in a second. A host may fail as often to show
	// who it is.
	RequestRate  float64
	RequestBurst int
}

const (
	defaultRequestBytes = 4 << 20

	// turnPatience is how long somebody waits for a turn before it is refused. It
	// is shorter where the client would take the silence for a dead server; but as
	// with any first word, three seconds are nothing that a client minds.
	turnPatience      = 10 * time.Second
	leastTurnPatience = 3 * time.Second

	// lease is how long one message of a catch-up keeps the place of others. A
	// client that takes longer to read it loses its place and queues anew.
	lease = time.Second

	// placeDelay is when somebody who found no place should come back: watches last.
	placeDelay = 2 * time.Second

	// connectionTimeout is how long a client may take to say its first words.
	connectionTimeout = 10 * time.Second

	// leastConnectionAge is for those who let watches last for no longer than
	// connecting again is worth.
	leastConnectionAge = time.Minute

	// requestPatience is how long a request may take to come, behind its headers.
	requestPatience = 30 * time.Second

	// maxHeaderBytes is how large the headers of a request may be, with 32 bytes
	// for each besides its name and value. A token of a few KiB has room; gRPC's own
	// limit of 16 MiB is that of no client.
	maxHeaderBytes = 64 << 10
)

// limits are the limits and what is taken of them.
type limits struct {
	Limits
	watchers    *places
	selectors   *selections
	arrivals    *arrivals // of connections; nil: as often as they like
	snapshots   *queue
	lists       *queue
	incoming    *queue // of bytes of requests
	tabs        tabs   // of lists
	connections *places
	requests    *rates                          // nil: without limit
	refused     map[apierr.Reason]*atomic.Int64 // for each reason that a limitError can have

	patience        time.Duration // see turnPatience
	lease           time.Duration // see lease
	requestPatience time.Duration // see requestPatience
}

func newLimits(cfg Limits) *limits {
	if cfg.RequestBytes == 0 {
		cfg.RequestBytes = defaultRequestBytes
	}
	var requests *rates
	if cfg.RequestRate > 0 {
		requests = newRates(cfg.RequestRate, cfg.RequestBurst)
	}
	l := &limits{
		Limits:      cfg,
		requests:    requests,
		watchers:    newPlaces(cfg.Watchers, cfg.WatchersPerClient),
		selectors:   newSelections(cfg.Selectors, cfg.SelectorsPerClient),
		snapshots:   newQueue(int64(cfg.Snapshots)),
		lists:       newQueue(cfg.ListBytes),
		incoming:    newQueue(cfg.RequestMemory),
		connections: newPlaces(cfg.Connections, cfg.ConnectionsPerClient),
		patience:    turnPatience, lease: lease, requestPatience: requestPatience,
		refused: map[apierr.Reason]*atomic.Int64{
			apierr.ReasonTooManyWatchers: {}, apierr.ReasonTooManyWatchersOfClient: {}, apierr.ReasonTooManySnapshots: {},
			apierr.ReasonTooManyLists: {}, apierr.ReasonTooManyRequests: {}, apierr.ReasonRateLimited: {}, apierr.ReasonRequestTooLarge: {},
			apierr.ReasonTooManySelectors: {}, apierr.ReasonTooManySelectorsOfClient: {},
		},
	}
	if cfg.ConnectionRate > 0 {
		l.arrivals = newArrivals(cfg.ConnectionRate, cfg.ConnectionBurst)
	}
	return l
}

// options are what gRPC itself limits on all connections.
func (l *limits) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepaliveLimits),
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxRecvMsgSize(2 * l.RequestBytes),
		grpc.StaticStreamWindowSize(windowBytes),
		grpc.StaticConnWindowSize(connectionWindowBytes),
	}
}

// connectionOptions are what gRPC limits besides on the connections of clients. One is
// told to end when it is as old as a watch may get: what goes on on it is finished, and
// the client makes another one, perhaps to a server that was not there before.
//
// In any case it gets no older than oldest; zero: as old as it likes.
func (l *limits) connectionOptions(watchTimeLimit, oldest time.Duration) []grpc.ServerOption {
	parameters := keepaliveParameters
	if watchTimeLimit > 0 {
		parameters.MaxConnectionAge = max(watchTimeLimit, leastConnectionAge)
	}
	if oldest > 0 && (watchTimeLimit == 0 || parameters.MaxConnectionAge > oldest) {
		parameters.MaxConnectionAge = oldest
	}
	options := []grpc.ServerOption{
		grpc.KeepaliveParams(parameters),
		grpc.ReadBufferSize(0), // the connection has one
	}
	if n := l.StreamsPerConnection; n > 0 {
		options = append(options, grpc.MaxConcurrentStreams(uint32(n)))
	}
	return options
}

// rates are the interceptors that limit how often a client may ask, if anything does.
func (l *limits) rates() []grpc.StreamServerInterceptor {
	if l.requests == nil {
		return nil
	}
	return []grpc.StreamServerInterceptor{selector.StreamServerInterceptor(ratelimit.StreamServerInterceptor(l.requests), counted)}
}

// watch takes a place for a watch, which must be given back.
func (l *limits) watch(ctx context.Context) (giveBack func(), err error) {
	c := clientOf(ctx)
	giveBack, err = l.watchers.take(c)
	return giveBack, noPlace(err, c, "watches", apierr.ReasonTooManyWatchers, apierr.ReasonTooManyWatchersOfClient)
}

// selector takes a place for the interest of a watch, which must be given back, if it
// costs something with changes that it does not pick.
func (l *limits) selector(ctx context.Context, resource *Resource, i *dispatch.Interest) (giveBack func(), err error) {
	// Without a cache each watch looks at each change, whatever its selector is.
	if resource.Dispatcher == nil || resource.Dispatcher.Decides(i) {
		return func() {}, nil
	}
	c := clientOf(ctx)
	giveBack, err = l.selectors.take(c, selection{resource.Name, i.Scope, i.Selector.String(), i.Projection})
	return giveBack, noPlace(err, c, "different selectors", apierr.ReasonTooManySelectors, apierr.ReasonTooManySelectorsOfClient)
}

// noPlace returns what a client is told that has found no place, because there are no
// more or because it has as many as it may have itself. Other errors stay what they are.
func noPlace(err error, c client, what string, total, own apierr.Reason) error {
	full, ok := errors.AsType[*fullError](err)
	if !ok {
		return err
	}
	told := &apierr.LimitError{Reason: total, What: what, Limit: float64(full.limit), RetryAfter: placeDelay}
	if full.own {
		told.Reason, told.Client = own, c.String()
	}
	return told
}

// list takes room for the response of a list, before anybody knows how large it
// will be.
func (l *limits) list(ctx context.Context) (*share, error) {
	size := int64(maxListBytes)
	if l.tabs.of(ctx) != nil {
		size *= tabSize
	}
	return l.responses(ctx, size)
}

// responses takes room for so many bytes of responses.
func (l *limits) responses(ctx context.Context, size int64) (*share, error) {
	s, err := l.lists.take(ctx, clientOf(ctx), size, l.patience)
	if errors.Is(err, errNoTurn) {
		return nil, &apierr.LimitError{Reason: apierr.ReasonTooManyLists, What: "bytes of lists on their way", Limit: float64(l.ListBytes), RetryAfter: placeDelay}
	}
	return s, err
}

// answer takes room for a response that is no list, if it goes to somebody within the
// process: others have been sent it when it is there.
func (l *limits) answer(ctx context.Context, e encoded) error {
	tab := l.tabs.of(ctx)
	if tab == nil {
		return nil
	}
	room, err := l.responses(ctx, tabSize*int64(e.size()))
	if room != nil {
		tab.put(room)
	}
	return err
}

// Usage says what is taken of the limits.
type Usage struct {
	Watchers         int   // watches
	WatchClients     int   // clients that have any
	Selectors        int   // different ones that are limited
	Snapshots        int64 // catch-ups that are being sent
	SnapshotsWaiting int   // catch-ups that wait for their turn
	ListBytes        int64 // of lists that have not been sent yet
	ListsWaiting     int   // lists that wait for room
	RequestBytes     int64 // of requests on their way, for which there is room
	RequestsWaiting  int   // requests that wait for room
	Connections      int
	Refused          map[apierr.Reason]int64 // requests that were refused, by reason
}

// Usage returns what is taken of the limits.
func (s *Server) Usage() Usage {
	l := s.limits
	u := Usage{Refused: map[apierr.Reason]int64{}}
	u.Watchers, u.WatchClients = l.watchers.count()
	u.Selectors = l.selectors.count()
	u.Snapshots, u.SnapshotsWaiting, _ = l.snapshots.count()
	u.ListBytes, u.ListsWaiting, _ = l.lists.count()
	u.RequestBytes, u.RequestsWaiting, _ = l.incoming.count()
	u.Connections, _ = l.connections.count()
	for reason, n := range l.refused {
		u.Refused[reason] = n.Load()
	}
	return u
}
