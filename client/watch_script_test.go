package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
)

// follow watches until the script has nothing more to say, and returns what it heard
// and how the watch ended: "" if it would have gone on.
func follow(t *testing.T, r *client.Resource, opts ...client.WatchOption) (lines []string, end error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second) // less than a silence
	defer cancel()
	for u, err := range r.Watch(ctx, opts...) {
		if errors.Is(err, context.DeadlineExceeded) {
			return lines, nil
		} else if err != nil {
			return lines, err
		}
		lines = append(lines, line(u))
	}
	t.Error("the watch ended without an error")
	return lines, nil
}

// It is the caller whose time is up: a server that knew of it would end the stream, too,
// and if it did so first, that would be told as an interruption.
func TestServersDoNotKnowWhenTheTimeOfAWatchIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{acts: []act{{messages: []message{reset(), synced(5)}}}}
		lines, err := follow(t, play(t, s), client.OnInterruption(func(err error) { t.Errorf("interrupted: %v", err) }))
		if len(lines) != 2 || err != nil {
			t.Errorf("%q, %v", lines, err)
		}
		if n := s.timed.Load(); n != 0 {
			t.Errorf("the server knows when %d watches end", n)
		}
	})
}

func TestWatchesGoOn(t *testing.T) {
	start := []string{"replace [e/0]", "+a@5 [e/0]", "synced e/5"}
	snapshot := act{messages: []message{reset(), part(0, added("a", 5)), synced(5)}, end: lost}
	for name, c := range map[string]struct {
		opts   []client.WatchOption
		acts   []act
		begins []string
		lines  []string
		end    error
	}{
		"where it was": {
			acts:   []act{snapshot, {messages: []message{replay(5), part(6, added("b", 6)), synced(6), live(7, modified("b", 7))}}},
			begins: []string{"nothing", "e/5"},
			lines:  slices.Concat(start, []string{"+b@6 e/6", "synced e/6", "*b@7 e/7"}),
		},
		"after a bookmark and a drain": {
			acts: []act{
				{messages: []message{reset(), synced(5), bookmark(8), draining(9)}, end: refusal(codes.Unavailable, client.ErrDraining, retryIn(1))},
				{messages: []message{replay(9), synced(9)}},
			},
			begins: []string{"nothing", "e/9"},
			lines:  []string{"replace [e/0]", "synced e/5", "e/8", "e/9", "synced e/9"},
		},
		"when its time was over": {
			acts:   []act{{messages: []message{reset(), synced(5), draining(5)}, end: errOK}, {messages: []message{replay(5), synced(5)}}},
			begins: []string{"nothing", "e/5"},
			lines:  []string{"replace [e/0]", "synced e/5", "synced e/5"},
		},
		"anew in the middle of a snapshot": {
			acts: []act{
				{messages: []message{reset(), part(0, added("a", 5))}, end: lost},
				{messages: []message{reset(), part(0, added("b", 6)), synced(6)}},
			},
			begins: []string{"nothing", "nothing"},
			lines:  []string{"replace [e/0]", "+a@5 [e/0]", "replace [e/0]", "+b@6 [e/0]", "synced e/6"},
		},
		"with nothing when its position is of the future": {
			opts: []client.WatchOption{client.MinRevision(4)},
			acts: []act{
				snapshot,
				{end: refusal(codes.OutOfRange, client.ErrRevisionInFuture)},
				{messages: []message{reset(), synced(3)}},
			},
			begins: []string{"nothing, at least 4", "e/5", "nothing"},
			lines:  slices.Concat(start, []string{"replace [e/0]", "synced e/3"}),
		},
		"from another now until it knows one": {
			opts:   []client.WatchOption{client.FromNow()},
			acts:   []act{{end: lost}, {messages: []message{bookmark(5)}, end: lost}, {messages: []message{replay(5), synced(5)}}},
			begins: []string{"now", "now", "e/5"},
			lines:  []string{"e/5", "synced e/5"},
		},
		"with a state when it was from now and half a state came": {
			opts: []client.WatchOption{client.FromNow()},
			acts: []act{
				{messages: []message{bookmark(5)}, end: lost},
				{messages: []message{reset(), part(0, added("a", 6))}, end: lost},
				{messages: []message{reset(), part(0, added("a", 6)), synced(6)}},
			},
			begins: []string{"now", "e/5", "nothing"},
			lines:  []string{"e/5", "replace [e/0]", "+a@6 [e/0]", "replace [e/0]", "+a@6 [e/0]", "synced e/6"},
		},
		"without what was asked of the first beginning": {
			opts: []client.WatchOption{client.MinRevision(4)},
			acts: []act{
				snapshot,
				{messages: []message{reset(), part(0, added("a", 1))}, end: lost}, // of another etcd
				{messages: []message{reset(), part(0, added("a", 1)), synced(1)}},
			},
			begins: []string{"nothing, at least 4", "e/5", "nothing"},
			lines:  slices.Concat(start, []string{"replace [e/0]", "+a@1 [e/0]", "replace [e/0]", "+a@1 [e/0]", "synced e/1"}),
		},
		"after the place that was given": {
			opts:   []client.WatchOption{client.After(client.Position{Epoch: "e", Revision: 5})},
			acts:   []act{{messages: []message{replay(5), synced(5)}}},
			begins: []string{"e/5"},
			lines:  []string{"synced e/5"},
		},
		// c is gone by the time of the second difference, which is of a server that
		// has never heard of it: it came and went while etcd was out of its sight.
		"with nothing left over from half a difference": {
			acts: []act{
				snapshot,
				{messages: []message{delta(5), part(5, added("b", 6), added("c", 7), deleted("a", 8))}, end: lost},
				{messages: []message{delta(5), part(5, added("b", 6), deleted("a", 8), added("d", 10)), synced(11)}},
			},
			begins: []string{"nothing", "e/5", "e/5"},
			lines:  slices.Concat(start, []string{"+b@6 +c@7 -a@8 [e/5]", "+d@10 [e/5]", "-c@11 synced e/11"}),
		},
		"with newer versions of what half a difference told": {
			acts: []act{
				snapshot,
				{messages: []message{delta(5), part(5, added("b", 6), deleted("a", 7))}, end: lost},
				{messages: []message{replay(5), part(6, added("b", 6)), part(7, deleted("a", 7)), part(9, modified("b", 8), added("a", 9)), synced(9)}},
			},
			begins: []string{"nothing", "e/5", "e/5"},
			lines:  slices.Concat(start, []string{"+b@6 -a@7 [e/5]", "[e/6]", "e/7", "*b@8 +a@9 e/9", "synced e/9"}),
		},
		// Another server is behind the one that told half a difference.
		"and has caught up when there is nothing left of half a difference": {
			acts: []act{
				snapshot,
				{messages: []message{delta(5), part(5, added("b", 6), added("c", 9))}, end: lost},
				{messages: []message{replay(5), part(6, added("b", 6)), synced(7), live(9, added("c", 9)), bookmark(12)}},
			},
			begins: []string{"nothing", "e/5", "e/5"},
			lines:  slices.Concat(start, []string{"+b@6 +c@9 [e/5]", "[e/6]", "[e/7]", "synced e/9", "e/12"}),
		},
		"and has not caught up where the stream breaks before that": {
			acts: []act{
				snapshot,
				{messages: []message{delta(5), part(5, added("b", 9))}, end: lost},
				{messages: []message{replay(5), synced(7)}, end: lost},
				{messages: []message{replay(7), part(9, added("b", 9)), synced(9)}},
			},
			begins: []string{"nothing", "e/5", "e/5", "e/7"},
			lines:  slices.Concat(start, []string{"+b@9 [e/5]", "[e/7]", "e/9", "synced e/9"}),
		},
		"with the rest of a large revision": {
			acts: []act{
				snapshot,
				{messages: []message{replay(5), synced(5), partial(live(5, added("b", 6), added("c", 6)))}, end: lost},
				{messages: []message{replay(5), partial(part(5, added("b", 6))), part(6, added("c", 6), added("d", 6)), synced(6)}},
			},
			begins: []string{"nothing", "e/5", "e/5"},
			lines:  slices.Concat(start, []string{"synced e/5", "+b@6 +c@6 [e/5]", "+d@6 e/6", "synced e/6"}),
		},
		"until the request is too large": {
			acts:   []act{snapshot, {end: refusal(codes.ResourceExhausted, client.ErrTooManySnapshots)}, {end: refusal(codes.ResourceExhausted, client.ErrRequestTooLarge)}},
			begins: []string{"nothing", "e/5", "e/5"},
			lines:  start,
			end:    client.ErrRequestTooLarge,
		},
		"until the resource is unknown": {
			acts:   []act{snapshot, {end: refusal(codes.NotFound, client.ErrUnknownResource)}},
			begins: []string{"nothing", "e/5"},
			lines:  start,
			end:    client.ErrUnknownResource,
		},
		"though something in between does not know what it is for a while": {
			acts: []act{
				snapshot,
				{end: status.Error(codes.Unimplemented, "no")},
				{end: status.Error(codes.NotFound, "no")},
				{end: status.Error(codes.PermissionDenied, "no")},
				{messages: []message{replay(5), synced(5)}},
			},
			begins: []string{"nothing", "e/5", "e/5", "e/5", "e/5"},
			lines:  slices.Concat(start, []string{"synced e/5"}),
		},
		"though a snapshot took so long that etcd forgot it": {
			acts: []act{
				{messages: []message{reset(), part(0, added("a", 5))}, end: refusal(codes.OutOfRange, client.ErrPositionExpired)},
				{messages: []message{reset(), part(0, added("a", 5)), synced(6)}},
			},
			begins: []string{"nothing", "nothing"},
			lines:  []string{"replace [e/0]", "+a@5 [e/0]", "replace [e/0]", "+a@5 [e/0]", "synced e/6"},
		},
		"until the past is gone that was asked for": {
			opts:   []client.WatchOption{client.AtRevision(5)},
			acts:   []act{{messages: []message{reset(), part(0, added("a", 5))}, end: refusal(codes.OutOfRange, client.ErrPositionExpired)}},
			begins: []string{"nothing"},
			lines:  []string{"replace [e/0]", "+a@5 [e/0]"},
			end:    client.ErrPositionExpired,
		},
		"until it cannot be told every event": {
			opts:   []client.WatchOption{client.EveryEvent()},
			acts:   []act{snapshot, {end: refusal(codes.OutOfRange, client.ErrPositionExpired)}},
			begins: []string{"nothing", "e/5"},
			lines:  start,
			end:    client.ErrPositionExpired,
		},
		"not where every event is asked for and etcd went back": {
			opts:   []client.WatchOption{client.EveryEvent()},
			acts:   []act{snapshot, {end: refusal(codes.OutOfRange, client.ErrRevisionInFuture)}},
			begins: []string{"nothing", "e/5"},
			lines:  start,
			end:    client.ErrRevisionInFuture,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{acts: c.acts}
				lines, end := follow(t, play(t, s), c.opts...)
				if diff := cmp.Diff(c.lines, lines); diff != "" {
					t.Errorf("heard: -want +got:\n%s", diff)
				}
				if diff := cmp.Diff(c.begins, s.begins()); diff != "" {
					t.Errorf("began: -want +got:\n%s", diff)
				}
				if !errors.Is(end, c.end) {
					t.Errorf("ended with %v, want %v", end, c.end)
				}
			})
		})
	}
}

func TestWatchesEndWhereNothingHelps(t *testing.T) {
	for _, code := range []codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unimplemented, codes.OutOfRange, codes.FailedPrecondition, codes.Unauthenticated,
	} {
		t.Run(code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{acts: []act{{end: status.Error(code, "no")}}}
				if _, end := follow(t, play(t, s)); status.Code(end) != code || len(s.begins()) != 1 {
					t.Errorf("ended with %v after %d streams", end, len(s.begins()))
				}
			})
		})
	}
}

// What cannot be sent is not tried again either.
func TestWatchesThatCannotBeSentEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{acts: []act{{messages: []message{reset(), synced(5)}}}}
		if lines, end := follow(t, play(t, s), client.Prefix("caf\xe9")); !errors.Is(end, client.ErrInvalidRequest) || !strings.Contains(end.Error(), "scope.prefix is not valid UTF-8") || len(s.requests) > 0 {
			t.Errorf("told %q, ended with %v, %d requests were sent", lines, end, len(s.requests))
		}
	})
}

// A token that is refused is fetched once more, and not before there can be another
// one.
func TestATokenIsRenewedBeforeAWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := act{end: status.Error(codes.Unauthenticated, "no")}
		s := &script{acts: []act{no, {messages: []message{reset(), synced(5)}, end: lost}, no, no}}
		fetched, last := 0, time.Time{}
		r := play(t, s, client.WithTokenSource(func(context.Context) (string, error) {
			if fetched++; fetched == 4 && time.Since(last) < 5*time.Second {
				t.Errorf("fetched again after %v", time.Since(last))
			}
			last = time.Now()
			return "secret", nil
		}))
		if _, end := follow(t, r); status.Code(end) != codes.Unauthenticated || fetched != 4 {
			t.Errorf("ended with %v after %d tokens", end, fetched)
		}
	})
}

// Who says nothing for three intervals is dead, and however long the caller takes
// does not count.
func TestSilentServersAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{acts: []act{{messages: []message{reset(), synced(5)}}}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var silence []time.Duration
		began := time.Now()
		for u, err := range play(t, s).Watch(ctx, client.BookmarkInterval(time.Second), client.OnInterruption(func(error) {
			silence = append(silence, time.Since(began))
			if len(silence) == 2 {
				cancel()
			}
		})) {
			if err != nil {
				break
			}
			if u.Synced {
				time.Sleep(time.Hour) // the caller is busy
				began = time.Now()
			}
		}
		for _, d := range silence {
			if d != 3*time.Second {
				t.Errorf("left after %v", d)
			}
		}
		if len(silence) != 2 {
			t.Errorf("left %d times", len(silence))
		}
	})
}

// However often it is to be heard of later, a server has time for its first word.
func TestTheFirstWordIsWaitedFor(t *testing.T) {
	for _, interval := range []time.Duration{-1, 0, 1, 100 * time.Millisecond} {
		t.Run(interval.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{acts: []act{{silence: 4 * time.Second, messages: []message{reset(), synced(5)}}}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for u, err := range play(t, s).Watch(ctx, client.BookmarkInterval(interval)) {
					if err != nil {
						t.Fatal(err)
					}
					if u.Synced {
						break
					}
				}
				if n := len(s.begins()); n != 1 {
					t.Errorf("%d streams", n)
				}
				if asked := s.requests[0].GetBookmarkInterval().AsDuration(); asked <= 0 || asked != interval && interval > 0 {
					t.Errorf("asked for bookmarks at intervals of %v", asked)
				}
			})
		})
	}
}

// The delays grow, have chance in them, and are never shorter than the server asks.
func TestWatchesDoNotStorm(t *testing.T) {
	snapshot := []message{reset(), synced(5)}
	for name, c := range map[string]struct {
		messages      []message
		end           error
		least, most   time.Duration // between two streams
		fewest, limit int           // streams in ten minutes
	}{
		"lost":      {end: lost, most: 5 * time.Second, fewest: 120, limit: 600},
		"not ready": {end: refusal(codes.Unavailable, client.ErrNotReady, retryIn(5)), least: 5 * time.Second, most: 10 * time.Second, fewest: 60, limit: 120},
		"over the limit": {
			end: refusal(codes.ResourceExhausted, client.ErrTooManyWatchersOfClient, retryIn(5)), least: 5 * time.Second, most: 10 * time.Second, fewest: 60, limit: 120,
		},
		"too often": {
			end: refusal(codes.ResourceExhausted, client.ErrRateLimited, retryIn(1)), least: time.Second, most: 6 * time.Second, fewest: 100, limit: 300,
		},
		"lost each time it has caught up":  {messages: snapshot, end: lost, most: 5 * time.Second, fewest: 120, limit: 600},
		"ended each time it has caught up": {messages: snapshot, end: errOK, fewest: 120, limit: 600},
		"drained each time it has caught up": {
			messages: snapshot, end: refusal(codes.Unavailable, client.ErrDraining, retryIn(1)),
			most: 6 * time.Second, fewest: 100, limit: 600,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{acts: []act{{messages: c.messages, end: c.end}}}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				last, first := time.Now(), true
				for _, err := range play(t, s).Watch(ctx, client.OnInterruption(func(error) {
					if d := time.Since(last); !first && (d < c.least || d > c.most) {
						t.Errorf("waited for %v", d)
					}
					last, first = time.Now(), false
				})) {
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
					if len(s.begins()) > c.limit {
						break // without delays no time passes
					}
				}
				if n := len(s.begins()); n < c.fewest || n > c.limit {
					t.Errorf("%d streams in ten minutes", n)
				}
			})
		})
	}
}

func TestClosingTheClientEndsItsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{acts: []act{{messages: []message{reset(), synced(5)}}}}
		c, r := playClient(t, s)
		ended := make(chan error)
		go func() {
			for _, err := range r.Watch(t.Context()) {
				if err != nil {
					ended <- err
				}
			}
		}()
		synctest.Wait()
		c.Close()
		if err := <-ended; !errors.Is(err, client.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// Who leaves the loop leaves nothing behind.
func TestWatchesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{acts: []act{{messages: []message{reset(), synced(5)}}}}
		for range play(t, s).Watch(t.Context()) {
			break
		}
		if n := len(s.begins()); n != 1 {
			t.Errorf("%d streams", n)
		}
	})
}

// A server that was silent is left for another one, even if it is its turn.
func TestWatchesGoToAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := []*script{{acts: []act{{}}}, {acts: []act{{}}}}
		r := playAll(t, silent...)
		turns := 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range r.Watch(ctx, client.OnInterruption(func(error) {
			// The next in turn would be the one that was left just now.
			if _, err := r.Get(ctx, "a"); status.Code(err) != codes.Unimplemented {
				t.Errorf("got %v", err)
			}
			if turns++; turns == 6 {
				cancel()
			}
		})) {
		}
		for _, s := range silent {
			if n := len(s.begins()); n != 3 {
				t.Errorf("asked %d times", n)
			}
		}
	})
}
