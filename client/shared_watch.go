package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// sharedWatch is one watch on the server for all informers of a client that want the same. It
// keeps the objects, so an informer that joins gets the present state at once. The informers
// take the changes from queues of their own, so none of them can delay the watch.
//
// The first informer starts the goroutine of the watch. The last one that leaves stops the
// goroutine and waits for it.
type sharedWatch struct {
	client   *Client
	identity string // its key in Client.shared; "" if it is not shared
	watcher  *watcher
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the watch has ended
	err      error         // of the watch; set before ended is closed

	mu      sync.Mutex
	state   objectState // guarded by mu
	members []*member   // in the order in which they joined; guarded by mu
	lost    time.Time   // when the watch has lost its server; zero: never; guarded by mu
}

// member is an informer that takes part in a shared watch.
type member struct {
	watch *sharedWatch
	queue *coalescingQueue[*Object]
	// joined says that others take part already, so the state may be older than the member.
	joined bool
	// interrupted is called when the watch has lost its server, and without an error for the last
	// time before the member has joined. It must not wait.
	interrupted func(at time.Time, err error)
	// progress returns how far the member has applied the watch. It must not wait.
	progress func() progress
}

// joinWatch takes part in a watch. The caller must leave it. With a saved state, the member
// has that state already, and a watch of its own, which resumes at the position of the state.
func (c *Client) joinWatch(ctx context.Context, w *watcher, saved *objectState, applied func() progress, interrupted func(time.Time, error)) *member {
	m := &member{queue: newCoalescingQueue[*Object](), progress: applied, interrupted: interrupted}
	identity := w.shareable(ctx)
	if saved.at.Revision > 0 {
		w.at, identity = saved.at, ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if shared := c.shared[identity]; shared != nil {
		shared.add(m)
		return m
	}
	// The watch may outlive the member, but it makes requests in its name.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &sharedWatch{
		client: c, identity: identity, watcher: w, cancel: cancel, ended: make(chan struct{}),
		state: *saved, members: []*member{m},
	}
	m.watch = s
	if identity != "" {
		c.shared[identity] = s
	}
	w.onInterruption = []func(error){s.interrupted}
	w.reporter.progress = s.progress
	go s.run(ctx)
	return m
}

// shareable returns what identifies the watches that can share one, or "" if this one cannot be
// shared. The state of AtRevision is that of no other informer. Metadata of the request, such as
// a token, may give it other rights.
func (w *watcher) shareable(ctx context.Context) string {
	req := proto.CloneOf(w.request())
	if _, ok := req.GetConsistency().GetLevel().(*fanoutv1.ReadConsistency_ExactRevision); ok {
		return ""
	}
	if md, ok := metadata.FromOutgoingContext(ctx); ok && len(md) > 0 {
		return ""
	}
	identity, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return "" // the watch will report the error
	}
	return string(identity)
}

// add adds a member, which begins with the present state.
func (s *sharedWatch) add(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.watch, m.joined = s, true
	s.members = append(s.members, m)
	if !s.lost.IsZero() {
		m.interrupted(s.lost, nil)
	}
	if begin := s.state.beginning(); begin != nil {
		m.queue.beginWith(begin)
	}
}

// leave ends the part of a member. The last one waits for the end of the watch.
func (m *member) leave() {
	s := m.watch
	s.client.mu.Lock()
	s.mu.Lock()
	s.members = slices.DeleteFunc(s.members, func(other *member) bool { return other == m })
	last := len(s.members) == 0
	s.mu.Unlock()
	if last {
		s.forget()
	}
	s.client.mu.Unlock()
	if last {
		s.cancel()
		<-s.ended
		return
	}
	s.watcher.reporter.wake() // the others may have applied more
}

// forget makes the next informer start another watch. The caller holds Client.mu.
func (s *sharedWatch) forget() {
	if s.client.shared[s.identity] == s {
		delete(s.client.shared, s.identity)
	}
}

// run is the goroutine of the watch.
func (s *sharedWatch) run(ctx context.Context) {
	defer s.cancel()
	err := s.watcher.run(ctx, s.update)
	s.client.mu.Lock()
	s.forget()
	s.client.mu.Unlock()
	s.err = err
	close(s.ended)
}

// update passes an update of the watch to all members.
func (s *sharedWatch) update(u *Update) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.state.apply(u)
	if next == nil {
		return true
	}
	for _, m := range s.members {
		m.queue.put(next)
	}
	return true
}

func (s *sharedWatch) interrupted(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = time.Now()
	for _, m := range s.members {
		m.interrupted(s.lost, err)
	}
}

// progress returns how far all members have applied the watch.
func (s *sharedWatch) progress() progress {
	s.mu.Lock()
	members := slices.Clone(s.members)
	s.mu.Unlock()
	var all progress
	for n, m := range members {
		if n == 0 {
			all = m.progress()
		} else {
			all = all.lower(m.progress())
		}
	}
	return all
}
