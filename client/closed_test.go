package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// calls are all requests of a client, by name.
func calls(c *client.Client) map[string]func(context.Context) error {
	r := c.Resource("config")
	return map[string]func(context.Context) error{
		"Get":       func(ctx context.Context) error { _, err := r.Get(ctx, "a"); return err },
		"Count":     func(ctx context.Context) error { _, err := r.Count(ctx); return err },
		"Put":       func(ctx context.Context) error { _, err := r.Put(ctx, "a", client.Text("1")); return err },
		"Delete":    func(ctx context.Context) error { _, _, err := r.Delete(ctx, "a"); return err },
		"TryPut":    func(ctx context.Context) error { _, err := r.TryPut(ctx, "a", client.Text("1")); return err },
		"TryDelete": func(ctx context.Context) error { _, err := r.TryDelete(ctx, "a"); return err },
		"Update": func(ctx context.Context) error {
			_, err := r.Update(ctx, "a", func(*client.Object) (*client.Value, error) { return nil, nil })
			return err
		},
		"Transact": func(ctx context.Context) error { _, err := r.Transact(ctx, client.OpDelete("a")); return err },
		"ListPage": func(ctx context.Context) error { _, err := r.ListPage(ctx); return err },
		"List": func(ctx context.Context) error {
			for _, err := range r.List(ctx) {
				return err
			}
			return nil
		},
		"Watch": func(ctx context.Context) error {
			for _, err := range r.Watch(ctx) {
				return err
			}
			return nil
		},
		"Run":          func(ctx context.Context) error { return client.NewInformer(r, number).Run(ctx) },
		"WaitForSync":  func(ctx context.Context) error { return client.NewInformer(r, number).WaitForSync(ctx) },
		"WaitForState": func(ctx context.Context) error { return client.NewInformer(r, number).WaitForState(ctx) },
		"Conn": func(ctx context.Context) error {
			_, err := fanoutv1.NewAdminServiceClient(c.Conn()).ListResources(ctx, &fanoutv1.ListResourcesRequest{})
			return client.ErrorOf(err)
		},
		"Close": func(context.Context) error { return c.Close() },
	}
}

func TestCallsAfterCloseFailWithErrClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialScripted(t, []*scriptedServer{{streams: []stream{{}}}})
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for name, call := range calls(c) {
			if err := call(t.Context()); !errors.Is(err, client.ErrClosed) {
				t.Errorf("%s: got %v, want %v", name, err, client.ErrClosed)
			}
		}
	})
}

// Close ends the wait for an informer that does not run. There is no wait for one that has ended.
func TestCloseEndsWaitForSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialScripted(t, []*scriptedServer{{streams: []stream{{messages: []message{reset(), synced(5)}}}}})
		wasSynced := client.NewInformer(c.Resource("config"), number)
		ended := make(chan error, 1)
		go func() { ended <- wasSynced.Run(t.Context()) }()
		if err := wasSynced.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		neverRun := client.NewInformer(c.Resource("config"), number)
		waited := make(chan error, 1)
		go func() { waited <- neverRun.WaitForSync(t.Context()) }()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-waited; !errors.Is(err, client.ErrClosed) {
			t.Errorf("not run: got %v, want %v", err, client.ErrClosed)
		}
		if err := <-ended; !errors.Is(err, client.ErrClosed) {
			t.Errorf("Run: got %v, want %v", err, client.ErrClosed)
		}
		if err := wasSynced.WaitForSync(t.Context()); !errors.Is(err, client.ErrClosed) {
			t.Errorf("synced before: got %v, want %v", err, client.ErrClosed)
		}
	})
}

// Only one of several concurrent calls of Close closes the client.
func TestConcurrentClosesFailWithErrClosed(t *testing.T) {
	c, err := client.New("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	const closers = 8
	results, start := make(chan error, closers), make(chan struct{})
	for range closers {
		go func() { <-start; results <- c.Close() }()
	}
	close(start)
	closed := 0
	for range closers {
		switch err := <-results; {
		case err == nil:
			closed++
		case !errors.Is(err, client.ErrClosed):
			t.Errorf("got %v, want %v", err, client.ErrClosed)
		}
	}
	if closed != 1 {
		t.Errorf("%d calls succeeded, want 1", closed)
	}
}

// stuckServer never answers.
type stuckServer struct {
	fanoutv1.UnimplementedFanoutServiceServer
	fanoutv1.UnimplementedStoreServiceServer
	called chan struct{} // closed by the first request
}

func (s *stuckServer) Put(ctx context.Context, _ *fanoutv1.PutRequest) (*fanoutv1.PutResponse, error) {
	close(s.called)
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *stuckServer) Get(ctx context.Context, _ *fanoutv1.GetRequest) (*fanoutv1.GetResponse, error) {
	close(s.called)
	<-ctx.Done()
	return nil, ctx.Err()
}

// Close ends a call that waits for its server, and one that waits before a retry.
func TestCloseEndsCallsWithErrClosed(t *testing.T) {
	for name, call := range map[string]func(context.Context, *client.Resource) error{
		"server, read": func(ctx context.Context, r *client.Resource) error { _, err := r.Get(ctx, "a"); return err },
		"server, write": func(ctx context.Context, r *client.Resource) error {
			_, err := r.Put(ctx, "a", client.Text("1"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := listen(t)
			srv, stuck := grpc.NewServer(), &stuckServer{called: make(chan struct{})}
			fanoutv1.RegisterFanoutServiceServer(srv, stuck)
			fanoutv1.RegisterStoreServiceServer(srv, stuck)
			served := make(chan error, 1)
			go func() { served <- srv.Serve(listener) }()
			t.Cleanup(func() { srv.Stop(); <-served })
			c, err := client.New(listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan error, 1)
			go func() { got <- call(testContext(t), c.Resource("config")) }()
			<-stuck.called
			c.Close()
			if err := <-got; !errors.Is(err, client.ErrClosed) {
				t.Errorf("got %v, want %v", err, client.ErrClosed)
			}
		})
	}
	t.Run("retry", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, err := client.New("127.0.0.1:1", client.WithDialOptions(grpc.WithContextDialer(refuse)))
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan error, 1)
			go func() {
				_, err := c.Resource("config").Get(t.Context(), "a")
				got <- err
			}()
			synctest.Wait() // the first attempt has failed
			c.Close()
			if err := <-got; !errors.Is(err, client.ErrClosed) {
				t.Errorf("got %v, want %v", err, client.ErrClosed)
			}
		})
	})
}

// A read whose time is up between two attempts reports why the last one failed.
func TestReadsReportTheLastFailureAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New("127.0.0.1:1", client.WithDialOptions(grpc.WithContextDialer(refuse)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = c.Resource("config").ListPage(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), errRefused.Error()) {
			t.Errorf("got %v, want %v because of %v", err, context.DeadlineExceeded, errRefused)
		}
	})
}

var errRefused = errors.New("nothing listens there")

func refuse(context.Context, string) (net.Conn, error) { return nil, errRefused }
