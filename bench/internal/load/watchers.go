package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
)

const (
	// maxDials is the number of connections that are opened at once.
	maxDials = 32
	// setupTimeout bounds the time to open the connections and their watches.
	setupTimeout = 10 * time.Minute
)

// connection is a connection with watchers.
type connection interface {
	// open registers the watches, and returns when the server has confirmed all of them.
	open(ctx context.Context) error
	// receive handles messages until Close or an error.
	receive() error
	Close() error
}

// connector opens the connection with this number.
type connector func(w *watchers, number int) (connection, error)

// watchers are all watchers of the process.
type watchers struct {
	config  Config
	counter *delivery.Counter

	connections []connection
	receiving   sync.WaitGroup
	stopping    atomic.Bool
	returned    atomic.Int64 // reconnections of stalled watchers

	mu     sync.Mutex // guards the following
	ended  int        // watchers of connections that broke
	reason error      // of the first of them
}

// connect opens all connections, and registers their watches unless they are held back.
func connect(ctx context.Context, c Config) (*watchers, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	dial, err := c.connector()
	if err != nil {
		return nil, err
	}
	w := &watchers{
		config:      c,
		counter:     delivery.NewCounter(c.Keys, c.Interests(), c.Seen),
		connections: make([]connection, c.Connections),
	}
	err = w.each(ctx, maxDials, func(ctx context.Context, i int) error {
		conn, err := dial(w, i)
		if err != nil {
			return fmt.Errorf("open connection %d: %w", i, err)
		}
		if w.connections[i] = conn; c.Hold {
			return nil
		}
		return w.register(ctx, i)
	})
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// watch registers all watches that were held back, at once.
func (w *watchers) watch(ctx context.Context) error { return w.each(ctx, -1, w.register) }

// each calls a function for each connection, at most limit at once; negative: no limit.
func (w *watchers) each(ctx context.Context, limit int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	for i := range w.connections {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func (w *watchers) register(ctx context.Context, i int) error {
	if err := w.connections[i].open(ctx); err != nil {
		return fmt.Errorf("watch on connection %d: %w", i, err)
	}
	w.receiving.Go(func() { w.receive(i) })
	return nil
}

func (w *watchers) receive(i int) {
	err := w.connections[i].receive()
	if err == nil || w.stopping.Load() {
		return
	}
	from, to := w.config.share(i)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended += to - from
	if w.reason == nil {
		w.reason = fmt.Errorf("connection %d: %w", i, err)
	}
}

// close closes all connections and waits for their readers.
func (w *watchers) close() {
	w.stopping.Store(true)
	for _, c := range w.connections {
		if c != nil {
			c.Close()
		}
	}
	w.receiving.Wait()
}

// report returns the report of the watchers, which must be closed.
func (w *watchers) report(written []uint32) *Report {
	r := &Report{Report: w.counter.Report(written), Ended: w.ended, Returned: w.returned.Load()}
	if w.reason != nil {
		r.Reason = w.reason.Error()
	}
	return r
}

// The values of Config.Client. The raw client costs the least; users have the others.
const (
	ClientRaw         = "raw"          // reads frames without grpc-go
	ClientGRPC        = "grpc"         // grpc-go with static windows
	ClientGRPCDefault = "grpc-default" // grpc-go with its defaults
	ClientNATS        = "nats.go"
	ClientFanoutd     = "fanoutd" // package client of fanoutd, with its default options
)

// Clients lists the values of Config.Client.
var Clients = []string{ClientRaw, ClientGRPC, ClientGRPCDefault, ClientNATS, ClientFanoutd}

func (c Config) connector() (connector, error) {
	known := c.connectors()
	dial, ok := known[c.Client]
	if !ok {
		names := slices.Sorted(maps.Keys(known))
		return nil, fmt.Errorf("protocol %s: client %q does not support these options (want one of [%s])", c.Protocol, c.Client, strings.Join(names, ", "))
	}
	if c.Stall != "" {
		return newStalled(dial), nil
	}
	return dial, nil
}

// connectors returns the clients that support the configuration.
func (c Config) connectors() map[string]connector {
	known := map[string]connector{}
	service, grpc := c.service()
	pages, lists := listers[c.Protocol]
	switch {
	case c.List && lists:
		known[ClientGRPC] = newList(pages)
	case c.List:
	case grpc:
		known[ClientRaw] = func(w *watchers, i int) (connection, error) { return newRaw(w, i, service) }
		if c.Stall == "" {
			known[ClientGRPC] = newGRPC(service, staticWindows()...)
			known[ClientGRPCDefault] = newGRPC(service)
		}
		if c.Stall == "" && c.Protocol == "fanoutd" && c.PerStream == 0 { // the client decides
			known[ClientFanoutd] = newClient
		}
	case c.Protocol == "nats" && c.Stall != StallWindow && !c.Snapshot: // NATS has neither flow-control windows nor a state
		known[ClientRaw] = newNATS
	case c.Protocol == "nats-kv" && c.Stall == "":
		known[ClientNATS] = newKV
	}
	return known
}
