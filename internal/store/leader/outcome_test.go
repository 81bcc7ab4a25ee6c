package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/store/leader"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// standIn stands for the leader's member, and says how each write ends.
type standIn struct {
	pb.UnimplementedKVServer
	listener net.Listener
	server   *grpc.Server
	received atomic.Int64
	answer   func(ctx context.Context, n int64) error // to the write of a number, from 1 on
}

// Put implements [pb.KVServer].
func (s *standIn) Put(ctx context.Context, _ *pb.PutRequest) (*pb.PutResponse, error) {
	if err := s.answer(ctx, s.received.Add(1)); err != nil {
		return nil, err
	}
	return &pb.PutResponse{}, nil
}

// follower is what the own member knows.
type follower struct {
	mu      sync.Mutex
	leader  types.ID      // guarded by mu
	changed chan struct{} // guarded by mu

	stopping chan struct{} // nil: the own member does not stop
}

func (*follower) MemberID() types.ID                { return 1 }
func (f *follower) StoppingNotify() <-chan struct{} { return f.stopping }

func (f *follower) Leader() types.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader
}

func (f *follower) LeaderChangedNotify() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// follow changes the leader.
func (f *follower) follow(leader types.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = leader
	close(f.changed)
	f.changed = make(chan struct{})
}

// standInAt starts a stand-in at an address.
func standInAt(t *testing.T, address string, answer func(ctx context.Context, n int64) error) *standIn {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &standIn{listener: listener, server: grpc.NewServer(), answer: answer}
	pb.RegisterKVServer(s.server, s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.server.Serve(listener) })
	t.Cleanup(func() {
		s.server.Stop()
		serving.Wait()
	})
	return s
}

// clientOf returns a client of a follower that knows the addresses of members, whose ids begin with 2.
func clientOf(t *testing.T, f *follower, addresses ...string) *leader.Client {
	t.Helper()
	f.changed = make(chan struct{})
	c, err := leader.New(t.Context(), leader.Config{Raft: f, ClientURLs: func(id types.ID) []string {
		return []string{"http://" + addresses[id-2]}
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// kindOf returns which of the four outcomes an error means.
func kindOf(err error) string {
	_, known := errors.AsType[*leader.NotAppliedError](err)
	_, unknown := errors.AsType[*leader.UnknownOutcomeError](err)
	switch {
	case err == nil:
		return "applied"
	case known:
		return "not applied"
	case unknown:
		return "unknown"
	}
	return "refused"
}

// A write is sent again after an error which means that it was not proposed, and after no other error.
func TestErrorsOfWrites(t *testing.T) {
	const again = "applied" // by the second attempt
	for _, test := range []struct {
		err  error
		want string
	}{
		{status.Error(codes.Unknown, "raft proposal dropped"), again},
		{rpctypes.ErrGRPCNoLeader, again},
		{rpctypes.ErrTooManyRequests, again},
		{rpctypes.ErrGRPCNotCapable, again},
		{rpctypes.ErrGRPCNotSupportedForLearner, again},
		{leader.Forming("the cluster is being formed"), again},

		{rpctypes.ErrGRPCTimeout, "unknown"},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, "unknown"},
		{rpctypes.ErrGRPCTimeoutDueToConnectionLost, "unknown"},
		{rpctypes.ErrGRPCStopped, "unknown"},
		{rpctypes.ErrGRPCLeaderChanged, "unknown"},
		{rpctypes.ErrGRPCCanceled, "unknown"},
		{status.Error(codes.Unknown, "raft: stopped"), "unknown"},
		{status.Error(codes.Unknown, context.DeadlineExceeded.Error()), "unknown"},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), "unknown"},
		{status.Error(codes.Unavailable, "the cluster is being formed"), "unknown"},
		{status.Error(codes.DeadlineExceeded, "by a proxy"), "unknown"},
		{status.Error(codes.Canceled, "by a proxy"), "unknown"},
		{status.Error(codes.Internal, "stream terminated by RST_STREAM"), "unknown"},
		{status.Error(codes.Aborted, "not a code of etcd"), "unknown"},

		{rpctypes.ErrGRPCNoSpace, "refused"},
		{rpctypes.ErrGRPCRequestTooLarge, "refused"},
		{rpctypes.ErrGRPCLeaseExist, "refused"},
		{rpctypes.ErrGRPCLeaseNotFound, "refused"},
		{rpctypes.ErrGRPCDuplicateKey, "refused"},
		{rpctypes.ErrGRPCPermissionDenied, "refused"},
		{rpctypes.ErrGRPCCorrupt, "refused"},
	} {
		t.Run(test.err.Error(), func(t *testing.T) {
			s := standInAt(t, "127.0.0.1:0", func(_ context.Context, n int64) error {
				if n == 1 {
					return test.err
				}
				return nil
			})
			c := clientOf(t, &follower{leader: 2}, s.listener.Addr().String())
			ctx := poll.Context(t)
			_, err := c.Put(ctx, put("key"))
			// The client of etcd passes errors through this function.
			if got := kindOf(clientv3.ContextError(ctx, err)); got != test.want {
				t.Errorf("got %s: %v, want %s", got, err, test.want)
			}
			sent := int64(1)
			if test.want == again {
				sent = 2
			}
			if n := s.received.Load(); n != sent {
				t.Errorf("the write was sent %d times, want %d", n, sent)
			}
			if test.want == "refused" && !errors.Is(err, test.err) {
				t.Errorf("got %v, want etcd's own error", err)
			}
		})
	}
}

// A connection that breaks after a write was sent leaves its outcome unknown.
func TestBrokenConnection(t *testing.T) {
	var s *standIn
	broken := make(chan struct{})
	s = standInAt(t, "127.0.0.1:0", func(ctx context.Context, _ int64) error {
		go func() { s.server.Stop(); close(broken) }()
		<-ctx.Done()
		return nil
	})
	c := clientOf(t, &follower{leader: 2}, s.listener.Addr().String())
	_, err := c.Put(poll.Context(t), put("key"))
	<-broken
	if got := kindOf(err); got != "unknown" {
		t.Errorf("got %s: %v, want an unknown outcome", got, err)
	}
	if n := s.received.Load(); n != 1 {
		t.Errorf("the write was sent %d times", n)
	}
}

// A write that cannot be sent waits for the member, or ends with its context and was not applied.
func TestMemberThatIsNotThere(t *testing.T) {
	address := loopback.FreeAddress(t)
	c := clientOf(t, &follower{leader: 2}, address)
	ctx, cancel := context.WithCancel(t.Context())
	short, patient := make(chan error, 1), make(chan error, 1)
	go func() { _, err := c.Put(ctx, put("key")); short <- err }()
	poll.Until(t, "the write was tried again", func() bool { return c.Stats().SentAgain > 0 })
	cancel()
	if err := <-short; kindOf(err) != "not applied" {
		t.Errorf("got %v, want that the write was not applied", err)
	}
	before := c.Stats().SentAgain
	go func() { _, err := c.Put(poll.Context(t), put("key")); patient <- err }()
	poll.Until(t, "the write was tried again", func() bool { return c.Stats().SentAgain > before })
	s := standInAt(t, address, func(context.Context, int64) error { return nil })
	if err := <-patient; err != nil {
		t.Error(err)
	}
	if n := s.received.Load(); n != 1 {
		t.Errorf("the write was sent %d times", n)
	}
}

// A write waits while there is no leader, and is sent to the next one at once.
func TestNextLeader(t *testing.T) {
	s := standInAt(t, "127.0.0.1:0", func(context.Context, int64) error { return nil })
	f := &follower{}
	c := clientOf(t, f, loopback.FreeAddress(t), s.listener.Addr().String())
	written := make(chan error, 1)
	go func() { _, err := c.Put(poll.Context(t), put("key")); written <- err }()
	poll.Until(t, "the write was tried again", func() bool { return c.Stats().SentAgain > 0 })
	f.follow(3)
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// A former leader may answer late, but a write does not wait for it for long.
func TestFormerLeader(t *testing.T) {
	answers := make(chan struct{})
	s := standInAt(t, "127.0.0.1:0", func(ctx context.Context, n int64) error {
		if n == 1 {
			<-answers
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	f := &follower{leader: 2}
	c := clientOf(t, f, s.listener.Addr().String(), loopback.FreeAddress(t))
	for n, want := range []string{"applied", "unknown"} {
		f.follow(2)
		written := make(chan error, 1)
		poll.Until(t, "the leader is known", func() bool { return f.Leader() == 2 })
		go func() { _, err := c.Put(poll.Context(t), put("key")); written <- err }()
		poll.Until(t, "the leader has the write", func() bool { return s.received.Load() == int64(n+1) })
		f.follow(3)
		if n == 0 {
			close(answers)
		}
		if err := <-written; kindOf(err) != want {
			t.Errorf("write %d: got %v, want %s", n, err, want)
		}
	}
}

// A context that has ended sends nothing.
func TestContextThatHasEnded(t *testing.T) {
	s := standInAt(t, "127.0.0.1:0", func(context.Context, int64) error { return nil })
	c := clientOf(t, &follower{leader: 2}, s.listener.Addr().String())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Put(ctx, put("key")); kindOf(err) != "not applied" || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the write was not applied", err)
	}
	if n := s.received.Load(); n != 0 {
		t.Errorf("the write was sent %d times", n)
	}
}

// A write that waits for a leader ends when the own member stops, and later ones end at once.
func TestOwnMemberStops(t *testing.T) {
	f := &follower{stopping: make(chan struct{})}
	c := clientOf(t, f)
	waiting := make(chan error, 1)
	go func() { _, err := c.Put(poll.Context(t), put("key")); waiting <- err }()
	poll.Until(t, "the write was tried again", func() bool { return c.Stats().SentAgain > 0 })
	close(f.stopping)
	if err := <-waiting; kindOf(err) != "not applied" {
		t.Errorf("got %v, want that the write was not applied", err)
	}
	if _, err := c.Put(poll.Context(t), put("key")); kindOf(err) != "not applied" {
		t.Errorf("got %v, want that the write was not applied", err)
	}
}

// The outcome of a write that waits for its answer is unknown when the client is closed. Later ones end at once.
func TestCloseEndsWrites(t *testing.T) {
	s := standInAt(t, "127.0.0.1:0", func(ctx context.Context, _ int64) error {
		<-ctx.Done()
		return ctx.Err()
	})
	c := clientOf(t, &follower{leader: 2}, s.listener.Addr().String())
	waiting := make(chan error, 1)
	go func() { _, err := c.Put(poll.Context(t), put("key")); waiting <- err }()
	poll.Until(t, "the leader has the write", func() bool { return s.received.Load() == 1 })
	c.Close()
	if err := <-waiting; kindOf(err) != "unknown" {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if _, err := c.Put(poll.Context(t), put("key")); kindOf(err) != "not applied" {
		t.Errorf("got %v, want that the write was not applied", err)
	}
}

// A member that has moved is found at its new address, although it is still the leader.
func TestLeaderMoves(t *testing.T) {
	s := standInAt(t, "127.0.0.1:0", func(context.Context, int64) error { return nil })
	var moved atomic.Bool
	old := loopback.FreeAddress(t)
	f := &follower{leader: 2, changed: make(chan struct{})}
	c, err := leader.New(t.Context(), leader.Config{Raft: f, ClientURLs: func(types.ID) []string {
		if moved.Load() {
			return []string{"http://" + s.listener.Addr().String()}
		}
		return []string{"http://" + old}
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	written := make(chan error, 1)
	go func() { _, err := c.Put(poll.Context(t), put("key")); written <- err }()
	poll.Until(t, "the write was tried again", func() bool { return c.Stats().SentAgain > 0 })
	moved.Store(true)
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// While a member stops gracefully and starts again, writes are answered, or were not sent and wait.
func TestMemberStopsGracefully(t *testing.T) {
	answer := func(context.Context, int64) error { return nil }
	address := loopback.FreeAddress(t)
	s := standInAt(t, address, answer)
	c := clientOf(t, &follower{leader: 2}, address)
	var acked, received atomic.Int64
	ctx, stop := context.WithCancel(poll.Context(t))
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for ctx.Err() == nil {
				if _, err := c.Put(poll.Context(t), put("key")); err != nil {
					t.Errorf("got %v, want that writes wait", err)
				}
				acked.Add(1)
			}
		})
	}
	for range 5 {
		until := acked.Load() + 10*writers
		poll.Until(t, "more writes are acknowledged", func() bool { return acked.Load() >= until })
		s.server.GracefulStop()
		received.Add(s.received.Load())
		s = standInAt(t, address, answer)
	}
	stop()
	writing.Wait()
	if sent := received.Load() + s.received.Load(); sent != acked.Load() {
		t.Errorf("%d writes were received %d times", acked.Load(), sent)
	}
}
