package server

import (
	"cmp"
	"context"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// session is a watch that is being served, as operators see it.
type session struct {
	// A worker looks at what follows with each message; see watching.

	mu       sync.Mutex
	sends    bool            // guarded by mu: a message is being handed to the network
	catching bool            // guarded by mu: a catch-up is under way
	messages int64           // guarded by mu: those that were handed to the network
	bytes    int64           // guarded by mu: their size
	at       object.Position // guarded by mu: where the client is; zero before the first message

	number    uint64 // counts the sessions of this server
	peer      string
	userAgent string
	identity  *access.Identity // of who watches
	pass      *access.Pass     // what the credentials are worth that the watch began with
	question  policy.Question  // that has to be granted for as long as the watch lasts
	request   asked
	since     time.Time
	watcher   backend.Watcher
	fence     *flight            // of the messages; nil: of a resource without a cache
	end       func(reason error) // ends the watch with its last position; may be called at any time
}

// sending notes that a message is on its way, which may take time.
func (s *session) sending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends = true
}

// note notes that a message was handed to the network. It returns where the client was
// before, and whether it is the first one.
func (s *session) note(h *object.Header, size int) (before object.Revision, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch h.Kind {
	case object.CatchUpBegin:
		s.catching = true
	case object.Synced:
		s.catching = false
	}
	before, first = s.at.Revision, s.messages == 0
	s.at = h.Position
	s.sends = false
	s.messages++
	s.bytes += int64(size)
	return before, first
}

// blocked reports whether a message waits for the network.
func (s *session) blocked() bool {
	if s.fence != nil {
		return !s.fence.over()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sends
}

// position returns where the client is.
func (s *session) position() object.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// catchingUp reports whether a catch-up is under way.
func (s *session) catchingUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catching
}

// told returns how many messages were handed to the network, and their size.
func (s *session) told() (messages, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages, s.bytes
}

// sessions are all watches that are being served.
type sessions struct {
	server string // begins the ids: other servers, and this one before a restart, have others

	turns atomic.Int64 // sessions that have begun, and those that have ended

	mu     sync.Mutex
	latest uint64              // guarded by mu: the number of the session that began last
	active map[uint64]*session // guarded by mu
}

func newSessions() *sessions {
	random := rand.Uint64()
	b := make([]byte, 0, 6)
	for i := range cap(b) {
		b = append(b, byte(random>>(8*i)))
	}
	return &sessions{server: hex.EncodeToString(b), active: map[uint64]*session{}}
}

// init takes down what the watch is, whose number comes with begin, besides since when it
// is there.
func (s *session) init(ctx context.Context, req *fanoutv1.WatchRequest, scope object.Scope, w backend.Watcher, end func(reason error)) {
	s.identity, s.pass = &rpc.CallOf(ctx).Identity, rpc.PassOf(ctx)
	s.request = askedFor(req)
	s.watcher, s.end = w, end
	s.question = policy.Question{Verb: policy.Watch, Resource: req.GetResource(), Scope: scope}
	s.peer, s.userAgent = transport.CallerOf(ctx)
	s.catching = req.GetFromNow() == nil
}

// begin adds a watch, which must end.
func (a *sessions) begin(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turns.Add(1)
	a.latest++
	s.number = a.latest
	a.active[s.number] = s
}

func (a *sessions) end(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turns.Add(1)
	delete(a.active, s.number)
}

// len returns how many there are.
func (a *sessions) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.active)
}

// reexamine ends each watch for which examine returns an error, with that error. A
// watch that begins meanwhile may be missed, so each one is examined when it has
// begun, too: whoever changes what examine depends on changes it first and then calls
// this. It returns how many it has ended.
func (a *sessions) reexamine(examine func(*session) error) (ended int) {
	for _, s := range a.all() {
		if err := examine(s); err != nil {
			s.end(err)
			ended++
		}
	}
	return ended
}

// id returns the name under which operators know a session.
func (a *sessions) id(s *session) string { return a.server + "-" + strconv.FormatUint(s.number, 10) }

// number returns the number of the session with the id, or false where no session
// of this server can have it.
func (a *sessions) number(id string) (uint64, bool) {
	server, digits, ok := strings.Cut(id, "-")
	if !ok || server != a.server {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// find returns the session with the id, or nil.
func (a *sessions) find(id string) *session {
	n, ok := a.number(id)
	if !ok {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active[n]
}

// of returns the sessions of some resources, in the order in which they began.
func (a *sessions) of(resources ...string) []*session {
	return a.that(func(s *session) bool { return slices.Contains(resources, s.question.Resource) })
}

// all returns all sessions.
func (a *sessions) all() []*session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.AppendSeq(make([]*session, 0, len(a.active)), maps.Values(a.active))
}

// that returns the sessions for which is returns true, in the order in which they began.
func (a *sessions) that(is func(*session) bool) []*session {
	a.mu.Lock()
	found := make([]*session, 0, len(a.active))
	for _, s := range a.active {
		if is(s) {
			found = append(found, s)
		}
	}
	a.mu.Unlock()
	slices.SortFunc(found, func(x, y *session) int { return cmp.Compare(x.number, y.number) })
	return found
}

// count returns the number of sessions by resource.
func (a *sessions) count() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := map[string]int{}
	for _, s := range a.active {
		n[s.question.Resource]++
	}
	return n
}
