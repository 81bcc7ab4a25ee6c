package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-semver/semver"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/epochs"
	"github.com/fanoutd/fanoutd/internal/store/failover"
)

// RequestProgress implements [object.Watch]. Some versions of etcd do not answer
// progress requests reliably, see [progressIsReliable]. For those, RequestProgress
// writes a progress mark into the watched range: the event of the mark confirms that
// all earlier events have arrived.
func (w *watch) RequestProgress(ctx context.Context) error {
	if !w.collection.store.versions.progressIsReliable(ctx) {
		return w.collection.writeProgressMark(ctx, w.history, object.Revision(w.delivered.Load()))
	}
	// The client blocks while it connects, hence the timeout. It finds the gRPC stream
	// by the context of the watch.
	call, cancel := context.WithTimeout(w.ctx, requestTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	err := w.watcher.RequestProgress(call)
	if err != nil && errors.Is(call.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("request the progress of a watch: %w", object.ErrUnavailable)
	}
	return err
}

// requestTimeout is how long the client may take to send a progress request.
const requestTimeout = time.Second

// markInterval is the minimum time between progress marks. Each mark creates a
// revision, which affects all users of the etcd.
const markInterval = time.Second

// progressMarks is the state of the progress marks of a collection. A mark is a put of
// the bare prefix, which is never the key of an object.
type progressMarks struct {
	mu      sync.Mutex
	history *epochs.History // guarded by mu: the history of newest
	newest  object.Revision // guarded by mu; 0: no mark in that history
	written time.Time       // guarded by mu; zero: no mark was ever written
}

// writeProgressMark writes a mark for a watch that has received everything up to the
// revision delivered. It writes nothing if the store has no later revision, or if a
// mark of the same history is still on its way to the watch.
func (c *Collection) writeProgressMark(ctx context.Context, h *epochs.History, delivered object.Revision) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, err := c.Revision(call)
	if err != nil || now <= delivered {
		return err
	}
	c.marks.mu.Lock()
	defer c.marks.mu.Unlock()
	if c.marks.history != h {
		c.marks.history, c.marks.newest = h, 0
	}
	if c.marks.newest > delivered || time.Since(c.marks.written) < markInterval {
		return nil
	}
	c.marks.written = time.Now()
	resp, err := c.store.client.Put(call, c.prefix, "")
	if err != nil {
		return classify(ctx, err)
	}
	c.marks.newest = object.Revision(resp.Header.GetRevision())
	return nil
}

// isProgressMark reports whether this process writes its progress marks to the key.
func (c *Collection) isProgressMark(key []byte) bool {
	c.marks.mu.Lock()
	defer c.marks.mu.Unlock()
	return len(key) == 0 && !c.marks.written.IsZero()
}

// Versions of etcd that answer progress requests correctly. In earlier versions the
// answer could overtake events (etcd issue 15220), or be missing for a watch without
// events (17507). Kubernetes uses the same versions.
var (
	fixedIn34     = semver.New("3.4.31")
	first35       = semver.New("3.5.0")
	fixedIn35     = semver.New("3.5.13")
	fixedVersions = "3.4.31, 3.5.13"
)

// progressIsReliable reports whether an etcd of this version answers progress requests
// correctly. It assumes so for a version that it cannot parse.
func progressIsReliable(version string) bool {
	v, err := semver.NewVersion(version)
	if err != nil {
		return true
	}
	return !v.LessThan(*fixedIn34) && (v.LessThan(*first35) || !v.LessThan(*fixedIn35))
}

const (
	versionTimeout = 2 * time.Second // for one member to report its version

	// Maximum age of the known versions, and the maximum age after a watch was opened:
	// the new watch may run on a member with another version.
	versionAge         = 5 * time.Minute
	versionAgeNewWatch = 10 * time.Second
)

// memberVersions knows whether all members of an external etcd answer progress requests
// correctly.
type memberVersions struct {
	log   *slog.Logger
	fetch func(context.Context) []string // returns the versions of the members that answer
	stale atomic.Bool                    // a watch was opened since the last fetch

	mu         sync.Mutex // guards everything below; held during fetch
	fetched    time.Time
	unreliable string // version of an unreliable member; empty: none is known
}

func newMemberVersions(client *clientv3.Client, known *failover.Members, log *slog.Logger) *memberVersions {
	// Each member must be asked at its own address.
	members := clientv3.NewMaintenance(client)
	return &memberVersions{log: log, fetch: func(ctx context.Context) []string {
		// A member that does not answer would delay readers that wait for progress.
		if versions, ok := known.Versions(); ok {
			return versions
		}
		var mu sync.Mutex
		var all []string
		var fetching sync.WaitGroup
		for _, endpoint := range client.Endpoints() {
			fetching.Go(func() {
				call, cancel := context.WithTimeout(ctx, versionTimeout)
				defer cancel()
				s, err := members.Status(call, endpoint)
				if err != nil {
					return // the watch does not run on a member that does not answer
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, s.Version)
			})
		}
		fetching.Wait()
		return all
	}}
}

// invalidate makes the next caller fetch the versions again, because a watch was opened.
func (v *memberVersions) invalidate() {
	if v != nil {
		v.stale.Store(true)
	}
}

// progressIsReliable reports whether all members answer progress requests correctly. For an
// embedded etcd, v is nil and the result is true.
func (v *memberVersions) progressIsReliable(ctx context.Context) bool {
	if v == nil {
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	age := time.Since(v.fetched)
	if age < versionAgeNewWatch || age < versionAge && !v.stale.Load() {
		return v.unreliable == ""
	}
	v.stale.Store(false)
	known := v.fetch(ctx)
	if len(known) == 0 {
		return v.unreliable == ""
	}
	before := v.unreliable
	v.fetched, v.unreliable = time.Now(), ""
	for _, version := range known {
		if !progressIsReliable(version) {
			v.unreliable = version
		}
	}
	if v.unreliable != "" && v.unreliable != before {
		v.log.Warn("this version of etcd does not answer progress requests reliably: fanoutd writes a key instead whenever a client waits for progress",
			"version", v.unreliable, "fixed_in", fixedVersions)
	}
	return v.unreliable == ""
}
