package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-semver/semver"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/epochs"
)

// RequestProgress implements [object.Watch]. Some versions of etcd do not answer
// progress requests reliably, see [progressIsReliable]. For those, RequestProgress
// writes a progress mark into the watched range: the event of the mark confirms that
// all earlier events have arrived.
func (w *watch) RequestProgress(ctx context.Context) error {
	if !w.collection.store.versions.progressIsReliable(ctx) {
		return w.collection.writeProgressMark(ctx, w.history, object.Revision(w.delivered.Load()))
	}
	if w.live != nil {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		w.live.RequestProgress()
		return nil
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

// memberVersions knows whether all members of an external etcd answer progress requests
// correctly.
type memberVersions struct {
	log   *slog.Logger
	known func(context.Context) []string // returns the versions of the members that have answered

	mu         sync.Mutex
	unreliable string // guarded by mu: version of an unreliable member; empty: none is known
}

// progressIsReliable reports whether all members answer progress requests correctly. For an
// embedded etcd, v is nil and the result is true.
func (v *memberVersions) progressIsReliable(ctx context.Context) bool {
	if v == nil {
		return true
	}
	unreliable := ""
	for _, version := range v.known(ctx) {
		if !progressIsReliable(version) {
			unreliable = version
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if unreliable != "" && unreliable != v.unreliable {
		v.log.Warn("this version of etcd does not answer progress requests reliably: fanoutd writes a key instead whenever a client waits for progress",
			"version", unreliable, "fixed_in", fixedVersions)
	}
	v.unreliable = unreliable
	return unreliable == ""
}
