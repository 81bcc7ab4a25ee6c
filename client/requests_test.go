package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// answeringServer answers each request with the next error, and the last one again. Without an error it
// never answers.
type answeringServer struct {
	fanoutv1.UnimplementedFanoutServiceServer
	fanoutv1.UnimplementedStoreServiceServer
	errors []error
	calls  atomic.Int64
}

func (s *answeringServer) answer(ctx context.Context) error {
	n := int(s.calls.Add(1)) - 1
	if err := s.errors[min(n, len(s.errors)-1)]; err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *answeringServer) Get(ctx context.Context, _ *fanoutv1.GetRequest) (*fanoutv1.GetResponse, error) {
	return nil, s.answer(ctx)
}

func (s *answeringServer) Put(ctx context.Context, _ *fanoutv1.PutRequest) (*fanoutv1.PutResponse, error) {
	return nil, s.answer(ctx)
}

func dialAnswering(t *testing.T, s *answeringServer, opts ...client.Option) *client.Resource {
	t.Helper()
	srv := grpc.NewServer()
	fanoutv1.RegisterFanoutServiceServer(srv, s)
	fanoutv1.RegisterStoreServiceServer(srv, s)
	c := dialInMemory(t, []*grpc.Server{srv}, opts...)
	t.Cleanup(func() { c.Close() })
	return c.Resource("config")
}

func get(r *client.Resource) error {
	_, err := r.Get(context.Background(), "a")
	return err
}

func putOne(r *client.Resource) error {
	_, err := r.Put(context.Background(), "a", client.Text("1"))
	return err
}

func update(r *client.Resource) error {
	_, err := r.Update(context.Background(), "a", func(*client.Object) (*client.Value, error) { return nil, nil })
	return err
}

func TestRequestsWithoutADeadlineGetOne(t *testing.T) {
	for name, request := range map[string]func(*client.Resource) error{"Get": get, "Put": putOne, "Update": update} {
		for limit, opts := range map[time.Duration][]client.Option{
			30 * time.Second: nil, time.Second: {client.WithRequestTimeout(time.Second)},
		} {
			t.Run(name+", "+limit.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := dialAnswering(t, &answeringServer{errors: []error{nil}}, opts...)
					began := time.Now()
					if err := request(r); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
					if lasted := time.Since(began); lasted != limit {
						t.Errorf("the request has ended after %v, want %v", lasted, limit)
					}
				})
			})
		}
	}
}

func TestWhatIsSentAgain(t *testing.T) {
	source := client.WithTokenSource(func(context.Context) (string, error) { return "token", nil })
	refused := refusal(codes.Unauthenticated, client.ErrUnauthenticated)
	for name, c := range map[string]struct {
		request func(*client.Resource) error
		opts    []client.Option
		err     error
		calls   int64
	}{
		"a read, unavailable":                  {request: get, err: errLost, calls: 4},
		"a read, revision not reached":         {request: get, err: refusal(codes.Unavailable, client.ErrRevisionNotReached), calls: 1},
		"a read, rate limit":                   {request: get, err: refusal(codes.ResourceExhausted, client.ErrRateLimited, retryIn(1)), calls: 4},
		"a read, limit without a delay":        {request: get, err: refusal(codes.ResourceExhausted, client.ErrRequestTooLarge), calls: 1},
		"a read, a delay after the deadline":   {request: get, err: refusal(codes.Unavailable, client.ErrNotReady, retryIn(40)), calls: 1},
		"a write, unavailable":                 {request: putOne, err: errLost, calls: 1},
		"a read, refused token of a source":    {request: get, opts: []client.Option{source}, err: refused, calls: 2},
		"a write, refused token of a source":   {request: putOne, opts: []client.Option{source}, err: refused, calls: 2},
		"a write, refused token that is fixed": {request: putOne, opts: []client.Option{client.WithToken("token")}, err: refused, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &answeringServer{errors: []error{c.err}}
				if err := c.request(dialAnswering(t, s, c.opts...)); err == nil {
					t.Error("got no error")
				}
				if n := s.calls.Load(); n != c.calls {
					t.Errorf("the request was sent %d times, want %d", n, c.calls)
				}
			})
		})
	}
}

// A renewal is one more attempt of the whole call: it does not begin the attempts of a read again.
func TestACallIsRenewedOnce(t *testing.T) {
	refused := refusal(codes.Unauthenticated, client.ErrUnauthenticated)
	for name, c := range map[string]struct {
		request func(*client.Resource) error
		errors  []error
		calls   int64
		end     codes.Code
	}{
		"a read, then unavailable":         {get, []error{refused, errLost}, 5, codes.Unavailable},
		"a read, at the last attempt":      {get, []error{errLost, errLost, errLost, refused, errLost}, 5, codes.Unavailable},
		"a read, refused again":            {get, []error{errLost, refused, errLost, refused}, 4, codes.Unauthenticated},
		"a write, then unavailable":        {putOne, []error{refused, errLost}, 2, codes.Unavailable},
		"a write that is unavailable once": {putOne, []error{errLost, refused}, 1, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &answeringServer{errors: c.errors}
				r := dialAnswering(t, s, client.WithTokenSource(func(context.Context) (string, error) { return "token", nil }))
				if err := c.request(r); status.Code(err) != c.end {
					t.Errorf("got %v, want %v", err, c.end)
				}
				if n := s.calls.Load(); n != c.calls {
					t.Errorf("the request was sent %d times, want %d", n, c.calls)
				}
			})
		})
	}
}

// A read does not wait for a deadline before which no further attempt can begin.
func TestReadsEndWhenNoAttemptCanFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := dialAnswering(t, &answeringServer{errors: []error{refusal(codes.Unavailable, client.ErrNotReady, retryIn(40))}})
		began := time.Now()
		err := get(r)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the last attempt failed: no") {
			t.Errorf("got %v", err)
		}
		if lasted := time.Since(began); lasted > time.Second {
			t.Errorf("the read has waited %v", lasted)
		}
	})
}

func TestUpdateKeepsLabelsAndContentType(t *testing.T) {
	t.Parallel()
	r := newResource(t)
	labels := map[string]string{"team": "x"}
	for name, c := range map[string]struct {
		value client.Value
		want  client.Value
	}{
		"not set":     {client.Text("2"), client.Value{Data: []byte("2"), ContentType: "text/csv", Labels: labels}},
		"others":      {client.JSON(2).WithLabels(map[string]string{"a": "b"}), client.Value{Data: []byte("2"), ContentType: "application/json", Labels: map[string]string{"a": "b"}}},
		"none":        {client.Text("2").WithLabels(nil).WithContentType("text/plain"), client.Value{Data: []byte("2"), ContentType: "text/plain"}},
		"empty label": {client.Value{Data: []byte("2"), ContentType: "text/plain", Labels: map[string]string{}}, client.Value{Data: []byte("2"), ContentType: "text/plain"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := r.Put(testContext(t), "a", client.Text("1").WithContentType("text/csv").WithLabels(labels)); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Update(testContext(t), "a", func(*client.Object) (*client.Value, error) { return &c.value, nil }); err != nil {
				t.Fatal(err)
			}
			o, err := r.Get(testContext(t), "a")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, client.Value{Data: o.Value, ContentType: o.ContentType, Labels: o.Labels}, cmp.AllowUnexported(client.Value{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAddressesWithoutAPortAreRefused(t *testing.T) {
	for _, target := range []string{"", "host", "host:", "a:1,b", "dns:///host", "http://host:1", "https://host:1"} {
		if c, err := client.New(target); err == nil {
			c.Close()
			t.Errorf("%q was accepted", target)
		}
	}
}
