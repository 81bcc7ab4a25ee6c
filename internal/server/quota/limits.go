package quota

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// Limits configures what clients may use. Zero means no limit, except where a field says
// otherwise.
type Limits struct {
	// Watchers limits the watches that exist at once; WatchersPerClient limits those of
	// one client.
	Watchers, WatchersPerClient int

	// Selectors limits the distinct selectors of all watches; SelectorsPerClient limits
	// those of one client. A selector that an index answers costs nothing and does not
	// count; the others are evaluated for each change in their scope.
	Selectors, SelectorsPerClient int

	// Waits limits the requests that wait until watches have applied a revision; WaitsPerClient
	// limits those of one client.
	Waits, WaitsPerClient int

	// Snapshots limits the catch-ups of kind RESET or DELTA that are sent at once. Others
	// wait for their turn. WaitingSnapshots limits how many new watches wait; a client may
	// have no more of these places than it leaves free.
	Snapshots, WaitingSnapshots int

	// ListBytes limits the memory of list responses that have not been sent yet. Lists
	// that find no memory wait.
	ListBytes int64

	// RequestBytes is the size of the largest request. Zero: 4 MiB.
	RequestBytes int

	// RequestMemory limits the memory of requests that have been announced and have not
	// arrived completely. Requests that find no memory wait.
	RequestMemory int64

	// StreamsPerConnection limits the requests and watches that one connection carries at
	// once.
	StreamsPerConnection int

	// Connections limits the connections that exist at once; ConnectionsPerClient limits
	// those from one host. Only the listener of operators may use the last
	// OperatorConnections of Connections, so that probes succeed while clients use all
	// others. They must be fewer than Connections. There, a host may have half as many more
	// than ConnectionsPerClient: the client that uses up its connections may be on the
	// machine that sends the probes.
	Connections, ConnectionsPerClient, OperatorConnections int

	// ConnectionRate limits how many connections one host opens per second at each listener,
	// and ConnectionBurst how many at once after a pause. Others wait for up to two seconds.
	// A burst of zero is what one second allows.
	ConnectionRate  float64
	ConnectionBurst int

	// ResetRate limits how many streams one connection abandons per second, and
	// ResetRatePerClient those of one client. A stream is abandoned if its client gives it up
	// as soon as it has opened it. Connections that exceed the limit are closed, except that
	// each may abandon a hundredth of ResetRatePerClient whatever others do.
	ResetRate, ResetRatePerClient float64

	// RequestRate limits how many requests one client makes per second, and RequestBurst
	// how many at once after a pause. A burst of zero is what one second allows. A host
	// may fail to authenticate at the same rate.
	RequestRate  float64
	RequestBurst int

	// ReportRate limits how many reports of watches one client makes per second. They do not
	// count as requests of RequestRate, so a client with many watches can still read.
	ReportRate float64
}

const (
	defaultRequestBytes = 4 << 20

	// maxPatience is how long a request waits for memory, or a watch for its turn, before
	// it is refused. minPatience is the least for watches whose client expects bookmarks
	// more often: a first message may take three seconds without looking like a dead
	// server.
	maxPatience = 10 * time.Second
	minPatience = 3 * time.Second

	// lease is how long a watch may take to send one message of a catch-up before it loses
	// its turn to others. A client that reads more slowly waits for a new turn.
	lease = time.Second

	// retryDelay is when a client should try again that found a quota used up.
	retryDelay = 2 * time.Second

	// requestPatience is how long a request may take to arrive after its headers.
	requestPatience = 30 * time.Second

	// maxWaitingRequests limits how many requests wait for memory at once. Each of them
	// already holds a window of its stream.
	maxWaitingRequests = 1000
)

// Limiter enforces limits, and knows how much of each is used.
type Limiter struct {
	Limits

	SnapshotSlots *FairSemaphore // one for each catch-up that is being sent

	// How long clients wait; see the constants of these names. Tests change them.
	Patience        time.Duration
	Lease           time.Duration
	RequestPatience time.Duration

	watches        *clientQuota
	waits          *clientQuota
	selectors      *selectorQuota
	connections    *clientQuota
	connectionRate ClientLimiters
	operatorRate   ClientLimiters // of connections to the listener of operators
	turns          perClient[*hostTurns]
	abandoned      pairedRate // streams that clients abandon
	requestRate    requestLimiter
	reportRate     requestLimiter
	lists          *FairSemaphore // bytes of list responses
	requestMemory  *FairSemaphore // bytes of requests
	gateway        gateway

	log                *slog.Logger
	throttle           throttle // of lines about refusals
	refused            map[apierr.Limit]*atomic.Int64
	refusedConnections map[ConnectionLimit]*atomic.Int64
	acceptFailures     atomic.Int64
	turnWaits          atomic.Int64
}

// New returns a limiter.
func New(cfg Limits, log *slog.Logger) *Limiter {
	cfg.RequestBytes = cmp.Or(cfg.RequestBytes, defaultRequestBytes)
	l := &Limiter{
		Limits:         cfg,
		requestRate:    requestLimiter{NewClientLimiters(cfg.RequestRate, cfg.RequestBurst), apierr.MaxRequestRate, "requests"},
		reportRate:     requestLimiter{NewClientLimiters(cfg.ReportRate, 0), apierr.MaxReportRate, "reports"},
		watches:        newClientQuota(cfg.Watchers, cfg.WatchersPerClient),
		waits:          newClientQuota(cfg.Waits, cfg.WaitsPerClient),
		selectors:      newSelectorQuota(cfg.Selectors, cfg.SelectorsPerClient),
		SnapshotSlots:  newFairSemaphore(int64(cfg.Snapshots)),
		turns:          newPerClient(newHostTurns),
		abandoned:      newPairedRate(cfg.ResetRate, cfg.ResetRatePerClient),
		lists:          newFairSemaphore(cfg.ListBytes),
		requestMemory:  newFairSemaphore(cfg.RequestMemory),
		connections:    newClientQuota(cfg.Connections, cfg.ConnectionsPerClient),
		connectionRate: NewClientLimiters(cfg.ConnectionRate, cfg.ConnectionBurst),
		operatorRate:   NewClientLimiters(cfg.ConnectionRate, cfg.ConnectionBurst),
		Patience:       maxPatience, Lease: lease, RequestPatience: requestPatience,
		log: log, throttle: throttle{kinds: map[any]*throttledKind{}},
		refused:            map[apierr.Limit]*atomic.Int64{},
		refusedConnections: map[ConnectionLimit]*atomic.Int64{},
	}
	for _, limit := range apierr.Limits {
		l.refused[limit] = new(atomic.Int64)
	}
	for _, limit := range connectionLimits {
		l.refusedConnections[limit] = new(atomic.Int64)
	}
	return l
}

// AdmitConnection counts a connection from an address until it is released. The connection
// must not be read before it has waited. It returns false if the connection is refused.
func (l *Limiter) AdmitConnection(address string) (release func(), wait time.Duration, ok bool) {
	return l.admitConnection(address, &l.connectionRate, l.Connections-l.OperatorConnections, l.ConnectionsPerClient)
}

// AdmitOperatorConnection is like AdmitConnection, for the listener of operators.
func (l *Limiter) AdmitOperatorConnection(address string) (release func(), wait time.Duration, ok bool) {
	perClient := l.ConnectionsPerClient
	if perClient > 0 {
		perClient += (l.OperatorConnections + 1) / 2
	}
	return l.admitConnection(address, &l.operatorRate, l.Connections, perClient)
}

func (l *Limiter) admitConnection(address string, often *ClientLimiters, total, perClient int) (release func(), wait time.Duration, ok bool) {
	from := ClientAt(address)
	if reached := l.connections.takeWithin(from, total, perClient); reached != nil {
		limit := MaxConnections
		if reached.own {
			limit = MaxConnectionsPerClient
		}
		l.refuseConnection(limit, from)
		return nil, 0, false
	}
	if wait, ok = reserveConnection(often, from, time.Now()); !ok {
		l.refuseConnection(MaxConnectionRate, from)
		l.connections.giveBack(from)
	}
	return func() { l.connections.giveBack(from) }, wait, ok
}

// AllowRequest counts a request of a client. It returns an error if the client makes too
// many.
func (l *Limiter) AllowRequest(c Client) error { return l.requestRate.allow(c) }

// AllowReport counts a report of a client. It returns an error if the client makes too many.
func (l *Limiter) AllowReport(c Client) error { return l.reportRate.allow(c) }

// WatchQuota is what a watch has taken besides its place among the watches. The zero value is nothing.
type WatchQuota struct{ releaseSelector func() } // nil: its selector costs nothing

// TakeWatch takes the quotas of a watch until ReturnWatch: one place among the watches, and if the
// selector of its interest has to be evaluated for each change (scans), one among the distinct
// selectors. Every entrance takes them with this method, so a limit on watches belongs here.
func (l *Limiter) TakeWatch(c Client, resource string, i *feed.Interest, scans bool) (q WatchQuota, err error) {
	if reached := l.watches.take(c); reached != nil {
		return q, reached.refuse(c, "watches", apierr.MaxWatchers, apierr.MaxWatchersPerClient)
	}
	if scans {
		var reached *full
		if q.releaseSelector, reached = l.selectors.acquire(c, selectorKey{resource, i.Scope, i.Selector.String(), i.Projection}); reached != nil {
			l.watches.giveBack(c)
			return q, reached.refuse(c, "different selectors", apierr.MaxSelectors, apierr.MaxSelectorsPerClient)
		}
	}
	return q, nil
}

// ReturnWatch gives back what a watch has taken.
func (l *Limiter) ReturnWatch(c Client, q WatchQuota) {
	if q.releaseSelector != nil {
		q.releaseSelector()
	}
	l.watches.giveBack(c)
}

// AppliedWait counts a request that waits until watches have applied a revision, until it is released.
func (l *Limiter) AppliedWait(ctx context.Context) (release func(), err error) {
	c := ClientOf(ctx)
	if reached := l.waits.take(c); reached != nil {
		return nil, reached.refuse(c, "waits for watches", apierr.MaxWaits, apierr.MaxWaitsPerClient)
	}
	return func() { l.waits.giveBack(c) }, nil
}

// refuse returns the error for the client: with the name total if the limit is the one of all
// clients, and own if it is that of the client itself.
func (f *full) refuse(c Client, what string, total, own apierr.Limit) error {
	limit := &apierr.LimitError{Name: total, What: what, Limit: float64(f.limit), RetryAfter: retryDelay}
	if f.own {
		limit.Name, limit.Client = own, c.String()
	}
	return limit
}

// ReserveList asks for memory for the response of a list, which may have up to so many
// bytes. If the memory is not granted at once, the caller must call AwaitList.
func (l *Limiter) ReserveList(ctx context.Context, largest int) *Reservation {
	size := int64(largest)
	if l.gateway.answered(ctx) != nil {
		size *= gatewayCopies
	}
	return l.lists.Reserve(ClientOf(ctx), size)
}

// AwaitList waits for the memory of a list. After an error nothing is reserved.
func (l *Limiter) AwaitList(ctx context.Context, r *Reservation) error {
	err := r.Wait(ctx, l.Patience)
	if errors.Is(err, errTimeout) {
		return &apierr.LimitError{Name: apierr.MaxListMemory, What: "bytes of lists on their way", Limit: float64(l.ListBytes), RetryAfter: retryDelay}
	}
	return err
}

// KeepForGateway takes over the memory of a response to the gateway, and releases it when
// the request of the gateway ends. It returns false for requests of other clients, whose
// responses need no memory once gRPC has sent them.
func (l *Limiter) KeepForGateway(ctx context.Context, memory *Reservation, size int) bool {
	answered := l.gateway.answered(ctx)
	if answered == nil {
		return false
	}
	memory.Shrink(gatewayCopies * int64(size))
	context.AfterFunc(answered, memory.Release)
	return true
}

// ReserveAnswer waits for the memory of a response to the gateway that is not a list, and
// releases it when the request of the gateway ends. It does nothing for other clients.
func (l *Limiter) ReserveAnswer(ctx context.Context, bytes int) error {
	answered := l.gateway.answered(ctx)
	if answered == nil {
		return nil
	}
	memory := l.lists.Reserve(ClientOf(ctx), gatewayCopies*int64(bytes))
	if err := l.AwaitList(ctx, memory); err != nil {
		return err
	}
	context.AfterFunc(answered, memory.Release)
	return nil
}

// ReserveRequest waits for the memory of a request.
func (l *Limiter) ReserveRequest(ctx context.Context, size int64) (*Reservation, error) {
	if size == 0 {
		return nil, nil
	}
	patience := l.Patience
	if _, waiting, _ := l.requestMemory.Usage(); waiting >= maxWaitingRequests {
		patience = 0
	}
	memory, err := l.requestMemory.Acquire(ctx, ClientOf(ctx), size, patience)
	if errors.Is(err, errTimeout) {
		return nil, &apierr.LimitError{Name: apierr.MaxRequestMemory, What: "bytes of requests on their way", Limit: float64(l.RequestMemory), RetryAfter: retryDelay}
	}
	return memory, err
}

// Usage is how much of the limits is used.
type Usage struct {
	Watchers         int   // watches
	WatchClients     int   // clients that have watches
	Waits            int   // requests that wait until watches have applied a revision
	Selectors        int   // distinct selectors that count
	Snapshots        int64 // catch-ups that are being sent
	SnapshotsWaiting int   // catch-ups that wait for their turn
	ListBytes        int64 // reserved for lists
	ListsWaiting     int   // lists that wait for memory
	RequestBytes     int64 // reserved for requests
	RequestsWaiting  int   // requests that wait for memory
	Connections      int
	MaxConnections   int                    // 0: no limit
	Refused          map[apierr.Limit]int64 // refused requests

	TurnWaits          int64                     // noticeable waits before a connection could begin a burst of streams
	RefusedConnections map[ConnectionLimit]int64 // refused or closed because of a limit
	AcceptFailures     int64                     // connections could not be accepted, for example for lack of file descriptors
}

// Usage returns how much of the limits is used.
func (l *Limiter) Usage() Usage {
	u := Usage{Refused: map[apierr.Limit]int64{}, RefusedConnections: map[ConnectionLimit]int64{}}
	u.Watchers, u.WatchClients = l.watches.count()
	u.Waits, _ = l.waits.count()
	u.Selectors = l.selectors.count()
	u.Snapshots, u.SnapshotsWaiting, _ = l.SnapshotSlots.Usage()
	u.ListBytes, u.ListsWaiting, _ = l.lists.Usage()
	u.RequestBytes, u.RequestsWaiting, _ = l.requestMemory.Usage()
	u.Connections, _ = l.connections.count()
	u.MaxConnections = l.Connections
	for limit, n := range l.refused {
		u.Refused[limit] = n.Load()
	}
	for limit, n := range l.refusedConnections {
		u.RefusedConnections[limit] = n.Load()
	}
	u.TurnWaits = l.turnWaits.Load()
	u.AcceptFailures = l.acceptFailures.Load()
	return u
}
