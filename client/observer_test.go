package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/client"
)

// hooks records what the hooks of an observer get, without the times, which are random.
type hooks struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (h *hooks) record(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *hooks) check(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if diff := cmp.Diff(want, h.lines); diff != "" {
		t.Errorf("hooks: -want +got:\n%s", diff)
	}
}

func (h *hooks) observer() client.Option {
	return client.WithObserver(client.Observer{
		Request: func(e client.RequestEnded) {
			h.record("request %s %s %v attempts=%d slow=%v", e.Method, e.Resource, e.Code, e.Attempts, e.Duration > 0)
		},
		WatchOpened: func(e client.WatchOpened) {
			h.record("opened %s %s resumed=%v shared=%v", e.Resource, e.Server, e.Resumed, e.Shared)
		},
		WatchReceived: func(e client.WatchReceived) {
			h.record("received %s %d %q synced=%v", e.Resource, e.Events, e.CatchUp, e.Synced)
		},
		WatchInterrupted: func(e client.WatchInterrupted) {
			h.record("interrupted %s %v %q delay=%v", e.Resource, e.Code, e.Reason, e.Delay > 0)
		},
		WatchEnded: func(e client.WatchEnded) { h.record("ended %s %v %q", e.Resource, e.Code, e.Reason) },
		HandlerFailed: func(e client.HandlerFailed) {
			h.record("failed %s %s %v delay=%v", e.Resource, e.Key, e.Err, e.Delay > 0)
		},
	})
}

func TestTheObserverSeesWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{messages: []message{reset(), part(0, added("a", 1), added("b", 2)), synced(5), live(6, modified("a", 6)), bookmark(7)}, lasts: time.Minute, end: errLost},
			{messages: []message{replay(7), part(8, modified("a", 8)), synced(8)}, lasts: time.Minute, end: errOK}, // a time limit
			{messages: []message{delta(8), part(8, deleted("a", 9)), synced(9)}},                                   // and then silence
			{messages: []message{replay(9), synced(9)}, lasts: time.Minute, end: refusal(codes.PermissionDenied, client.ErrPermissionDenied)},
		}}
		h := &hooks{}
		r := connectTo(t, s, h.observer())
		for _, err := range r.Watch(t.Context(), client.BookmarkInterval(time.Hour)) {
			if err != nil && !errors.Is(err, client.ErrPermissionDenied) {
				t.Error(err)
			}
		}
		shared := !lacksSubscribe()
		h.check(t,
			fmt.Sprintf("opened config script-0:1 resumed=false shared=%v", shared),
			`received config 2 "reset" synced=false`, `received config 0 "reset" synced=true`, `received config 1 "" synced=false`,
			`interrupted config Unavailable "" delay=true`,
			fmt.Sprintf("opened config script-0:1 resumed=true shared=%v", shared),
			`received config 1 "replay" synced=false`, `received config 0 "replay" synced=true`,
			fmt.Sprintf("opened config script-0:1 resumed=true shared=%v", shared),
			`received config 1 "delta" synced=false`, `received config 0 "delta" synced=true`,
			`interrupted config Unavailable "" delay=true`,
			fmt.Sprintf("opened config script-0:1 resumed=true shared=%v", shared),
			`received config 0 "replay" synced=true`,
			`ended config PermissionDenied "PERMISSION_DENIED"`,
		)
	})
}

func TestTheObserverSeesWatchesThatCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hooks{}
		r := connectTo(t, &scriptedServer{streams: []stream{{}}}, h.observer())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range r.Watch(ctx) { // the end of its context is no event
		}
		for range r.Watch(t.Context(), client.Prefix("\xff")) {
		}
		h.check(t, `ended config InvalidArgument "INVALID_REQUEST"`)
	})
}

func TestTheObserverSeesRequests(t *testing.T) {
	source := client.WithTokenSource(func(context.Context) (string, error) { return "token", nil })
	noToken := client.WithTokenSource(func(context.Context) (string, error) { return "", errors.New("no token") })
	notice := client.WithWaitingNotice(time.Hour, func(error) {})
	for name, c := range map[string]struct {
		request func(*client.Resource) error
		opts    []client.Option
		err     error
		want    string
	}{
		"a read with all attempts": {request: get, err: errLost, want: "request Get config Unavailable attempts=4 slow=true"},
		"with a notice":            {request: get, opts: []client.Option{notice}, err: errLost, want: "request Get config Unavailable attempts=4 slow=true"},
		"a write":                  {request: putOne, err: errLost, want: "request Put config Unavailable attempts=1 slow=false"},
		"a renewed token":          {request: putOne, opts: []client.Option{source}, err: refusal(codes.Unauthenticated, client.ErrUnauthenticated), want: "request Put config Unauthenticated attempts=2 slow=false"},
		"a deadline":               {request: putOne, want: "request Put config DeadlineExceeded attempts=1 slow=true"},
		"no token":                 {request: putOne, opts: []client.Option{noToken}, err: errLost, want: "request Put config Unavailable attempts=0 slow=false"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hooks{}
				r := dialAnswering(t, &answeringServer{errors: []error{c.err}}, append(c.opts, h.observer())...)
				if c.request(r) == nil {
					t.Error("got no error")
				}
				h.check(t, c.want)
			})
		})
	}
}

func TestTheObserverSeesRequestsThatCannotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hooks{}
		c, err := client.New("passthrough:///nowhere", h.observer(), client.WithInsecure(), client.WithDialOptions(
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errors.New("no server") }),
		))
		if err != nil {
			t.Fatal(err)
		}
		if err := get(c.Resource("config")); err == nil {
			t.Error("got no error without a server")
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := get(c.Resource("config")); !errors.Is(err, client.ErrClosed) {
			t.Errorf("got %v after Close", err)
		}
		h.check(t, "request Get config Unavailable attempts=0 slow=true", "request Get config Canceled attempts=0 slow=false")
	})
}

func TestRunningInformersHaveAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{
			messages: []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2"), withValue(added("c", 3), "x")), synced(5)},
			later:    liveAfter(live(6, withValue(added("d", 6), "6"))),
		}}}
		h := &hooks{}
		c := dialScripted(t, []*scriptedServer{s}, h.observer())
		defer c.Close()
		informers := func() []client.InformerState {
			synctest.Wait()
			return c.Informers()
		}
		inf := client.NewInformer(c.Resource("config"), number, client.BookmarkInterval(time.Hour))
		proceed, failure := make(chan struct{}), errors.New("no")
		inf.AddHandler(client.Handler[int]{Add: func(i client.Item[int]) error {
			if i.Object.Key == "b" {
				<-proceed
				return failure
			}
			return nil
		}})
		if got := informers(); len(got) != 0 {
			t.Errorf("before Run: %+v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error)
		go func() { ended <- inf.Run(ctx) }()
		for _, step := range []struct {
			name string
			do   func()
			want client.InformerState
		}{
			{"while a handler is busy", func() {}, client.InformerState{Resource: "config", Items: 2, Invalid: 1, Queue: 2}},
			{"while changes wait", func() { time.Sleep(20 * time.Minute) }, client.InformerState{Resource: "config", Items: 3, Invalid: 1, Queue: 3}},
			{"when the handler has failed", func() { proceed <- struct{}{} }, client.InformerState{Resource: "config", Items: 3, Invalid: 1, Queue: 1}},
		} {
			step.do()
			if diff := cmp.Diff([]client.InformerState{step.want}, informers()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", step.name, diff)
			}
		}
		cancel()
		close(proceed)
		<-ended
		if got := informers(); len(got) != 0 {
			t.Errorf("after Run: %+v", got)
		}
		if got := h.lines[len(h.lines)-1]; got != "failed config b no delay=true" {
			t.Errorf("the last hook: %s", got)
		}
	})
}

func TestHooksThatEndTheirGoroutineChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &scriptedServer{streams: []stream{
			{messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(5)}, lasts: time.Minute, end: errLost},
			{messages: []message{replay(5), synced(6)}, later: liveAfter(live(7, withValue(added("b", 7), "7"))), lasts: time.Minute, end: refusal(codes.PermissionDenied, client.ErrPermissionDenied)},
		}}
		r := connectTo(t, s, client.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), client.WithObserver(client.Observer{
			Request:          func(client.RequestEnded) { runtime.Goexit() },
			WatchOpened:      func(client.WatchOpened) { runtime.Goexit() },
			WatchReceived:    func(client.WatchReceived) { runtime.Goexit() },
			WatchInterrupted: func(client.WatchInterrupted) { runtime.Goexit() },
			WatchEnded:       func(client.WatchEnded) { runtime.Goexit() },
			HandlerFailed:    func(client.HandlerFailed) { runtime.Goexit() },
		}))
		inf := client.NewInformer(r, number, client.BookmarkInterval(time.Hour))
		calls, failed := newRecorder(), false
		calls.results = func(string) error {
			if failed {
				return nil
			}
			failed = true
			return errors.New("no")
		}
		inf.AddHandler(calls.handler())
		if err := inf.Run(t.Context()); !errors.Is(err, client.ErrPermissionDenied) {
			t.Errorf("Run: %v", err)
		}
		if diff := cmp.Diff([]string{"+a=1", "+a=1", "+b=7"}, calls.all()); diff != "" {
			t.Errorf("calls: -want +got:\n%s", diff)
		}
		if err := get(r); err == nil {
			t.Error("get: got no error")
		}
		if n := strings.Count(log.String(), "hook failed"); n != 2+4+1+1+1+1 {
			t.Errorf("%d hooks have failed:\n%s", n, log.String())
		}
	})
}

func TestAHookMayCloseTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *client.Client
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), synced(5)}}}}
		c = dialScripted(t, []*scriptedServer{s}, client.WithObserver(client.Observer{WatchReceived: func(client.WatchReceived) {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}}))
		inf := client.NewInformer(c.Resource("config"), number)
		if err := inf.Run(t.Context()); !errors.Is(err, client.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTheObserverSeesRequestsThatSucceed(t *testing.T) {
	h := &hooks{}
	r := newClient(t, newServer(t).Address(), h.observer()).Resource("config")
	revision := put(t, r, "a", "1")
	if _, err := r.Get(testContext(t), "a", client.MinRevision(revision)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Count(testContext(t)); n != 1 || err != nil {
		t.Fatalf("got %d objects, error %v", n, err)
	}
	h.check(t, "request Put config OK attempts=1 slow=true", "request Get config OK attempts=1 slow=true", "request List config OK attempts=1 slow=true")
}
