package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// collect watches until the script is over. It returns the updates, in short, and the
// error that ended the watch, if any.
func collect(t *testing.T, r *client.Resource, opts ...client.WatchOption) (updates []string, end error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second) // before the server counts as silent
	defer cancel()
	for u, err := range r.Watch(ctx, opts...) {
		if errors.Is(err, context.DeadlineExceeded) {
			return updates, nil
		} else if err != nil {
			return updates, err
		}
		updates = append(updates, formatUpdate(u))
	}
	t.Error("the watch ended without an error")
	return updates, nil
}

// A server that knew the deadline would end the stream as well. If it did so first, the
// caller would see an interruption.
func TestServersDoNotKnowTheDeadlineOfAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), synced(5)}}}}
		updates, err := collect(t, connectTo(t, s), client.OnInterruption(func(err error) { t.Errorf("interrupted: %v", err) }))
		if len(updates) != 2 || err != nil {
			t.Errorf("got %q and %v, want two updates and no error", updates, err)
		}
		if n := s.deadlines.Load(); n != 0 {
			t.Errorf("the server knows the deadline of %d watches, want 0", n)
		}
	})
}

func TestWatchesResume(t *testing.T) {
	start := []string{"replace [e/0]", "+a@5 [e/0]", "synced e/5"}
	snapshot := stream{messages: []message{reset(), part(0, added("a", 5)), synced(5)}, end: errLost}
	for name, c := range map[string]struct {
		opts    []client.WatchOption
		streams []stream
		starts  []string
		updates []string
		end     error
	}{
		"at the position": {
			streams: []stream{snapshot, {messages: []message{replay(5), part(6, added("b", 6)), synced(6), live(7, modified("b", 7))}}},
			starts:  []string{"nothing", "e/5"},
			updates: slices.Concat(start, []string{"+b@6 e/6", "synced e/6", "*b@7 e/7"}),
		},
		"after a bookmark and draining": {
			streams: []stream{
				{messages: []message{reset(), synced(5), bookmark(8), draining(9)}, end: refusal(codes.Unavailable, client.ErrDraining, retryIn(1))},
				{messages: []message{replay(9), synced(9)}},
			},
			starts:  []string{"nothing", "e/9"},
			updates: []string{"replace [e/0]", "synced e/5", "e/8", "e/9", "synced e/9"},
		},
		"after the time limit": {
			streams: []stream{{messages: []message{reset(), synced(5), draining(5)}, end: errOK}, {messages: []message{replay(5), synced(5)}}},
			starts:  []string{"nothing", "e/5"},
			updates: []string{"replace [e/0]", "synced e/5", "synced e/5"},
		},
		"from nothing in the middle of a RESET": {
			streams: []stream{
				{messages: []message{reset(), part(0, added("a", 5))}, end: errLost},
				{messages: []message{reset(), part(0, added("b", 6)), synced(6)}},
			},
			starts:  []string{"nothing", "nothing"},
			updates: []string{"replace [e/0]", "+a@5 [e/0]", "replace [e/0]", "+b@6 [e/0]", "synced e/6"},
		},
		"from nothing if the position is in the future": {
			opts: []client.WatchOption{client.MinRevision(4)},
			streams: []stream{
				snapshot,
				{end: refusal(codes.OutOfRange, client.ErrRevisionInFuture)},
				{messages: []message{reset(), synced(3)}},
			},
			starts:  []string{"nothing, at least 4", "e/5", "nothing"},
			updates: slices.Concat(start, []string{"replace [e/0]", "synced e/3"}),
		},
		"from now until the position of now is known": {
			opts:    []client.WatchOption{client.FromNow()},
			streams: []stream{{end: errLost}, {messages: []message{bookmark(5)}, end: errLost}, {messages: []message{replay(5), synced(5)}}},
			starts:  []string{"now", "now", "e/5"},
			updates: []string{"e/5", "synced e/5"},
		},
		"from nothing in the middle of a RESET, though the watch began from now": {
			opts: []client.WatchOption{client.FromNow()},
			streams: []stream{
				{messages: []message{bookmark(5)}, end: errLost},
				{messages: []message{reset(), part(0, added("a", 6))}, end: errLost},
				{messages: []message{reset(), part(0, added("a", 6)), synced(6)}},
			},
			starts:  []string{"now", "e/5", "nothing"},
			updates: []string{"e/5", "replace [e/0]", "+a@6 [e/0]", "replace [e/0]", "+a@6 [e/0]", "synced e/6"},
		},
		"without the consistency of the first start": {
			opts: []client.WatchOption{client.MinRevision(4)},
			streams: []stream{
				snapshot,
				{messages: []message{reset(), part(0, added("a", 1))}, end: errLost}, // from another etcd
				{messages: []message{reset(), part(0, added("a", 1)), synced(1)}},
			},
			starts:  []string{"nothing, at least 4", "e/5", "nothing"},
			updates: slices.Concat(start, []string{"replace [e/0]", "+a@1 [e/0]", "replace [e/0]", "+a@1 [e/0]", "synced e/1"}),
		},
		"at the position that the caller gave": {
			opts:    []client.WatchOption{client.After(client.Position{Epoch: "e", Revision: 5})},
			streams: []stream{{messages: []message{replay(5), synced(5)}}},
			starts:  []string{"e/5"},
			updates: []string{"synced e/5"},
		},
		// The server of the second DELTA has never seen c: the key was created and
		// deleted while that server had lost its etcd watch.
		"with no trace of half a DELTA": {
			streams: []stream{
				snapshot,
				{messages: []message{delta(5), part(5, added("b", 6), added("c", 7), deleted("a", 8))}, end: errLost},
				{messages: []message{delta(5), part(5, added("b", 6), deleted("a", 8), added("d", 10)), synced(11)}},
			},
			starts:  []string{"nothing", "e/5", "e/5"},
			updates: slices.Concat(start, []string{"delta +b@6 -a@8 +d@10 synced e/11"}),
		},
		// A server that has lost changes sends a DELTA between live messages.
		"after a DELTA between live messages": {
			streams: []stream{
				{messages: []message{
					reset(), part(0, added("a", 5)), synced(5), live(6, added("b", 6)),
					delta(7), part(7, added("b", 9)), part(7, deleted("a", 12)), synced(12), live(13, added("c", 13)),
					delta(14), synced(20),
				}, end: errLost},
				{messages: []message{replay(20), synced(20)}},
			},
			starts:  []string{"nothing", "e/20"},
			updates: slices.Concat(start, []string{"+b@6 e/6", "e/7", "delta +b@9 -a@12 synced e/12", "+c@13 e/13", "e/14", "delta synced e/20", "synced e/20"}),
		},
		"with a REPLAY after half a DELTA": {
			streams: []stream{
				snapshot,
				{messages: []message{delta(5), part(5, added("b", 6), deleted("a", 7))}, end: errLost},
				{messages: []message{replay(5), part(6, added("b", 6)), part(7, deleted("a", 7)), part(9, modified("b", 8), added("a", 9)), synced(9)}},
			},
			starts:  []string{"nothing", "e/5", "e/5"},
			updates: slices.Concat(start, []string{"+b@6 e/6", "-a@7 e/7", "*b@8 +a@9 e/9", "synced e/9"}),
		},
		"at a server that is behind the one that sent half a DELTA": {
			streams: []stream{
				snapshot,
				{messages: []message{delta(5), part(5, added("b", 6), added("c", 9))}, end: errLost},
				{messages: []message{replay(5), part(6, added("b", 6)), synced(7), live(9, added("c", 9)), bookmark(12)}},
			},
			starts:  []string{"nothing", "e/5", "e/5"},
			updates: slices.Concat(start, []string{"+b@6 e/6", "synced e/7", "+c@9 e/9", "e/12"}),
		},
		"twice after half a DELTA": {
			streams: []stream{
				snapshot,
				{messages: []message{delta(5), part(5, added("b", 9))}, end: errLost},
				{messages: []message{replay(5), synced(7)}, end: errLost},
				{messages: []message{replay(7), part(9, added("b", 9)), synced(9)}},
			},
			starts:  []string{"nothing", "e/5", "e/5", "e/7"},
			updates: slices.Concat(start, []string{"synced e/7", "+b@9 e/9", "synced e/9"}),
		},
		"before a revision of which only a part came": {
			streams: []stream{
				snapshot,
				{messages: []message{replay(5), synced(5), partial(live(5, added("b", 6), added("c", 6)))}, end: errLost},
				{messages: []message{replay(5), partial(part(5, added("b", 6))), part(6, added("c", 6), added("d", 6)), synced(6)}},
			},
			starts:  []string{"nothing", "e/5", "e/5"},
			updates: slices.Concat(start, []string{"synced e/5", "+b@6 +c@6 +d@6 e/6", "synced e/6"}),
		},
		"unless the request is too large": {
			streams: []stream{snapshot, {end: refusal(codes.ResourceExhausted, client.ErrLimitReached)}, {end: refusal(codes.ResourceExhausted, client.ErrRequestTooLarge)}},
			starts:  []string{"nothing", "e/5", "e/5"},
			updates: start,
			end:     client.ErrRequestTooLarge,
		},
		"unless the resource is unknown": {
			streams: []stream{snapshot, {end: refusal(codes.NotFound, client.ErrUnknownResource)}},
			starts:  []string{"nothing", "e/5"},
			updates: start,
			end:     client.ErrUnknownResource,
		},
		"after errors of a proxy": {
			streams: []stream{
				snapshot,
				{end: status.Error(codes.Unimplemented, "no")},
				{end: status.Error(codes.NotFound, "no")},
				{end: status.Error(codes.PermissionDenied, "no")},
				{messages: []message{replay(5), synced(5)}},
			},
			starts:  []string{"nothing", "e/5", "e/5", "e/5", "e/5"},
			updates: slices.Concat(start, []string{"synced e/5"}),
		},
		"from nothing if etcd compacted a snapshot while it was read": {
			streams: []stream{
				{messages: []message{reset(), part(0, added("a", 5))}, end: refusal(codes.OutOfRange, client.ErrPositionExpired)},
				{messages: []message{reset(), part(0, added("a", 5)), synced(6)}},
			},
			starts:  []string{"nothing", "nothing"},
			updates: []string{"replace [e/0]", "+a@5 [e/0]", "replace [e/0]", "+a@5 [e/0]", "synced e/6"},
		},
		"unless the exact revision is gone": {
			opts:    []client.WatchOption{client.AtRevision(5)},
			streams: []stream{{messages: []message{reset(), part(0, added("a", 5))}, end: refusal(codes.OutOfRange, client.ErrPositionExpired)}},
			starts:  []string{"nothing"},
			updates: []string{"replace [e/0]", "+a@5 [e/0]"},
			end:     client.ErrPositionExpired,
		},
		"unless every event is asked for and the position has expired": {
			opts:    []client.WatchOption{client.EveryEvent()},
			streams: []stream{snapshot, {end: refusal(codes.OutOfRange, client.ErrPositionExpired)}},
			starts:  []string{"nothing", "e/5"},
			updates: start,
			end:     client.ErrPositionExpired,
		},
		"unless every event is asked for and etcd went back": {
			opts:    []client.WatchOption{client.EveryEvent()},
			streams: []stream{snapshot, {end: refusal(codes.OutOfRange, client.ErrRevisionInFuture)}},
			starts:  []string{"nothing", "e/5"},
			updates: start,
			end:     client.ErrRevisionInFuture,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{streams: c.streams}
				updates, end := collect(t, connectTo(t, s), c.opts...)
				if diff := cmp.Diff(c.updates, updates); diff != "" {
					t.Errorf("updates: -want +got:\n%s", diff)
				}
				if diff := cmp.Diff(c.starts, s.starts()); diff != "" {
					t.Errorf("starts: -want +got:\n%s", diff)
				}
				if !errors.Is(end, c.end) {
					t.Errorf("the watch ended with %v, want %v", end, c.end)
				}
			})
		})
	}
}

func TestWatchesEndWhereNoRetryHelps(t *testing.T) {
	for _, code := range []codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unimplemented, codes.OutOfRange, codes.FailedPrecondition, codes.Unauthenticated,
	} {
		t.Run(code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{streams: []stream{{end: status.Error(code, "no")}}}
				if _, end := collect(t, connectTo(t, s)); status.Code(end) != code || len(s.starts()) != 1 {
					t.Errorf("got %v after %d streams, want %v after 1", end, len(s.starts()), code)
				}
			})
		})
	}
}

func TestWatchWithARequestThatCannotBeEncodedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), synced(5)}}}}
		updates, end := collect(t, connectTo(t, s), client.Prefix("caf\xe9"))
		if !errors.Is(end, client.ErrInvalidRequest) || !strings.Contains(end.Error(), "scope.prefix is not valid UTF-8") || len(s.requests) > 0 {
			t.Errorf("got %q, then %v, after %d requests", updates, end, len(s.requests))
		}
	})
}

// After a refused token the client asks the source once more, but leaves it time to get
// a new one.
func TestATokenIsRenewedBeforeAWatchEnds(t *testing.T) {
	end := status.Error(codes.Unauthenticated, "no")
	refused := stream{end: end}
	for name, streams := range map[string][]stream{
		"refused at a return":  {refused, {messages: []message{reset(), synced(5)}, end: errLost}, refused, refused},
		"ended after DRAINING": {refused, {messages: []message{reset(), synced(5), draining(5)}, end: end}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fetched, last := 0, time.Time{}
				r := connectTo(t, &scriptedServer{streams: streams}, client.WithTokenSource(func(context.Context) (string, error) {
					if fetched++; fetched == len(streams) && time.Since(last) < 5*time.Second {
						t.Errorf("the token was fetched again after %v, want at least 5s", time.Since(last))
					}
					last = time.Now()
					return "secret", nil
				}))
				if _, end := collect(t, r); status.Code(end) != codes.Unauthenticated || fetched != len(streams) {
					t.Errorf("got %v after %d tokens, want Unauthenticated after %d", end, fetched, len(streams))
				}
			})
		})
	}
}

// Three bookmark intervals of silence are the limit. The time that the caller takes for
// an update does not count.
func TestSilentServersAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), synced(5)}}}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var silences []time.Duration
		began := time.Now()
		for u, err := range connectTo(t, s).Watch(ctx, client.BookmarkInterval(time.Second), client.OnInterruption(func(error) {
			silences = append(silences, time.Since(began))
			if len(silences) == 2 {
				cancel()
			}
		})) {
			if err != nil {
				break
			}
			if u.Phase == client.PhaseSynced {
				time.Sleep(time.Hour) // the caller is busy
				began = time.Now()
			}
		}
		if want := []time.Duration{3 * time.Second, 3 * time.Second}; !slices.Equal(silences, want) {
			t.Errorf("left after silences of %v, want %v", silences, want)
		}
	})
}

// After a silence, the next stream uses another connection. Other watches of the old connection go on.
func TestSilentConnectionsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{script: func(req *fanoutv1.WatchRequest) stream {
			if req.GetScope().GetPrefix() == "silent/" {
				return stream{messages: []message{reset(), synced(5)}}
			}
			return stream{messages: []message{reset(), synced(5)}, later: []delayed{{5 * time.Second, live(6, added("alive/1", 6))}, {10 * time.Second, bookmark(7)}}}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var connections connectionCounter
		r := connectTo(t, s, client.WithDialOptions(grpc.WithStatsHandler(&connections)))
		var silent sync.WaitGroup
		silent.Go(func() {
			for range r.Watch(ctx, client.Prefix("silent/"), client.BookmarkInterval(3*time.Second)) {
			}
		})
		revision := int64(0)
		for u, err := range r.Watch(ctx, client.Prefix("alive/")) {
			if err != nil {
				break
			}
			revision = u.Position.Revision
			if begun, ended := connections.begun.Load(), connections.ended.Load(); revision == 7 && (begun != 2 || ended != 0) {
				t.Errorf("after a silence, got %d connections, %d of them closed; want 2 open ones", begun, ended)
			}
		}
		silent.Wait()
		if starts := s.starts(); len(starts) != 4 || revision != 7 {
			t.Errorf("the watches began at %q, and the last revision was %d; want the silent one three times, and 7", starts, revision)
		}
		if begun, ended := connections.begun.Load(), connections.ended.Load(); begun != 3 || ended == 0 {
			t.Errorf("after two silences, got %d connections, %d of them closed; want 3, with the second closed", begun, ended)
		}
	})
}

// connectionCounter counts the connections of a client.
type connectionCounter struct{ begun, ended atomic.Int64 }

// TagRPC implements stats.Handler.
func (*connectionCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return ctx
}

// HandleRPC implements stats.Handler.
func (*connectionCounter) HandleRPC(context.Context, stats.RPCStats) {}

// TagConn implements stats.Handler.
func (*connectionCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

// HandleConn implements stats.Handler.
func (c *connectionCounter) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		c.begun.Add(1)
	case *stats.ConnEnd:
		c.ended.Add(1)
	}
}

func TestAServerHasTimeForItsFirstMessage(t *testing.T) {
	for _, interval := range []time.Duration{-1, 0, 1, 100 * time.Millisecond} {
		t.Run(interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{streams: []stream{{silence: 4 * time.Second, messages: []message{reset(), synced(5)}}}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for u, err := range connectTo(t, s).Watch(ctx, client.BookmarkInterval(interval)) {
					if err != nil {
						t.Fatal(err)
					}
					if u.Phase == client.PhaseSynced {
						break
					}
				}
				if n := len(s.starts()); n != 1 {
					t.Errorf("got %d streams, want 1", n)
				}
				if asked := s.requests[0].GetBookmarkInterval().AsDuration(); asked <= 0 || asked != interval && interval > 0 {
					t.Errorf("asked for bookmarks at an interval of %v", asked)
				}
			})
		})
	}
}

// The delays between streams grow, are random, and are never shorter than the server
// asks for.
func TestWatchesDoNotStorm(t *testing.T) {
	snapshot := []message{reset(), synced(5)}
	for name, c := range map[string]struct {
		messages      []message
		end           error
		least, most   time.Duration // between two streams
		fewest, limit int           // streams in ten minutes
	}{
		"lost":      {end: errLost, most: 5 * time.Second, fewest: 120, limit: 600},
		"not ready": {end: refusal(codes.Unavailable, client.ErrNotReady, retryIn(5)), least: 5 * time.Second, most: 10 * time.Second, fewest: 60, limit: 120},
		"over the limit": {
			end: refusal(codes.ResourceExhausted, client.ErrLimitReached, retryIn(5)), least: 5 * time.Second, most: 10 * time.Second, fewest: 60, limit: 120,
		},
		"too often": {
			end: refusal(codes.ResourceExhausted, client.ErrRateLimited, retryIn(1)), least: time.Second, most: 6 * time.Second, fewest: 100, limit: 300,
		},
		"a delay of an hour": {
			end: refusal(codes.Unavailable, client.ErrNotReady, retryIn(3600)), least: time.Minute, most: 65 * time.Second, fewest: 9, limit: 10,
		},
		"lost after each sync":  {messages: snapshot, end: errLost, most: 5 * time.Second, fewest: 120, limit: 600},
		"ended after each sync": {messages: snapshot, end: errOK, fewest: 120, limit: 600},
		"drained after each sync": {
			messages: snapshot, end: refusal(codes.Unavailable, client.ErrDraining, retryIn(1)),
			most: 6 * time.Second, fewest: 100, limit: 600,
		},
		"drained at once after each sync": {
			messages: append(slices.Clone(snapshot), drainedInTurn(5)), end: refusal(codes.Unavailable, client.ErrDraining, retryIn(0)),
			most: 5 * time.Second, fewest: 120, limit: 600,
		},
		"drained at once after each sync, with a delay": {
			messages: append(slices.Clone(snapshot), drainedInTurn(5)), end: refusal(codes.Unavailable, client.ErrDraining, retryIn(5)),
			most: 10 * time.Second, fewest: 60, limit: 124,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{streams: []stream{{messages: c.messages, end: c.end}}}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				last, first := time.Now(), true
				for _, err := range connectTo(t, s).Watch(ctx, client.OnInterruption(func(error) {
					if d := time.Since(last); !first && (d < c.least || d > c.most) {
						t.Errorf("waited for %v, want %v to %v", d, c.least, c.most)
					}
					last, first = time.Now(), false
				})) {
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("the watch ended with %v", err)
					}
					if len(s.starts()) > c.limit {
						break // without delays the time in the bubble stands still
					}
				}
				if n := len(s.starts()); n < c.fewest || n > c.limit {
					t.Errorf("got %d streams in ten minutes, want %d to %d", n, c.fewest, c.limit)
				}
			})
		})
	}
}

// A watch resumes at once if the server allows it, even if the stream was short. If that happens
// again and again, it waits longer each time; see TestWatchesDoNotStorm.
func TestDrainedWatchesResumeAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		lasted time.Duration
		last   message
		most   time.Duration // delay
	}{
		"in its turn":                     {time.Second, drainedInTurn(5), 0},
		"in its turn, in a short time":    {time.Millisecond, drainedInTurn(5), 0},
		"in its turn, before its message": {time.Second, drainedInTurn(0), 0},
		"together with others":            {time.Minute / 4, draining(5), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := []message{reset(), synced(5)}
				if c.last.GetPosition().GetRevision() == 0 {
					before = nil
				}
				s := &scriptedServer{streams: []stream{
					{silence: c.lasted, messages: append(before, c.last), end: refusal(codes.Unavailable, client.ErrDraining, retryIn(0))},
					{messages: []message{replay(5), synced(5)}},
				}}
				var ended time.Time
				for u, err := range connectTo(t, s).Watch(t.Context(), client.OnInterruption(func(error) { ended = time.Now() })) {
					if err != nil {
						t.Fatal(err)
					}
					if u.Phase == client.PhaseSynced && !ended.IsZero() {
						break
					}
				}
				if d := time.Since(ended); d > c.most {
					t.Errorf("resumed after %v, want at most %v", d, c.most)
				}
			})
		})
	}
}

func TestClosingTheClientEndsItsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), synced(5)}}}}
		c := dialScripted(t, []*scriptedServer{s})
		ended := make(chan error)
		go func() {
			for _, err := range c.Resource("config").Watch(t.Context()) {
				if err != nil {
					ended <- err
				}
			}
		}()
		synctest.Wait()
		c.Close()
		if err := <-ended; !errors.Is(err, client.ErrClosed) {
			t.Errorf("got %v, want %v", err, client.ErrClosed)
		}
	})
}

// The bubble fails if a goroutine is left.
func TestBreakingTheLoopEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), synced(5)}}}}
		for range connectTo(t, s).Watch(t.Context()) {
			break
		}
		if n := len(s.starts()); n != 1 {
			t.Errorf("got %d streams, want 1", n)
		}
	})
}

// A watch avoids the server that it lost, even if that is next in turn.
func TestWatchesMoveToAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := []*scriptedServer{{streams: []stream{{}}}, {streams: []stream{{}}}}
		r := connectToAll(t, silent...)
		interruptions := 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range r.Watch(ctx, client.OnInterruption(func(error) {
			// This request uses up a turn, so the lost server is next.
			if _, err := r.Get(ctx, "a"); status.Code(err) != codes.Unimplemented {
				t.Errorf("got %v, want Unimplemented", err)
			}
			if interruptions++; interruptions == 6 {
				cancel()
			}
		})) {
		}
		for _, s := range silent {
			if n := len(s.starts()); n != 3 {
				t.Errorf("a server got %d streams, want 3", n)
			}
		}
	})
}
