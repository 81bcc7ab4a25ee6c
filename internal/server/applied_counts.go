package server

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// appliedCounts counts the watches that have applied a revision. Requests with the same question
// share the counts, and the messages with them.
type appliedCounts struct {
	count func(request.Applied) *registry.Applied
	now   func() time.Time // time.Now, unless a test replaces it

	mu   sync.Mutex
	open map[appliedQuestion]*appliedCount // guarded by mu: those that requests use
}

// appliedQuestion is what a request asks for.
type appliedQuestion struct {
	resource    string
	scope       object.Scope
	revision    object.Revision
	requireAll  bool
	subscribers string // the canonical form of the selector
	instance    string
}

// appliedCount is the latest count for a question.
type appliedCount struct {
	all   *appliedCounts
	query request.Applied
	users int // guarded by appliedCounts.mu

	mu      sync.Mutex        // held during a count
	due     time.Time         // guarded by mu: when the next count may begin
	digest  registry.Digest   // guarded by mu: of the latest count; zero before the first
	counted *registry.Applied // guarded by mu: the latest count; nil once it is encoded, so it keeps no watch in memory
	message []byte            // guarded by mu: the latest count, encoded
}

const (
	// appliedTick is the time between two counts. Reports wake nothing, so their number does not
	// matter.
	appliedTick = 500 * time.Millisecond

	// appliedPause is how many times as long as a count takes the pause is before the next count.
	// So with very many watches, a question takes a tenth of a processor.
	appliedPause = 9
)

// The sizes of the lists of watches in a message. Both together leave room for the numbers.
const (
	maxPendingBytes      = 100 << 10
	maxNotReportingBytes = 24 << 10
	maxAppliedBytes      = 128 << 10
)

func newAppliedCounts(count func(request.Applied) *registry.Applied) *appliedCounts {
	return &appliedCounts{count: count, now: time.Now, open: map[appliedQuestion]*appliedCount{}}
}

// use returns the count for a question. The caller must call done when it no longer needs it.
func (a *appliedCounts) use(q request.Applied) (c *appliedCount, done func()) {
	asked := appliedQuestion{q.Resource, q.Scope, q.Revision, q.RequireAll, q.Subscribers.String(), q.Instance}
	a.mu.Lock()
	defer a.mu.Unlock()
	c = a.open[asked]
	if c == nil {
		c = &appliedCount{all: a, query: q}
		a.open[asked] = c
	}
	c.users++
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if c.users--; c.users == 0 {
			delete(a.open, asked)
		}
	}
}

// current returns the digest of the latest count, after another count if it is time, and when the
// next one is due.
func (c *appliedCount) current() (registry.Digest, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recount()
	return c.digest, c.due
}

// encoded returns the latest count as a message, and its digest.
func (c *appliedCount) encoded() (message []byte, _ registry.Digest, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recount()
	if c.counted != nil {
		var err error
		if c.message, err = proto.Marshal(appliedResponse(c.counted)); err != nil {
			return nil, registry.Digest{}, err
		}
		c.counted = nil
	}
	return c.message, c.digest, nil
}

// recount is called with mu held. It counts again if it is time.
func (c *appliedCount) recount() {
	began := c.all.now()
	if began.Before(c.due) {
		return
	}
	c.counted, c.message = c.all.count(c.query), nil
	c.digest = c.counted.Digest()
	now := c.all.now()
	c.due = now.Add(max(appliedTick, appliedPause*now.Sub(began)))
}

// appliedResponse returns a count as a message. It leaves out watches for which a message has no
// room.
func appliedResponse(a *registry.Applied) *fanoutv1.WatchAppliedResponse {
	resp := &fanoutv1.WatchAppliedResponse{
		Watches: a.Watches, Applied: a.Applied, Failed: a.Failed, Pending: statuses(a.Pending, maxPendingBytes),
		NotReporting: a.NotReporting, NotReportingWatchers: statuses(a.Oldest, maxNotReportingBytes),
	}
	if a.Position != (object.Position{}) {
		resp.Position = backend.ProtoPosition(a.Position)
	}
	return resp
}

// statuses returns the statuses of the first watches, as many as a message has room for.
func statuses(watches []registry.Pending, room int) []*fanoutv1.WatcherStatus {
	var all []*fanoutv1.WatcherStatus
	for _, p := range watches {
		w := p.Status()
		if room -= proto.Size(w); room < 0 {
			break
		}
		all = append(all, w)
	}
	return all
}
