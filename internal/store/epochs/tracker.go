package epochs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Tracker knows the epoch of an etcd. At most one goroutine inspects etcd at a
// time; the others wait for its result.
type Tracker struct {
	client *clientv3.Client
	log    *slog.Logger

	inspecting  chan struct{} // semaphore of capacity 1: held while inspecting etcd
	connections *Connections  // connections made to etcd
	inspected   atomic.Int64  // value of connections at the last inspection

	mu      sync.Mutex
	epoch   object.Epoch // guarded by mu; empty before the first inspection
	history *History     // guarded by mu: the history of that epoch

	// The fields below belong to the goroutine that holds inspecting.

	readableKey  string // a key that may be read even if Key may not
	invalidID    string // id of a record that is wrong and could not be replaced
	localID      string // id that could not be recorded; empty: none was needed
	loggedDenied bool   // it is already logged that nothing can be recorded
}

// New returns a tracker that knows nothing yet. Connections counts the connections of the client.
func New(client *clientv3.Client, connections *Connections, log *slog.Logger) *Tracker {
	return &Tracker{
		client: client, connections: connections, log: log,
		inspecting: make(chan struct{}, 1), history: newHistory(),
	}
}

// Current returns the last known epoch and its history.
func (e *Tracker) Current() (object.Epoch, *History) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch, e.history
}

// History returns the history of the last known epoch.
func (e *Tracker) History() *History {
	_, h := e.Current()
	return h
}

// Determine inspects etcd and returns its epoch. The caller may read readableKey even
// if it may not read [Key].
func (e *Tracker) Determine(ctx context.Context, readableKey string) (object.Epoch, error) {
	select {
	case e.inspecting <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-e.inspecting }()
	e.readableKey = readableKey
	return e.inspect(ctx)
}

// Verify inspects etcd again if the epoch is known. A changed epoch ends the old
// history.
func (e *Tracker) Verify(ctx context.Context) error {
	return e.verifyUnless(ctx, func() bool { return false })
}

// VerifyConnection verifies the epoch if the client has reconnected since the last
// inspection. etcd may have been restored in between, and the store may not have
// finished its inspection. All readers on one connection share one inspection.
func (e *Tracker) VerifyConnection(ctx context.Context) error {
	return e.verifyUnless(ctx, e.IsVerified)
}

// IsVerified reports whether the client has not reconnected since the last inspection.
func (e *Tracker) IsVerified() bool { return e.inspected.Load() == e.connections.count.Load() }

func (e *Tracker) verifyUnless(ctx context.Context, verified func() bool) error {
	if verified() {
		return nil
	}
	select {
	case e.inspecting <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.inspecting }()
	if epoch, _ := e.Current(); epoch == "" || verified() {
		return nil
	}
	_, err := e.inspect(ctx)
	return err
}

// inspect observes etcd and returns its epoch. It records a new epoch if etcd has none
// or has gone back. The caller holds inspecting.
func (e *Tracker) inspect(ctx context.Context) (object.Epoch, error) {
	for {
		epoch, known := e.Current()
		highest := known.highest.Load()
		o, err := e.observe(ctx)
		if err != nil {
			return "", err
		}
		rolledBack := func(id string) bool {
			return epochOf(o.cluster, id) == epoch && (known.rolledBack.Load() || o.revision < highest)
		}
		if o.record != nil && o.record.ID != e.invalidID && !o.restored() && !rolledBack(o.record.ID) {
			e.localID = ""
			if err := e.strengthen(ctx, o); err != nil {
				e.log.Debug("could not strengthen the epoch record", "error", err)
			}
			return e.adopt(o, o.record.ID), nil
		}
		if err = o.denied; err == nil {
			err = e.putRecord(ctx, o, newEpochID())
		}
		switch {
		case err == nil:
			continue // read the record back: another server may have written first
		case !errors.Is(err, rpctypes.ErrPermissionDenied) && !errors.Is(err, rpctypes.ErrNoSpace):
			return "", err
		}
		e.logDenied(err)
		if o.record != nil {
			e.invalidID = o.record.ID
		}
		if rolledBack(e.localID) || e.localID == "" && o.record != nil {
			e.localID = newEpochID()
		}
		return e.adopt(o, e.localID), nil
	}
}

// adopt publishes the epoch with the given id. If the epoch changes, adopt ends the old
// history.
func (e *Tracker) adopt(o *observation, id string) object.Epoch {
	epoch := epochOf(o.cluster, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.epoch != epoch {
		if e.epoch != "" {
			e.log.Warn("etcd has another history than before; earlier positions are no longer valid",
				"before", e.epoch, "now", epoch, "revision", o.revision)
			e.history.end()
			e.history = newHistory()
		}
		e.epoch = epoch
	}
	e.history.Advance(object.Revision(o.revision))
	e.inspected.Store(o.connections)
	return epoch
}

// logDenied logs, once, that the epoch cannot be recorded.
func (e *Tracker) logDenied(err error) {
	if !e.loggedDenied {
		e.loggedDenied = true
		e.log.Warn("the epoch cannot be stored in etcd: a server that starts after a restore may not detect the restore",
			"key", Key, "error", err)
	}
}

// newEpochID returns 8 random characters. One etcd has only a few epochs in its life.
func newEpochID() string { return uuid.NewString()[:8] }

// epochOf returns the epoch of a cluster. The recorded id may be empty.
func epochOf(cluster uint64, id string) object.Epoch {
	if id == "" {
		return object.Epoch(fmt.Sprintf("%016x", cluster))
	}
	return object.Epoch(fmt.Sprintf("%016x-%s", cluster, id))
}
