package client_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
)

// A client may be closed in its own callbacks.
func TestCloseInACallback(t *testing.T) {
	for name, c := range map[string]struct {
		streams []stream
		use     func(t *testing.T, c *client.Client, closed func())
	}{
		"a handler": {
			use: func(t *testing.T, c *client.Client, closed func()) {
				inf := client.NewInformer(c.Resource("config"), number)
				inf.AddHandler(client.Handler[int]{Add: func(client.Item[int]) error { closed(); return nil }})
				if err := inf.Run(t.Context()); !errors.Is(err, client.ErrClosed) {
					t.Errorf("Run: got %v", err)
				}
			},
		},
		"a decoder": {
			use: func(t *testing.T, c *client.Client, closed func()) {
				inf := client.NewInformer(c.Resource("config"), func(*client.Object) (int, error) { closed(); return 0, nil })
				if err := inf.Run(t.Context()); !errors.Is(err, client.ErrClosed) {
					t.Errorf("Run: got %v", err)
				}
			},
		},
		"OnInterruption of an informer": {
			streams: []stream{{end: errLost}},
			use: func(t *testing.T, c *client.Client, closed func()) {
				inf := client.NewInformer(c.Resource("config"), number, client.OnInterruption(func(error) { closed() }))
				if err := inf.Run(t.Context()); !errors.Is(err, client.ErrClosed) {
					t.Errorf("Run: got %v", err)
				}
			},
		},
		"OnInterruption of a watch": {
			streams: []stream{{end: errLost}},
			use: func(t *testing.T, c *client.Client, closed func()) {
				for _, err := range c.Resource("config").Watch(t.Context(), client.OnInterruption(func(error) { closed() })) {
					if !errors.Is(err, client.ErrClosed) {
						t.Errorf("Watch: got %v", err)
					}
				}
			},
		},
		"a watch": {
			use: func(t *testing.T, c *client.Client, closed func()) {
				for _, err := range c.Resource("config").Watch(t.Context()) {
					if err == nil {
						closed()
					} else if !errors.Is(err, client.ErrClosed) {
						t.Errorf("Watch: got %v", err)
					}
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := oneObject()
				if c.streams != nil {
					s.streams = c.streams
				}
				conn := dialScripted(t, []*scriptedServer{s})
				began, calls := time.Now(), 0
				c.use(t, conn, func() {
					if err := conn.Close(); (err != nil) != (calls > 0) {
						t.Errorf("call %d of Close: got %v", calls, err)
					}
					calls++
				})
				if lasted := time.Since(began); calls == 0 || lasted > 5*time.Second {
					t.Errorf("%d calls of Close, which took %v", calls, lasted)
				}
			})
		})
	}
}

// The notice is called by a timer, and may use the client as well.
func TestTheWaitingNoticeMayUseTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *client.Client
		notices := 0
		notice := func(error) {
			notices++
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Resource("config").Get(ctx, "a"); err == nil {
				t.Error("got an object without a server")
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		c, err := client.New("127.0.0.1:1", client.WithWaitingNotice(10*time.Millisecond, notice), client.WithDialOptions(grpc.WithContextDialer(refuse)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Resource("config").Get(t.Context(), "a"); !errors.Is(err, client.ErrClosed) {
			t.Errorf("got %v, want %v", err, client.ErrClosed)
		}
		synctest.Wait()
		if notices != 1 {
			t.Errorf("got %d notices, want 1", notices)
		}
	})
}

// A callback that never returns does not keep the end from coming, nor other informers from ending.
func TestTheEndDoesNotWaitForEverForACallback(t *testing.T) {
	for name, end := range map[string]func(cancel func(), c *client.Client){
		"the context of Run": func(cancel func(), _ *client.Client) { cancel() },
		"Client.Close":       func(_ func(), c *client.Client) { c.Close() },
	} {
		for kind, stuck := range map[string]func(block func()) (client.Decoder[int], client.Handler[int], func(error)){
			"handler": func(block func()) (client.Decoder[int], client.Handler[int], func(error)) {
				return number, client.Handler[int]{Add: func(client.Item[int]) error { block(); return nil }}, func(error) {}
			},
			"decoder": func(block func()) (client.Decoder[int], client.Handler[int], func(error)) {
				return func(*client.Object) (int, error) { block(); return 0, nil }, client.Handler[int]{}, func(error) {}
			},
			"OnInterruption": func(block func()) (client.Decoder[int], client.Handler[int], func(error)) {
				return number, client.Handler[int]{}, func(error) { block() }
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := oneObject()
					s.streams = append([]stream{{end: errLost}}, s.streams...)
					c := dialScripted(t, []*scriptedServer{s})
					defer c.Close()
					release, running := make(chan struct{}), make(chan struct{})
					decode, handler, interrupted := stuck(func() { close(running); <-release })
					inf := client.NewInformer(c.Resource("config"), decode, client.OnInterruption(interrupted))
					registration := inf.AddHandler(handler)
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error)
					go func() { ended <- inf.Run(ctx) }()
					<-running
					end(cancel, c)
					select {
					case err := <-ended:
						if !errors.Is(err, context.Canceled) && !errors.Is(err, client.ErrClosed) {
							t.Errorf("Run: got %v", err)
						}
					case <-time.After(time.Hour):
						t.Error("Run waits for ever")
					}
					close(release)
					<-registration.Done()
					synctest.Wait()
				})
			})
		}
	}
}

// A handler may end its informer and remove itself.
func TestAHandlerMayEndItsInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := client.NewInformer(connectTo(t, oneObject()), number)
		ctx, cancel := context.WithCancel(t.Context())
		var registration *client.Registration
		registration = inf.AddHandler(client.Handler[int]{Add: func(client.Item[int]) error {
			registration.Remove()
			cancel()
			registration.Remove()
			return nil
		}})
		if err := inf.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		<-registration.Done()
	})
}

// The shared stream asks for tokens in a goroutine of its own.
func TestATokenSourceMayDoAnything(t *testing.T) {
	needsSubscribe(t)
	for name, c := range map[string]struct {
		token func(c *client.Client, release <-chan struct{})
		want  error // of the watch; nil: it goes on
	}{
		"ends its goroutine": {token: func(*client.Client, <-chan struct{}) { runtime.Goexit() }},
		"closes the client":  {token: func(c *client.Client, _ <-chan struct{}) { c.Close() }, want: client.ErrClosed},
		"never returns": {token: func(c *client.Client, release <-chan struct{}) {
			go c.Close()
			<-release
		}, want: client.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var conn *client.Client
				release := make(chan struct{})
				calls := 0
				conn = dialScripted(t, []*scriptedServer{oneObject()}, client.WithTokenSource(func(context.Context) (string, error) {
					if calls++; calls == 1 {
						c.token(conn, release)
					}
					return "token", nil
				}))
				var got error
				for _, err := range conn.Resource("config").Watch(t.Context()) {
					got = err
					break
				}
				if !errors.Is(got, c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
				closed := make(chan struct{})
				go func() {
					conn.Close()
					close(closed)
				}()
				select {
				case <-closed:
				case <-time.After(time.Hour):
					t.Error("Close waits for ever")
				}
				close(release)
				synctest.Wait()
				time.Sleep(time.Minute)
			})
		})
	}
}
