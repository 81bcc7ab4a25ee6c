package server

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/lag"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// lagScans lists the watches that are furthest behind. A scan looks at all watches. If there are
// many, callers within a second share a scan. Each answer sorts the watches of the scan by their
// present lag.
type lagScans struct {
	registry *registry.Registry
	now      func() time.Time // time.Now, unless a test replaces it
	many     int              // manyWatches, unless a test replaces it

	mu     sync.Mutex               // held during a scan, so all callers together use one processor
	latest map[lagQuestion]*lagScan // guarded by mu: the scans of the last second
	looked int                      // guarded by mu: the number of watches that all scans have looked at
}

// lagQuestion is what a caller asks for.
type lagQuestion struct {
	resources string // their names, joined
	failing   bool   // only watches whose last report has an error
}

// lagScan is the result of a scan. It keeps no watch in memory.
type lagScan struct {
	began   time.Time
	looked  int               // number of watches
	numbers []registry.Number // of those that were furthest behind, at most maxWatchersPage
}

const (
	// manyWatches is the number of watches from which callers share a scan. It takes about two
	// milliseconds.
	manyWatches = 10_000

	// lagScanAge is how long a scan is used.
	lagScanAge = time.Second
)

func newLagScans(r *registry.Registry) *lagScans {
	return &lagScans{registry: r, now: time.Now, many: manyWatches, latest: map[lagQuestion]*lagScan{}}
}

// list returns the watches of some resources that are furthest behind, or only failing ones. It also
// reports whether these are all.
func (s *lagScans) list(resources []string, onlyFailing bool, most int) (_ []*fanoutv1.WatcherStatus, all bool) {
	found := s.watches(s.scan(resources, onlyFailing))
	if onlyFailing {
		found = failing(found)
	}
	lags := registry.Lags{}
	var watchers []*fanoutv1.WatcherStatus
	bytes := 0
	for i, one := range mostLagging(found, most, lagOf(lags)) {
		w := registry.StatusOf(one, lags)
		if bytes += proto.Size(w); i > 0 && bytes > maxListBytes {
			return watchers, false
		}
		watchers = append(watchers, w)
	}
	return watchers, len(watchers) < most
}

// scan returns the numbers of the watches that are furthest behind, or were within the last second.
func (s *lagScans) scan(resources []string, onlyFailing bool) []registry.Number {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	maps.DeleteFunc(s.latest, func(_ lagQuestion, old *lagScan) bool { return now.Sub(old.began) >= lagScanAge })
	asked := lagQuestion{strings.Join(resources, "\x00"), onlyFailing}
	if recent := s.latest[asked]; recent != nil {
		return recent.numbers
	}
	scan := &lagScan{began: now}
	all := func(yield func(registry.Watch) bool) {
		for w := range s.registry.After(registry.Number{}, resources...) {
			scan.looked++
			if !yield(w) {
				return
			}
		}
	}
	watches := iter.Seq[registry.Watch](all)
	if onlyFailing {
		watches = failing(all)
	}
	for _, w := range mostLagging(watches, maxWatchersPage, lagOf(registry.Lags{})) {
		scan.numbers = append(scan.numbers, w.Number())
	}
	if s.looked += scan.looked; scan.looked >= s.many {
		s.latest[asked] = scan
	}
	return scan.numbers
}

// watches returns the watches with the numbers. It leaves out those that have ended.
func (s *lagScans) watches(numbers []registry.Number) iter.Seq[registry.Watch] {
	return func(yield func(registry.Watch) bool) {
		for _, n := range numbers {
			if w := s.registry.At(n); w != nil && !yield(w) {
				return
			}
		}
	}
}

// mostLagging returns the watches with the largest lag, and of those with equal lags the oldest.
// More than 2*maxWatchersPage watches must come in the order of their numbers. The server does not
// know how long a watch has had no position, if a RESET took away an earlier one.
func mostLagging(all iter.Seq[registry.Watch], most int, lagOf func(registry.Watch) lag.Lag) []registry.Watch {
	type lagging struct {
		watch registry.Watch
		lag   lag.Lag
	}
	var found []lagging
	var least *lag.Lag // the smallest lag of as many watches as are needed; nil: fewer were kept
	keep := func() {
		slices.SortFunc(found, func(x, y lagging) int {
			return cmp.Or(x.lag.Compare(y.lag), x.watch.Number().Compare(y.watch.Number()))
		})
		clear(found[min(len(found), most):])
		if found = found[:min(len(found), most)]; len(found) == most {
			least = new(found[most-1].lag)
		}
	}
	for w := range all {
		l := lagOf(w)
		if least != nil && l.Compare(*least) >= 0 {
			continue
		}
		// So there are never many more watches in memory than the response has.
		if found = append(found, lagging{w, l}); len(found) >= 2*maxWatchersPage {
			keep()
		}
	}
	keep()
	watches := make([]registry.Watch, 0, len(found))
	for _, one := range found {
		watches = append(watches, one.watch)
	}
	return watches
}

func lagOf(lags registry.Lags) func(registry.Watch) lag.Lag {
	return func(w registry.Watch) lag.Lag {
		c := registry.SampleOf(w, lags)
		return lag.Lag{Blocked: c.Progress.Blocked, NoPosition: c.Progress.Position.Revision == 0, IsMinimum: c.Lag.IsMinimum, Seconds: c.Lag.Waited.Seconds()}
	}
}
