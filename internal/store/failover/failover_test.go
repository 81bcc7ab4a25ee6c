package failover

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// many is a number of requests in which each of three members has its turn.
const many = 12

// Requests go to all members in turn, and each request once.
func TestRequestsSpreadOverTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, 3)
		defer stop()
		for range many {
			if _, err := c.client.Get(t.Context(), "k"); err != nil {
				t.Error(err)
			}
			if _, err := c.client.Put(t.Context(), "k", "v"); err != nil {
				t.Error(err)
			}
		}
		for i, s := range c.servers {
			if s.count("Range")+s.count("Put") != 2*many/3 {
				t.Errorf("member %d got %d reads and %d writes, want %d in all", i, s.count("Range"), s.count("Put"), 2*many/3)
			}
		}
	})
}

// A read that a frozen member does not answer is answered by another one after a second.
func TestReadsTryAnotherMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, 3)
		defer stop()
		c.servers[0].freeze()
		begun := time.Now()
		var reading sync.WaitGroup
		for range many {
			reading.Go(func() {
				resp, err := c.client.Get(t.Context(), "key")
				if err != nil || resp.Count != int64(len("key")) {
					t.Errorf("got %v, %v, want the answer of another member", resp, err)
				}
			})
		}
		reading.Wait()
		if took := time.Since(begun); took > hedgeDelay {
			t.Errorf("the reads took %v, want %v", took, hedgeDelay)
		}
		frozen := c.servers[0].count("Range")
		if frozen == 0 || c.count("Range") != many+frozen {
			t.Errorf("got %d reads, %d of them at the frozen member, want %d and each of these once more", c.count("Range"), frozen, many)
		}
	})
}

// A member may answer a read late, when another one has been asked or none is left to ask.
func TestReadsTakeLateAnswers(t *testing.T) {
	for _, n := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			c, stop := start(t, n)
			defer stop()
			for _, s := range c.servers {
				s.freeze()
			}
			// No lock orders this after the hedge, so that the race detector sees both.
			for i, s := range c.servers {
				time.AfterFunc(hedgeDelay+time.Duration(i+1)*time.Millisecond, s.thaw)
			}
			resp, err := c.client.Get(t.Context(), "key")
			if err != nil || resp.Count != int64(len("key")) {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
}

// A write is sent once. If its member is lost, its outcome is unknown.
func TestWritesAreSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, 3)
		defer stop()
		c.servers[0].freeze()
		begun := time.Now()
		failed := make(chan error, many)
		var writing sync.WaitGroup
		for range many {
			writing.Go(func() {
				if _, err := c.client.Put(t.Context(), "k", "v"); err != nil {
					failed <- err
				}
			})
		}
		writing.Wait()
		const limit = probeInterval + lostProbes*probeTimeout
		if took := time.Since(begun); took > limit {
			t.Errorf("the writes took %v, want at most %v", took, limit)
		}
		if n := c.count("Put"); n != many || len(failed) != c.servers[0].count("Put") || len(failed) == 0 {
			t.Errorf("%d writes were sent %d times, %d to the frozen member, and %d failed", many, n, c.servers[0].count("Put"), len(failed))
		}
		for range len(failed) {
			if err := <-failed; status.Code(err) != codes.Unavailable {
				t.Errorf("got %v, want %v", err, codes.Unavailable)
			}
		}
	})
}

// A proxy may reset a write, which ends it with CANCELED, although the write was applied. The
// client of etcd would send it up to a hundred times.
func TestWritesThatWereResetAreNotSentAgain(t *testing.T) {
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			c, stop := start(t, 1)
			defer stop()
			c.servers[0].fail("Put", code)
			if _, err := c.client.Put(t.Context(), "k", "v"); status.Code(err) != codes.Unavailable {
				t.Errorf("%v: got %v, want %v", code, err, codes.Unavailable)
			}
			if n := c.servers[0].count("Put"); n != 1 {
				t.Errorf("%v: the write was sent %d times", code, n)
			}
		})
	}
}

// A write that ends with its context is not sent again, either. The member may notice the
// deadline first, so there are two errors.
func TestWritesEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, 1)
		defer stop()
		c.servers[0].freeze()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.client.Put(ctx, "k", "v"); !errors.Is(err, context.DeadlineExceeded) && status.Code(err) != codes.Unavailable {
			t.Errorf("got %v, want %v or %v", err, context.DeadlineExceeded, codes.Unavailable)
		}
		if n := c.servers[0].count("Put"); n != 1 {
			t.Errorf("the write was sent %d times", n)
		}
	})
}

// A member, or a proxy, that refuses probes at once is asked again after the usual time.
func TestRefusedProbesAreNotRepeatedAtOnce(t *testing.T) {
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.PermissionDenied} {
		synctest.Test(t, func(t *testing.T) {
			c, stop := start(t, 1)
			defer stop()
			c.servers[0].fail("Status", code)
			const n = 5
			time.Sleep(n * probeInterval)
			if got := c.servers[0].count("Status"); got < n-1 || got > n+1 {
				t.Errorf("%v: got %d probes in %d intervals", code, got, n)
			}
		})
	}
}

// A read is sent once more for each other member at most, even if that member looks good and
// cannot be reached.
func TestHedgedReadsEnd(t *testing.T) {
	m := New([]string{"a:1", "b:1"}, slog.New(slog.DiscardHandler))
	m.all[1].state = good
	sent := 0
	err := m.hedge(t.Context(), &tried{}, func(context.Context) error {
		sent++
		if sent > len(m.all) {
			return nil
		}
		return status.Error(codes.Unavailable, "no leader")
	})
	if err == nil {
		t.Errorf("the read was sent %d times for %d members", sent, len(m.all))
	}
}

// Requests avoid a member that does not answer probes, until it answers again.
func TestSilentMembersAreAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, 3)
		defer stop()
		c.servers[0].freeze()
		time.Sleep(probeInterval + probeTimeout)
		synctest.Wait()
		begun := time.Now()
		for range many {
			if _, err := c.client.Put(t.Context(), "k", "v"); err != nil {
				t.Error(err)
			}
		}
		if took, n := time.Since(begun), c.servers[0].count("Put"); took > 0 || n > 0 {
			t.Errorf("the writes took %v, and %d went to the frozen member", took, n)
		}
		c.servers[0].thaw()
		time.Sleep(probeTimeout)
		synctest.Wait()
		for range many {
			if _, err := c.client.Put(t.Context(), "k", "v"); err != nil {
				t.Error(err)
			}
		}
		if n := c.servers[0].count("Put"); n != many/3 {
			t.Errorf("the member got %d of %d writes after it answered again, want a third", n, many)
		}
	})
}

// Requests avoid a member without a leader, unless no member has one.
func TestMembersWithoutLeaderAreAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, 3)
		defer stop()
		for i, s := range c.servers {
			s.mu.Lock()
			s.leader = 0
			s.mu.Unlock()
			time.Sleep(2 * probeInterval)
			synctest.Wait()
			c.forget()
			for range many {
				if _, err := c.client.Put(t.Context(), "k", "v"); err != nil {
					t.Error(err)
				}
			}
			if n := s.count("Put"); i < 2 && n > 0 || i == 2 && n != many/3 {
				t.Errorf("%d members have no leader: the last of them got %d of %d writes", i+1, n, many)
			}
		}
	})
}

// A single member that does not answer ends the requests that wait for it.
func TestRequestsToASingleLostMemberEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, 1)
		defer stop()
		c.servers[0].freeze()
		if _, err := c.client.Put(t.Context(), "k", "v"); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v, want %v", err, codes.Unavailable)
		}
	})
}

// The versions of all members are known once each has answered, and stay known.
func TestVersionsStayKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, 2)
		defer stop()
		c.servers[0].freeze()
		time.Sleep(10 * time.Second)
		if got := c.members.Versions(t.Context()); len(got) != 2 || got[0] != "3.7.3" {
			t.Errorf("got %v, want the versions of both members", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if got := New([]string{"member:2379"}, slog.Default()).Versions(ctx); len(got) > 0 || ctx.Err() == nil {
			t.Errorf("got %v before any probe, want that it waits for one", got)
		}
	})
}

// openWatch opens a watch. The client of etcd cannot be used, because it does not work in a
// bubble.
func (c *cluster) openWatch(t *testing.T) pb.Watch_WatchClient {
	t.Helper()
	w, err := pb.NewWatchClient(c.client.ActiveConnection()).Watch(t.Context())
	if err == nil {
		err = w.Send(&pb.WatchRequest{})
	}
	if err == nil {
		_, err = w.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A watch ends when its member does not answer probes, and can be opened at another one.
func TestWatchesMoveToAnotherMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, 3)
		defer stop()
		for range 3 {
			c.forget()
			w := c.openWatch(t)
			i := slices.IndexFunc(c.servers, func(s *server) bool { return s.count("Watch") > 0 })
			c.servers[i].freeze()
			begun := time.Now()
			if _, err := w.Recv(); status.Code(err) != codes.Unavailable {
				t.Errorf("got %v, want %v", err, codes.Unavailable)
			}
			if took := time.Since(begun); took > probeInterval+probeTimeout {
				t.Errorf("the watch ended after %v", took)
			}
			for range 3 {
				c.openWatch(t)
			}
			if n := c.servers[i].count("Watch"); n != 1 {
				t.Errorf("%d watches were opened at the frozen member", n-1)
			}
			c.servers[i].thaw()
			time.Sleep(probeTimeout)
		}
	})
}

// A watch stays where it is if nothing is heard of any member.
func TestWatchesStayWithoutABetterMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, 3)
		defer stop()
		w := c.openWatch(t)
		ended := make(chan error, 1)
		go func() {
			_, err := w.Recv()
			ended <- err
		}()
		for _, s := range c.servers {
			s.freeze()
		}
		time.Sleep(10*time.Second + probeTimeout/2) // not when a probe times out
		for _, s := range c.servers {
			s.thaw()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("the watch ended: %v", err)
		default:
		}
	})
}
