package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// quick bounds what takes no time except that of backoff.
const quick = time.Second

// A wait counts the watches of all servers, and goes on until the last of them has applied the
// revision.
func TestWaitForWatchesThatApplyLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, other := newGateServer(t).up().set(3, 1, "a", "b"), newGateServer(t).up().set(2, 2)
		w := wait(t, gateServers(t, one, other), client.WaitOptions{Scope: client.Prefix("shop")})
		s := w.goesOn(time.Minute)
		if s.Ended || s.String() != "3 of 5 watches have applied revision 7, want 5" || len(s.Pending) != 2 || s.Pending[0].Name() != "a" || s.Pending[0].Server != "10.0.0.1:1" {
			t.Errorf("got %v, %+v", s, s.Pending)
		}
		one.set(3, 2, "b")
		if s := w.goesOn(time.Minute); s.Applied != 4 {
			t.Errorf("got %v", s)
		}
		one.set(3, 3)
		s, err := w.ends(2*time.Minute, 2*time.Minute+quick)
		if err != nil || !s.Ended || !w.progress().Ended || s.String() != "5 of 5 watches have applied revision 7" || len(s.Pending) != 0 || len(s.Missing()) != 0 {
			t.Errorf("got %v, %v", s, err)
		}
		want := &fanoutv1.WatchAppliedRequest{Resource: "config", Revision: 7, Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: "shop"}}}
		if len(one.requests) != 1 || !proto.Equal(one.requests[0], want) {
			t.Errorf("got the requests %v, want %v once", one.requests, want)
		}
	})
}

// If the time is up, the error names the watches that have not applied the revision.
func TestWaitForWatchesThatNeverApply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := gateServers(t, newGateServer(t).up().set(9, 4, "a", "b"), newGateServer(t).up().set(1, 0, "c"))
		s, err := wait(t, servers, client.WaitOptions{Quorum: 0.5}).ends(time.Hour, time.Hour)
		late, ok := errors.AsType[*client.NotReachedError](err)
		if !ok || !errors.Is(err, context.DeadlineExceeded) || late.Status != s || len(s.Pending) != 3 {
			t.Fatalf("got %v, %v", s, err)
		}
		if want := "wait for config: 4 of 10 watches have applied revision 7, want 5; not applied by a, c, b and 3 more: context deadline exceeded"; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		for _, p := range s.Pending { // the servers had nothing new to say for an hour
			if p.AppliedLag < time.Hour-quick {
				t.Errorf("%s: got a lag of %v", p.Name(), p.AppliedLag)
			}
		}
	})
}

// A reported error ends the wait at once, with the names and errors.
func TestWaitEndsWhenAWatchFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, other := newGateServer(t).up().set(3, 0, "a", "b", "c"), newGateServer(t).up().set(1, 0, "d")
		w := wait(t, gateServers(t, one, other), client.WaitOptions{Tolerate: 1})
		w.goesOn(time.Minute)
		one.set(3, 1, "b: bad rps", "c")
		if s := w.goesOn(time.Minute); s.Failed != 1 || s.Required != 3 {
			t.Errorf("got %v", s)
		}
		other.set(1, 0, "d: no disk")
		s, err := w.ends(2*time.Minute, 2*time.Minute+quick)
		refused, ok := errors.AsType[*client.RefusedError](err)
		if !ok || !s.Ended || refused.Status != s || len(refused.Failures()) != 2 {
			t.Fatalf("got %v, %v", s, err)
		}
		if want := "wait for config: 2 watches cannot apply revision 7: b: bad rps; d: no disk"; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		first := refused.Failures()[0]
		if first.Err.Code != codes.InvalidArgument || first.Err.Message != "bad rps" || !first.ErrTime.Equal(time.Unix(5, 0)) || first.ID != "id-b" {
			t.Errorf("got %+v", first)
		}
	})
}

// The revision may correct an object that has failed. So an error of before does not end the wait.
func TestWaitForWatchesThatHaveFailedBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, other := newGateServer(t).up().set(2, 0, "a; bad rps", "b"), newGateServer(t).up().set(1, 0, "c; bad rps")
		w := wait(t, gateServers(t, one, other), client.WaitOptions{})
		s := w.goesOn(time.Minute)
		if s.Failed != 0 || s.Pending[0].Err == nil || s.Pending[1].Err == nil || s.Pending[0].Failed || s.Pending[2].Name() != "b" {
			t.Errorf("got %v, %+v", s, s.Pending)
		}
		one.set(2, 2)
		w.goesOn(time.Minute)
		other.set(1, 0, "c: no disk")
		s, err := w.ends(2*time.Minute, 2*time.Minute+quick)
		if refused, ok := errors.AsType[*client.RefusedError](err); !ok || len(refused.Failures()) != 1 || !s.Pending[0].Failed {
			t.Errorf("got %v, %v, want the failure of c", s, err)
		}
	})
}

// Watches that may fail do not count for the quorum. All others must apply the revision.
func TestWaitToleratesFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newGateServer(t).up().set(4, 1, "a: no", "b: no", "c")
		w := wait(t, gateServers(t, server), client.WaitOptions{Tolerate: 3})
		w.goesOn(time.Minute)
		server.set(4, 2, "a: no", "b: no")
		if s, err := w.ends(time.Minute, time.Minute+quick); err != nil || s.Failed != 2 {
			t.Errorf("got %v, %v", s, err)
		}
		// One watch at least must have applied the revision.
		server.set(2, 0, "a: no", "b: no")
		w = wait(t, gateServers(t, server), client.WaitOptions{Tolerate: 3})
		w.goesOn(time.Minute)
		server.set(2, 1, "a: no")
		if _, err := w.ends(time.Minute, time.Minute+quick); err != nil {
			t.Error(err)
		}
	})
}

// Half of the watches disappear, because their clients are on their way to another server. The
// other half is no quorum.
func TestWaitForWatchesThatMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, other := newGateServer(t).up().set(5, 0, "a"), newGateServer(t).up().set(5, 5)
		w := wait(t, gateServers(t, one, other), client.WaitOptions{})
		w.goesOn(time.Minute)
		one.set(0, 0)
		s := w.goesOn(client.DefaultSettle - time.Second)
		if want := "5 of 5 watches have applied revision 7, want 10, 5 ended recently"; s.String() != want {
			t.Errorf("got %q, want %q", s, want)
		}
		other.set(10, 5, "a")
		w.goesOn(time.Minute)
		other.set(10, 10)
		if s, err := w.ends(2*time.Minute, 4*time.Minute); err != nil || s.Watches != 10 {
			t.Errorf("got %v, %v", s, err)
		}
	})
}

// Subscribers that come and go: those that stop for good count until Settle has passed, and new
// ones count at once.
func TestWaitForWatchesThatComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newGateServer(t).up().set(5, 4, "a")
		w := wait(t, gateServers(t, server), client.WaitOptions{Settle: 10 * time.Second})
		w.goesOn(time.Minute)
		server.set(4, 4)
		w.goesOn(5 * time.Second)
		server.set(6, 5, "b")
		w.goesOn(time.Minute)
		server.set(5, 5)
		if s, err := w.ends(2*time.Minute+15*time.Second, 2*time.Minute+15*time.Second+quick); err != nil || s.Watches != 5 {
			t.Errorf("got %v, %v", s, err)
		}
		// A quorum that is reached without those that have ended does not wait for them.
		server.set(10, 8, "a", "b")
		w = wait(t, gateServers(t, server), client.WaitOptions{Quorum: 0.9})
		w.goesOn(time.Second)
		server.set(9, 9)
		if _, err := w.ends(time.Second, time.Second+quick); err != nil {
			t.Error(err)
		}
		server.set(5, 4, "a")
		w = wait(t, gateServers(t, server), client.WaitOptions{Settle: -1})
		w.goesOn(time.Second)
		server.set(4, 4)
		if _, err := w.ends(time.Second, time.Second+quick); err != nil {
			t.Error(err)
		}
	})
}

// A resource without watches is enough only if MinWatches says so.
func TestWaitForAMinimumOfWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newGateServer(t).up().set(0, 0)
		if s, err := wait(t, gateServers(t, server), client.WaitOptions{MinWatches: -1}).ends(0, quick); err != nil || s.Required != 0 {
			t.Errorf("got %v, %v", s, err)
		}
		mistyped := wait(t, gateServers(t, server), client.WaitOptions{})
		if s := mistyped.goesOn(time.Minute); s.String() != "0 of 0 watches have applied revision 7, want 1" {
			t.Errorf("got %v", s)
		}
		mistyped.stop()
		w := wait(t, gateServers(t, server), client.WaitOptions{MinWatches: 3, Quorum: 0.5})
		w.goesOn(time.Minute)
		server.set(2, 2)
		if s := w.goesOn(time.Minute); s.Required != 2 {
			t.Errorf("got %v", s)
		}
		server.set(3, 2, "a")
		if _, err := w.ends(2*time.Minute, 2*time.Minute+quick); err != nil {
			t.Error(err)
		}
	})
}

// The servers select the watches. Those that do not report are listed, but do not count.
func TestWaitForSelectedWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, other := newGateServer(t).up().set(1, 1), newGateServer(t).up().set(1, 0, "a")
		one.answerWith(func(m *fanoutv1.WatchAppliedResponse) {
			m.NotReporting, m.NotReportingWatchers = 2, []*fanoutv1.WatcherStatus{{Id: "id-page", Peer: "10.1.1.1:5"}}
		})
		w := wait(t, gateServers(t, one, other), client.WaitOptions{Subscribers: "app=cart", Instance: "cart-1", RequireAll: true})
		s := w.goesOn(time.Minute)
		if want := "1 of 2 watches have applied revision 7, want 2, 2 do not report"; s.String() != want {
			t.Errorf("got %q, want %q", s, want)
		}
		if len(s.Uncounted) != 1 || s.Uncounted[0].ID != "id-page" || s.Servers[0].NotReporting != 2 {
			t.Errorf("got %+v", s)
		}
		want := &fanoutv1.WatchAppliedRequest{Resource: "config", Revision: 7, SubscriberSelector: "app=cart", Instance: "cart-1", RequireAll: true}
		if !proto.Equal(one.requests[0], want) {
			t.Errorf("got the request %v, want %v", one.requests[0], want)
		}
		other.set(1, 1)
		if s, err := w.ends(time.Minute, time.Minute+quick); err != nil || s.NotReporting != 2 {
			t.Errorf("got %v, %v", s, err)
		}
	})
}

// A status says that the revision does not exist yet, until a server has it.
func TestWaitForARevisionThatDoesNotExist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, other := newGateServer(t).up().set(1, 0, "a"), newGateServer(t).up().set(0, 0)
		at := func(s *gateServer, revision int64) {
			s.answerWith(func(m *fanoutv1.WatchAppliedResponse) {
				m.Position = &fanoutv1.Position{Epoch: "e", Revision: revision}
			})
		}
		at(one, 3)
		at(other, 5)
		w := wait(t, gateServers(t, one, other), client.WaitOptions{})
		s := w.goesOn(time.Minute)
		want := "0 of 1 watch has applied revision 7, want 1; revision 7 does not exist yet, or no server has received it: the newest is 5; not applied by a"
		if s.Detail() != want {
			t.Errorf("got %q, want %q", s.Detail(), want)
		}
		at(other, 7)
		if s, want := w.goesOn(time.Minute), "0 of 1 watch has applied revision 7, want 1; not applied by a"; s.Detail() != want {
			t.Errorf("got %q, want %q", s.Detail(), want)
		}
	})
}

// Progress gets a status every second although nothing changes.
func TestWaitShowsThatItGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		w := wait(t, gateServers(t, newGateServer(t).up().set(1, 0, "a")), client.WaitOptions{Progress: func(*client.WaitStatus) { calls++ }})
		w.goesOn(time.Minute)
		w.stop()
		if _, err := w.ends(time.Minute, time.Minute); err == nil || calls < 59 || calls > 63 {
			t.Errorf("got %d calls in a minute, %v", calls, err)
		}
	})
}

// A server that has never answered may have any number of watches. The wait reports it, continues
// with the others, and succeeds when the server answers.
func TestWaitWithAServerThatIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up, down := newGateServer(t).up().set(2, 2), newGateServer(t).set(1, 1)
		w := wait(t, gateServers(t, down, up), client.WaitOptions{})
		s := w.goesOn(10 * time.Minute)
		if want := "2 of 2 watches have applied revision 7, no answer from 10.0.0.1:1"; s.String() != want {
			t.Errorf("got %q, want %q", s, want)
		}
		if v := s.Servers[0]; v.Answered || v.Answering || v.Err == nil || !strings.Contains(v.Err.Error(), "connection refused") || !s.Servers[1].Answering {
			t.Errorf("got %+v", s.Servers)
		}
		if n := down.dialed(); n < 60 || n > 600 {
			t.Errorf("%d attempts to connect in ten minutes", n)
		}
		down.up()
		if s, err := w.ends(10*time.Minute, 10*time.Minute+20*time.Second); err != nil || s.Watches != 3 || len(s.Missing()) != 0 {
			t.Errorf("got %v, %v", s, err)
		}
	})
}

// With AllowMissingServers, a server that cannot be reached does not matter, but one that is slow
// does. Some server must answer.
func TestWaitWithoutAMissingServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up, down, slow := newGateServer(t).up().set(2, 2), newGateServer(t), newGateServer(t).up()
		w := wait(t, gateServers(t, up, down, slow), client.WaitOptions{AllowMissingServers: true})
		w.goesOn(5 * time.Second)
		slow.set(1, 0, "a")
		w.goesOn(time.Minute)
		slow.set(1, 1)
		s, err := w.ends(time.Minute, time.Minute+10*time.Second)
		if err != nil || s.Watches != 3 || len(s.Missing()) != 1 || s.Missing()[0].Address != "10.0.0.2:1" {
			t.Errorf("got %v, %v", s, err)
		}
		_, err = wait(t, gateServers(t, down, down), client.WaitOptions{AllowMissingServers: true}).ends(time.Hour, time.Hour)
		if !errors.As(err, new(*client.NotReachedError)) {
			t.Errorf("got %v, but no server has answered", err)
		}
	})
}

// A server that stops after its first answer: its watches count until they must have moved.
func TestWaitWhileAServerStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, other := newGateServer(t).up().set(5, 2, "a"), newGateServer(t).up().set(5, 5)
		w := wait(t, gateServers(t, one, other), client.WaitOptions{})
		w.goesOn(time.Minute)
		one.down()
		s := w.goesOn(client.DefaultSettle / 2)
		if want := "5 of 5 watches have applied revision 7, want 10, 5 ended recently, no answer from 10.0.0.1:1"; s.String() != want {
			t.Errorf("got %q, want %q", s, want)
		}
		if v := s.Servers[0]; !v.Answered || v.Answering || v.Err == nil || v.Watches != 5 || v.Applied != 2 {
			t.Errorf("got %+v", v)
		}
		other.set(8, 6, "a")
		w.goesOn(time.Minute)
		other.set(8, 8)
		if s, err := w.ends(2*time.Minute, 4*time.Minute); err != nil || len(s.Missing()) != 1 || s.Watches != 8 {
			t.Errorf("got %v, %v", s, err)
		}

		// The server comes back before its clients have moved.
		one.up().set(5, 2, "a")
		other.set(5, 5)
		w = wait(t, gateServers(t, one, other), client.WaitOptions{})
		w.goesOn(time.Minute)
		one.down()
		w.goesOn(2 * time.Second)
		one.up().set(1, 1)
		if s := w.goesOn(20 * time.Second); s.RecentWatches != 10 || s.Watches != 6 || len(s.Missing()) != 0 {
			t.Errorf("got %v", s)
		}
		one.set(5, 5)
		if _, err := w.ends(time.Minute, 2*time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// A server that accepts the request and does not answer counts as one that cannot be reached.
func TestWaitWithASilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := newGateServer(t).up()
		w := wait(t, gateServers(t, silent), client.WaitOptions{})
		s := w.goesOn(15 * time.Second)
		if s == nil || s.Servers[0].Err == nil || s.Servers[0].Err.Error() != "the server is silent: no answer for 10s" {
			t.Fatalf("got %v", s)
		}
		// A server that has answered may be silent.
		silent.set(1, 0, "a")
		w.goesOn(time.Minute)
		n := len(silent.requests)
		if s := w.goesOn(10 * time.Minute); len(silent.requests) != n || len(s.Missing()) > 0 {
			t.Errorf("got %d further requests, %v", len(silent.requests)-n, s)
		}
	})
}

// Errors that no retry can help end the wait. Others do not.
func TestWaitEndsWhenAServerRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err          error
		before, then bool // ends the wait: before the first answer, and after it
	}{
		{refusal(codes.PermissionDenied, client.ErrPermissionDenied), true, true},
		{refusal(codes.NotFound, client.ErrUnknownResource), true, true},
		{refusal(codes.InvalidArgument, client.ErrInvalidRequest), true, true},
		{refusal(codes.Unimplemented, ""), true, false},
		{refusal(codes.Unauthenticated, client.ErrUnauthenticated), true, true},
		{refusal(codes.Unavailable, client.ErrDraining), false, false},
		{refusal(codes.ResourceExhausted, client.ErrRateLimited, retryIn(2)), false, false},
		{errLost, false, false},
	} {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprint(c.err, answered), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					server := newGateServer(t).up()
					server.set(2, 1, "a")
					ends := c.before
					if answered {
						ends = c.then
					} else {
						server.refuse(c.err)
					}
					w := wait(t, gateServers(t, server), client.WaitOptions{})
					if answered {
						w.goesOn(time.Minute)
						server.refuse(c.err)
					}
					if !ends {
						w.goesOn(10 * time.Minute)
						server.refuse(nil)
						server.set(2, 2)
						if _, err := w.ends(10*time.Minute, 13*time.Minute); err != nil {
							t.Error(err)
						}
						return
					}
					s, err := w.ends(0, time.Minute+5*time.Second)
					e, ok := errors.AsType[*client.Error](err)
					if !ok || s == nil || !strings.HasPrefix(err.Error(), "wait for config: server 10.0.0.1:1: ") || !errors.Is(s.Servers[0].Err, e) {
						t.Errorf("got %v, %v", s, err)
					}
				})
			})
		}
	}
}

// A server that ends every stream at once is not asked more often than one that is down.
func TestWaitDoesNotHurry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newGateServer(t).up()
		server.refuse(errLost)
		wait(t, gateServers(t, server), client.WaitOptions{}).goesOn(10 * time.Minute)
		if n := len(server.requests); n < 60 || n > 600 {
			t.Errorf("got %d requests in ten minutes", n)
		}
	})
}

// A wait ends with its context and with its clients.
func TestWaitIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		servers := gateServers(t, newGateServer(t).up().set(2, 1, "a"))
		w := wait(t, servers, client.WaitOptions{})
		w.goesOn(time.Minute)
		w.stop()
		if s, err := w.ends(time.Minute, time.Minute); !errors.Is(err, context.Canceled) || !errors.As(err, new(*client.NotReachedError)) || s.Applied != 1 {
			t.Errorf("got %v, %v", s, err)
		}
		w = wait(t, servers, client.WaitOptions{})
		w.goesOn(time.Minute)
		if err := servers[0].Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.ends(time.Minute, time.Minute+10*time.Second); !errors.Is(err, client.ErrClosed) {
			t.Errorf("got %v, want %v", err, client.ErrClosed)
		}
	})
}

// Invalid options cost nothing.
func TestWaitChecksItsOptions(t *testing.T) {
	t.Parallel()
	servers := []client.Server{{Address: "a", Client: newClient(t, "127.0.0.1:1")}}
	valid := client.WaitOptions{Servers: servers, Resource: "config", Revision: 1}
	for want, change := range map[string]func(*client.WaitOptions){
		"no servers":              func(o *client.WaitOptions) { o.Servers = nil },
		"a server without":        func(o *client.WaitOptions) { o.Servers = []client.Server{{}} },
		"no resource":             func(o *client.WaitOptions) { o.Resource = "" },
		"revision 0":              func(o *client.WaitOptions) { o.Revision = 0 },
		"quorum 1.1":              func(o *client.WaitOptions) { o.Quorum = 1.1 },
		"quorum -0.1":             func(o *client.WaitOptions) { o.Quorum = -0.1 },
		"quorum NaN":              func(o *client.WaitOptions) { o.Quorum = math.NaN() },
		"tolerate -1":             func(o *client.WaitOptions) { o.Tolerate = -1 },
		"resource is not valid U": func(o *client.WaitOptions) { o.Resource = "\xff" },
	} {
		o := valid
		change(&o)
		if s, err := client.Wait(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) || s != nil {
			t.Errorf("got %v, %v, want %q", s, err, want)
		}
	}
}
