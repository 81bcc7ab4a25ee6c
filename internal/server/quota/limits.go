package quota

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

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

	// maxPatience is how long somebody waits for a turn before it is refused. It
	// is shorter where the client would take the silence for a dead server; but as
	// with any first word, three seconds are nothing that a client minds.
	maxPatience = 10 * time.Second
	MinPatience = 3 * time.Second

	// lease is how long one message of a catch-up keeps the place of others. A
	// client that takes longer to read it loses its place and queues anew.
	lease = time.Second

	// RetryDelay is when somebody who found no place should come back: watches last.
	RetryDelay = 2 * time.Second

	// requestPatience is how long a request may take to come, behind its headers.
	requestPatience = 30 * time.Second
)

// Limiter are the limits and what is taken of them.
type Limiter struct {
	Limits
	watches        *clientQuota
	selectors      *selectorQuota
	connectionRate *connLimiter // of connections; nil: as often as they like
	SnapshotSlots  *FairSemaphore
	lists          *FairSemaphore
	requestMemory  *FairSemaphore      // of bytes of requests
	gateway        gatewayReservations // of lists
	connections    *clientQuota
	requestRate    *requestLimiter                 // nil: without limit
	refused        map[apierr.Reason]*atomic.Int64 // for each reason that a limitError can have

	refusals        refusalLog
	Patience        time.Duration // see turnPatience
	Lease           time.Duration // see lease
	RequestPatience time.Duration // see requestPatience
}

func New(cfg Limits, log *slog.Logger) *Limiter {
	if cfg.RequestBytes == 0 {
		cfg.RequestBytes = defaultRequestBytes
	}
	var requests *requestLimiter
	if cfg.RequestRate > 0 {
		requests = newRequestLimiter(cfg.RequestRate, cfg.RequestBurst)
	}
	l := &Limiter{
		Limits:        cfg,
		requestRate:   requests,
		watches:       newClientQuota(cfg.Watchers, cfg.WatchersPerClient),
		selectors:     newSelectorQuota(cfg.Selectors, cfg.SelectorsPerClient),
		SnapshotSlots: newFairSemaphore(int64(cfg.Snapshots)),
		lists:         newFairSemaphore(cfg.ListBytes),
		requestMemory: newFairSemaphore(cfg.RequestMemory),
		connections:   newClientQuota(cfg.Connections, cfg.ConnectionsPerClient),
		refusals:      refusalLog{log: log, throttles: map[apierr.Reason]*throttle{}},
		Patience:      maxPatience, Lease: lease, RequestPatience: requestPatience,
		refused: map[apierr.Reason]*atomic.Int64{
			apierr.ReasonTooManyWatchers: {}, apierr.ReasonTooManyWatchersOfClient: {}, apierr.ReasonTooManySnapshots: {},
			apierr.ReasonTooManyLists: {}, apierr.ReasonTooManyRequests: {}, apierr.ReasonRateLimited: {}, apierr.ReasonRequestTooLarge: {},
			apierr.ReasonTooManySelectors: {}, apierr.ReasonTooManySelectorsOfClient: {},
		},
	}
	if cfg.ConnectionRate > 0 {
		l.connectionRate = newConnLimiter(cfg.ConnectionRate, cfg.ConnectionBurst)
	}
	return l
}

// AdmitConnection takes a place for a connection from an address. It says how long the
// connection has to wait before it is read, or false where it is not wanted.
func (l *Limiter) AdmitConnection(address string) (release func(), wait time.Duration, ok bool) {
	from := ClientAt(address)
	release, err := l.connections.take(from)
	if err != nil {
		return nil, 0, false
	}
	if wait, ok = l.connectionRate.reserve(from, time.Now()); !ok {
		release()
	}
	return release, wait, ok
}

// Watch takes a place for a watch, which must be given back.
func (l *Limiter) Watch(ctx context.Context) (giveBack func(), err error) {
	c := ClientOf(ctx)
	giveBack, err = l.watches.take(c)
	return giveBack, noPlace(err, c, "watches", apierr.ReasonTooManyWatchers, apierr.ReasonTooManyWatchersOfClient)
}

// Selector takes a place for the interest of a watch, which must be given back. Only
// interests are counted that cost something with changes that they do not pick.
func (l *Limiter) Selector(ctx context.Context, resource string, i *dispatch.Interest) (giveBack func(), err error) {
	c := ClientOf(ctx)
	giveBack, err = l.selectors.take(c, selectorKey{resource, i.Scope, i.Selector.String(), i.Projection})
	return giveBack, noPlace(err, c, "different selectors", apierr.ReasonTooManySelectors, apierr.ReasonTooManySelectorsOfClient)
}

// noPlace returns what a client is told that has found no place, because there are no
// more or because it has as many as it may have itself. Other errors stay what they are.
func noPlace(err error, c Client, what string, total, own apierr.Reason) error {
	full, ok := errors.AsType[*fullError](err)
	if !ok {
		return err
	}
	told := &apierr.LimitError{Reason: total, What: what, Limit: float64(full.limit), RetryAfter: RetryDelay}
	if full.own {
		told.Reason, told.Client = own, c.String()
	}
	return told
}

// ReserveList asks for memory for the response of a list, which may have up to so many
// bytes. If the memory is not granted at once, the caller must call AwaitList.
func (l *Limiter) ReserveList(ctx context.Context, largest int) *Reservation {
	size := int64(largest)
	if l.gateway.of(ctx) != nil {
		size *= gatewayCopies
	}
	return l.lists.Reserve(ClientOf(ctx), size)
}

// AwaitList waits for the memory of a list. After an error nothing is reserved.
func (l *Limiter) AwaitList(ctx context.Context, r *Reservation) error {
	err := r.Wait(ctx, l.Patience)
	if errors.Is(err, ErrTimeout) {
		return &apierr.LimitError{Reason: apierr.ReasonTooManyLists, What: "bytes of lists on their way", Limit: float64(l.ListBytes), RetryAfter: RetryDelay}
	}
	return err
}

// KeepForGateway leaves room for a response of a size with the request, and reports whether it did:
// for requests within the process, whose response is held for longer than gRPC holds it.
func (l *Limiter) KeepForGateway(ctx context.Context, room *Reservation, size int) bool {
	tab := l.gateway.of(ctx)
	if tab == nil {
		return false
	}
	room.Shrink(gatewayCopies * int64(size))
	tab.put(room)
	return true
}

// Answer takes room for a response that is no list, if it goes to somebody within the
// process: others have been sent it when it is there.
func (l *Limiter) Answer(ctx context.Context, bytes int) error {
	tab := l.gateway.of(ctx)
	if tab == nil {
		return nil
	}
	memory := l.lists.Reserve(ClientOf(ctx), gatewayCopies*int64(bytes))
	if err := l.AwaitList(ctx, memory); err != nil {
		return err
	}
	if memory != nil {
		tab.put(memory)
	}
	return nil
}

// AllowRequest counts a request of a client, and returns an error if that has made too many.
func (l *Limiter) AllowRequest(c Client) error { return l.requestRate.allow(c) }

// BeginGateway returns the context for a request that the gateway makes within the process.
// What its response holds stays reserved until the context is done.
func (l *Limiter) BeginGateway(ctx context.Context) context.Context { return l.gateway.begin(ctx) }

// maxIncomingWaiting is how many requests wait for room at once, in which each has a
// window.
const maxIncomingWaiting = 1000

// ReserveRequest takes room for a request of a size, which must be given back.
func (l *Limiter) ReserveRequest(ctx context.Context, size int64) (*Reservation, error) {
	if size == 0 {
		return nil, nil
	}
	patience := l.Patience
	if _, waiting, _ := l.requestMemory.Usage(); waiting >= maxIncomingWaiting {
		patience = 0
	}
	s, err := l.requestMemory.Acquire(ctx, ClientOf(ctx), size, patience)
	if errors.Is(err, ErrTimeout) {
		return nil, &apierr.LimitError{Reason: apierr.ReasonTooManyRequests, What: "bytes of requests on their way", Limit: float64(l.RequestMemory), RetryAfter: RetryDelay}
	}
	return s, err
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
func (l *Limiter) Usage() Usage {
	u := Usage{Refused: map[apierr.Reason]int64{}}
	u.Watchers, u.WatchClients = l.watches.count()
	u.Selectors = l.selectors.count()
	u.Snapshots, u.SnapshotsWaiting, _ = l.SnapshotSlots.Usage()
	u.ListBytes, u.ListsWaiting, _ = l.lists.Usage()
	u.RequestBytes, u.RequestsWaiting, _ = l.requestMemory.Usage()
	u.Connections, _ = l.connections.count()
	for reason, n := range l.refused {
		u.Refused[reason] = n.Load()
	}
	return u
}
