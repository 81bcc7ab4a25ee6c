// Package script is a server that does what a scenario says: it accepts the watches of a client, sends
// messages, ends watches, cuts connections and keeps silent. It knows no data; [History] makes messages.
//
// A scenario handles watches in the same way, whether the client uses Watch or Subscribe.
package script

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Server is a scripted server.
type Server struct {
	fanoutv1.UnimplementedFanoutServiceServer

	subscribes bool
	address    string

	mu       sync.Mutex
	changed  chan struct{}     // closed and replaced when something below changes; guarded by mu
	conns    map[string]*conn  // by the address of the client; guarded by mu
	numbers  map[string]int    // of connections, in order of their beginning; guarded by mu
	opened   []*Watch          // not accepted yet; guarded by mu
	tokens   map[string]*Watch // by the names that the client reports with; guarded by mu
	streams  int               // Subscribe streams so far; guarded by mu
	live     int               // RPCs that have not ended; guarded by mu
	refusing error             // answers each new watch; nil: watches are accepted; guarded by mu
	attempts []Attempt         // refused watches; guarded by mu
	synced   map[string]bool   // the names of watches that were sent SYNCED; guarded by mu
	sent     map[string]string // the last message to each name, in a short form; guarded by mu

	listener net.Listener // guarded by mu
	done     sync.WaitGroup
}

// NewServer starts a server on a free port of the loopback interface. If it does not subscribe, it
// answers Subscribe with UNIMPLEMENTED. The caller stops it.
func NewServer(subscribes bool) (*Server, error) {
	s := &Server{
		subscribes: subscribes, changed: make(chan struct{}), conns: map[string]*conn{}, numbers: map[string]int{}, tokens: map[string]*Watch{},
		synced: map[string]bool{}, sent: map[string]string{},
	}
	return s, s.Start()
}

// acceptPause is the time after which a server tries again to accept a connection, for example when the process had
// too many open files.
const acceptPause = 10 * time.Millisecond

// Start starts a server again that was stopped, at the same address.
func (s *Server) Start() error {
	address := s.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("start the scripted server: %w", err)
	}
	s.mu.Lock()
	s.address, s.listener = l.Addr().String(), l
	s.mu.Unlock()
	s.done.Go(func() {
		for {
			accepted, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return // Stop was called
			} else if err != nil {
				<-time.After(acceptPause)
				continue
			}
			s.serve(accepted)
		}
	})
	return nil
}

// serve serves a connection.
func (s *Server) serve(accepted net.Conn) {
	c := newConn(accepted)
	// Each connection has a server of its own, which can send GOAWAY on this connection only. Clients may
	// ping as often as a real server allows.
	c.server = grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}))
	fanoutv1.RegisterFanoutServiceServer(c.server, s)
	s.mu.Lock()
	s.conns[c.RemoteAddr().String()] = c
	s.numbers[c.RemoteAddr().String()] = len(s.numbers) + 1
	s.signal()
	s.mu.Unlock()
	s.done.Go(func() { _ = c.server.Serve(&onlyConn{conn: c, closed: make(chan struct{})}) }) // it ends with the connection
}

// Stop ends all connections, and waits for all RPCs.
func (s *Server) Stop() {
	s.mu.Lock()
	_ = s.listener.Close() // it cannot be closed twice in a way that matters
	conns := s.conns
	s.conns = map[string]*conn{}
	s.mu.Unlock()
	for _, c := range conns {
		c.hangUp()
		c.server.Stop()
	}
	s.done.Wait()
}

// HangUp ends the connections that are half open, whose ends the server does not see.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if c.isHalfOpen() {
			c.hangUp()
		}
	}
}

// Address returns the address of the server.
func (s *Server) Address() string { return s.address }

// signal wakes all goroutines that wait for a change. The caller holds mu.
func (s *Server) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until a condition holds, which is called with mu held.
func (s *Server) await(ctx context.Context, is func() bool) error {
	for {
		s.mu.Lock()
		changed, ok := s.changed, is()
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Accept returns the next watch with this name, which is its prefix. It waits until the client opens it.
func (s *Server) Accept(ctx context.Context, name string) (found *Watch, err error) {
	err = s.await(ctx, func() bool {
		for i, w := range s.opened {
			if w.Name() == name {
				found = w
				s.opened = append(s.opened[:i:i], s.opened[i+1:]...)
				return true
			}
		}
		return false
	})
	return found, err
}

// Waiting returns the number of watches with this name that were opened and not accepted.
func (s *Server) Waiting(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.opened {
		if w.Name() == name {
			n++
		}
	}
	return n
}

// Refuse makes the server answer each new watch with an error, until it is called with nil.
func (s *Server) Refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = err
}

// Attempts returns the watches that were refused.
func (s *Server) Attempts() []Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Attempt(nil), s.attempts...)
}

// AwaitAttempts waits until so many watches were refused.
func (s *Server) AwaitAttempts(ctx context.Context, n int) error {
	return s.await(ctx, func() bool { return len(s.attempts) >= n })
}

// AwaitAttempt waits until a watch with this name was refused. It ignores the first attempts of the server.
func (s *Server) AwaitAttempt(ctx context.Context, name string, ignored int) error {
	return s.await(ctx, func() bool {
		return slices.ContainsFunc(s.attempts[ignored:], func(a Attempt) bool { return a.Name == name })
	})
}

// AwaitAttemptsOf waits until a watch was refused so often.
func (s *Server) AwaitAttemptsOf(ctx context.Context, name string, count int) error {
	return s.await(ctx, func() bool {
		n := 0
		for _, a := range s.attempts {
			if a.Name == name {
				n++
			}
		}
		return n >= count
	})
}

// HasSynced reports whether a watch with this name was sent SYNCED.
func (s *Server) HasSynced(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced[name]
}

// ForgetSynced makes HasSynced forget what was sent.
func (s *Server) ForgetSynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.synced)
}

// LastSent returns the last message that a watch with this name was sent, in a short form.
func (s *Server) LastSent(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.sent[name], "nothing")
}

// note remembers a message of a watch.
func (s *Server) note(name string, m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED {
		s.synced[name] = true
	}
	partial := ""
	if m.GetPartial() {
		partial = "partial "
	}
	s.sent[name] = fmt.Sprintf("%s%s at {%s %d} last", partial, strings.TrimPrefix(m.GetKind().String(), "KIND_"), m.GetPosition().GetEpoch(), m.GetPosition().GetRevision())
}

// Streams returns how many Subscribe streams were accepted so far.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

// AwaitIdle waits until no RPC is open.
func (s *Server) AwaitIdle(ctx context.Context) error {
	return s.await(ctx, func() bool { return s.live == 0 })
}

// admit prepares a watch, or refuses it.
func (s *Server) admit(ctx context.Context, w *Watch) error {
	address := ""
	if p, ok := peer.FromContext(ctx); ok {
		address = p.Addr.String()
	}
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) > 0 {
		w.Authorization = values[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.conn, w.Connection = s.conns[address], s.numbers[address]
	if s.refusing != nil {
		s.attempts = append(s.attempts, Attempt{w.Name(), w.Opened, w.Connection})
		s.signal()
	}
	return s.refusing
}

// offer lets the scenario accept a watch.
func (s *Server) offer(w *Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, w)
	s.signal()
}

// enter counts an RPC. The caller calls leave when it ends.
func (s *Server) enter() (leave func()) {
	count := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.live += n
		s.signal()
	}
	count(1)
	return func() { count(-1) }
}

// Watch implements fanoutv1.FanoutServiceServer.
func (s *Server) Watch(req *fanoutv1.WatchRequest, out grpc.ServerStreamingServer[fanoutv1.WatchResponse]) error {
	defer s.enter()()
	w := newWatch(s, req)
	w.send = func(m Message) error { return out.Send(m) }
	if err := s.admit(out.Context(), w); err != nil {
		return err
	}
	token := fmt.Sprintf("watch-%p", w)
	s.mu.Lock()
	s.tokens[token] = w
	s.mu.Unlock()
	defer w.gone()
	if err := out.SendHeader(metadata.Pairs("fanout-watch", token)); err != nil {
		return err
	}
	s.offer(w)
	select {
	case err := <-w.end:
		return err
	case <-out.Context().Done():
		return out.Context().Err()
	}
}

// Report implements fanoutv1.FanoutServiceServer.
func (s *Server) Report(_ context.Context, req *fanoutv1.ReportRequest) (*fanoutv1.ReportResponse, error) {
	s.mu.Lock()
	w := s.tokens[req.GetWatch()]
	s.mu.Unlock()
	if w == nil {
		return nil, Refusal(codes.NotFound, "WATCH_NOT_FOUND")
	}
	err := w.report(Report{Applied: req.GetApplied(), Attempted: req.GetAttempted(), Error: req.GetError(), FailedKeys: req.GetFailedKeys()})
	return &fanoutv1.ReportResponse{}, err
}

// Subscribe implements fanoutv1.FanoutServiceServer.
func (s *Server) Subscribe(rpc grpc.BidiStreamingServer[fanoutv1.SubscribeRequest, fanoutv1.SubscribeResponse]) error {
	if !s.subscribes {
		return status.Error(codes.Unimplemented, "unknown method Subscribe")
	}
	defer s.enter()()
	s.mu.Lock()
	s.streams++
	st := &Stream{server: s, rpc: rpc, watches: map[uint64]*Watch{}, end: make(chan error, 1)}
	s.mu.Unlock()
	defer st.gone()
	if err := rpc.SendHeader(nil); err != nil {
		return err
	}
	// A client that closes its side of the stream still receives.
	s.done.Go(func() {
		if err := st.read(); err != nil {
			st.End(err)
		}
	})
	select {
	case err := <-st.end:
		return err
	case <-rpc.Context().Done():
		return rpc.Context().Err()
	}
}

// nameOf returns the name of a watch: its prefix or its key, without the slash.
func nameOf(req *fanoutv1.WatchRequest) string {
	scope := req.GetScope()
	if key := scope.GetKey(); key != "" {
		return key
	}
	return strings.TrimSuffix(scope.GetPrefix(), "/")
}
