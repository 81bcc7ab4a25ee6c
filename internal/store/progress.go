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
)

// RequestProgress implements [object.Stream]. Where etcd cannot be relied on when it
// is asked, see [answersProgress], a write into the range of the watch takes the
// place of the question: when its event is there, so is all that was before.
func (s *stream) RequestProgress(ctx context.Context) error {
	if !s.collection.store.versions.answerProgress(ctx) {
		return s.collection.mark(ctx, s.history, object.Revision(s.through.Load()))
	}
	// The client takes no requests while it connects. It finds the gRPC stream by
	// the context of the watch.
	call, cancel := context.WithTimeout(s.ctx, requestTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	err := s.watcher.RequestProgress(call)
	if err != nil && errors.Is(call.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("ask etcd how far a watch is: %w", object.ErrUnavailable)
	}
	return err
}

// requestTimeout is how long the client may take to pass a progress request on.
const requestTimeout = time.Second

// markInterval is how often a mark is written at most: it makes a revision for
// everybody.
const markInterval = time.Second

// marks are what a collection has written for the sake of progress: the key that is
// the bare prefix, which is no object's.
type marks struct {
	mu      sync.Mutex
	history *history        // guarded by mu: to which newest belongs
	newest  object.Revision // guarded by mu; 0: none was written in that history
	written time.Time       // guarded by mu; zero: none was ever written
}

// mark writes a mark if it helps a stream that has got through to a revision: if
// there is something behind that, and no mark of the stream's history is on its way.
func (c *Collection) mark(ctx context.Context, h *history, through object.Revision) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, err := c.Revision(call)
	if err != nil || now <= through {
		return err
	}
	c.marks.mu.Lock()
	defer c.marks.mu.Unlock()
	if c.marks.history != h {
		c.marks.history, c.marks.newest = h, 0
	}
	if c.marks.newest > through || time.Since(c.marks.written) < markInterval {
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

// isMark reports whether a key is that of the marks of this process.
func (c *Collection) isMark(key []byte) bool {
	c.marks.mu.Lock()
	defer c.marks.mu.Unlock()
	return len(key) == 0 && !c.marks.written.IsZero()
}

// The versions of etcd that answer progress requests as they should: before, the
// answer could overtake events (etcd issue 15220), or not come at all to a watch that
// has had no event yet (17507). Kubernetes draws the line at the same versions.
var (
	fixedIn34  = semver.New("3.4.31")
	first35    = semver.New("3.5.0")
	fixedIn35  = semver.New("3.5.13")
	goodToKnow = "3.4.31, 3.5.13"
)

// answersProgress reports whether an etcd of this version can be asked for progress.
// What cannot be read is not known to be wrong.
func answersProgress(version string) bool {
	v, err := semver.NewVersion(version)
	if err != nil {
		return true
	}
	return !v.LessThan(*fixedIn34) && (v.LessThan(*first35) || !v.LessThan(*fixedIn35))
}

const (
	versionTimeout = 2 * time.Second // for a member to say its version

	// For so long what was said is believed: less long when a watch was opened
	// again, because that may be at a member of another version.
	versionAge      = 5 * time.Minute
	versionAgeAtAll = 10 * time.Second
)

// versions knows whether all members of an external etcd can be asked for progress.
type versions struct {
	log   *slog.Logger
	ask   func(context.Context) []string // the versions of those who answer
	stale atomic.Bool                    // a watch was opened since

	mu     sync.Mutex // guards everything below; held while members are asked
	asked  time.Time
	faulty string // the version of a member that cannot; empty: none is known
}

func newVersions(client *clientv3.Client, log *slog.Logger) *versions {
	// Each member has to be asked, and by its own address.
	members := clientv3.NewMaintenance(client)
	return &versions{log: log, ask: func(ctx context.Context) []string {
		var mu sync.Mutex
		var all []string
		var asking sync.WaitGroup
		for _, endpoint := range client.Endpoints() {
			asking.Go(func() {
				call, cancel := context.WithTimeout(ctx, versionTimeout)
				defer cancel()
				s, err := members.Status(call, endpoint)
				if err != nil {
					return // it is not the one that we are connected to
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, s.Version)
			})
		}
		asking.Wait()
		return all
	}}
}

// expire says that a watch was opened.
func (v *versions) expire() {
	if v != nil {
		v.stale.Store(true)
	}
}

// answerProgress reports whether etcd can be asked for progress.
func (v *versions) answerProgress(ctx context.Context) bool {
	if v == nil {
		return true // in this process: it is the version that we are built with
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	age := time.Since(v.asked)
	if age < versionAgeAtAll || age < versionAge && !v.stale.Load() {
		return v.faulty == ""
	}
	v.stale.Store(false)
	known := v.ask(ctx)
	if len(known) == 0 {
		return v.faulty == ""
	}
	before := v.faulty
	v.asked, v.faulty = time.Now(), ""
	for _, version := range known {
		if !answersProgress(version) {
			v.faulty = version
		}
	}
	if v.faulty != "" && v.faulty != before {
		v.log.Warn("this version of etcd cannot be relied on when it is asked how far a watch is; a write is made instead, each time that somebody waits for that",
			"version", v.faulty, "fixed_in", goodToKnow)
	}
	return v.faulty == ""
}
