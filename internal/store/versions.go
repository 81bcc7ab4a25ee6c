package store

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-semver/semver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

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
