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

	"github.com/fanoutd/fanoutd/bench/internal/tally"
)

const (
	// dials is how many connections are made at once.
	dials = 32
	// patience is how long a connection and its watches may take to be there.
	patience = 2 * time.Minute
)

// connection is a connection with watchers.
type connection interface {
	// open registers the watches, and returns when the server has said so for all.
	open(ctx context.Context) error
	// receive hands on what comes until Close, or until something breaks.
	receive() error
	Close() error
}

// connector makes the connection of this number.
type connector func(w *watchers, number int) (connection, error)

// watchers are all watchers of the process.
type watchers struct {
	config Config
	tally  *tally.Tally

	connections []connection
	receiving   sync.WaitGroup
	stopping    atomic.Bool
	returned    atomic.Int64 // connections that have stalled, left and come again

	mu     sync.Mutex // guards the following
	ended  int        // watchers of connections that broke
	reason error      // of the first of them
}

// connect makes all connections, and registers the watches of each unless they are held
// back.
func connect(ctx context.Context, c Config) (*watchers, error) {
	if err := c.Problem(); err != nil {
		return nil, err
	}
	dial, err := c.connector()
	if err != nil {
		return nil, err
	}
	w := &watchers{
		config:      c,
		tally:       tally.New(c.Keys, c.Interests(), c.Seen),
		connections: make([]connection, c.Connections),
	}
	err = w.each(ctx, dials, func(ctx context.Context, i int) error {
		conn, err := dial(w, i)
		if err != nil {
			return fmt.Errorf("make connection %d: %w", i, err)
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

// each does something with each connection, with so many at once; negative is all.
func (w *watchers) each(ctx context.Context, limit int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// close ends all connections and waits for those who read from them.
func (w *watchers) close() {
	w.stopping.Store(true)
	for _, c := range w.connections {
		if c != nil {
			c.Close()
		}
	}
	w.receiving.Wait()
}

// report says what was received; the watchers are closed.
func (w *watchers) report(written []uint32) *Report {
	r := &Report{Report: w.tally.Report(written), Ended: w.ended, Returned: w.returned.Load()}
	if w.reason != nil {
		r.Reason = w.reason.Error()
	}
	return r
}

// Clients are the values of Config.Client. The raw one costs the least; the others are
// what users have.
const (
	ClientRaw         = "raw"          // reads frames off the connection
	ClientGRPC        = "grpc"         // grpc-go with static windows
	ClientGRPCDefault = "grpc-default" // grpc-go as it is
	ClientNATS        = "nats.go"
)

func (c Config) connector() (connector, error) {
	known := c.connectors()
	dial, ok := known[c.Client]
	if !ok {
		names := slices.Sorted(maps.Keys(known))
		return nil, fmt.Errorf("with %s, client %q cannot do that; those who can: [%s]", c.Protocol, c.Client, strings.Join(names, ", "))
	}
	if c.Stall != "" {
		return newStalled(dial), nil
	}
	return dial, nil
}

// connectors returns those of the clients that can do what is asked for.
func (c Config) connectors() map[string]connector {
	known := map[string]connector{}
	service, grpc := services[c.Protocol]
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
	case c.Protocol == "nats" && c.Stall != StallWindow && !c.Snapshot: // it has neither windows nor a state
		known[ClientRaw] = newNATS
	case c.Protocol == "nats-kv" && c.Stall == "":
		known[ClientNATS] = newKV
	}
	return known
}
