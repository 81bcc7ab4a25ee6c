package server_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// refusal is the status of a refused request as a client sees it.
type refusal struct {
	Code     codes.Code
	Reason   apierr.Reason
	Metadata map[string]string
	Fields   []string // of the BadRequest violations, in order
	Retry    bool     // the status has a RetryInfo
}

// invalid is the refusal of a request with faults in the given fields.
func invalid(fields ...string) refusal {
	return refusal{Code: codes.InvalidArgument, Reason: apierr.ReasonInvalidRequest, Fields: fields}
}

func unknownResource(name string) refusal {
	return refusal{
		Code: codes.NotFound, Reason: apierr.ReasonUnknownResource,
		Metadata: map[string]string{"resource": name},
	}
}

// refusalIn returns the refusal in an error. The error must be a status with a reason and
// fanoutd's domain.
func refusalIn(t *testing.T, err error) refusal {
	t.Helper()
	st, ok := status.FromError(err)
	if !ok || err == nil {
		t.Fatalf("got %v, want a status", err)
	}
	r := refusal{Code: st.Code()}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != "fanoutd.github.io" {
				t.Errorf("got domain %q, want fanoutd.github.io", d.GetDomain())
			}
			r.Reason, r.Metadata = apierr.Reason(d.GetReason()), d.GetMetadata()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				r.Fields = append(r.Fields, v.GetField())
				if v.GetDescription() == "" {
					t.Errorf("field %s: no description", v.GetField())
				}
			}
		case *errdetails.RetryInfo:
			r.Retry = true
			if d.GetRetryDelay().AsDuration() <= 0 {
				t.Errorf("got retry delay %v, want more than 0", d.GetRetryDelay().AsDuration())
			}
		default:
			t.Errorf("unexpected detail %v", d)
		}
	}
	if r.Reason == "" {
		t.Errorf("got no reason in %v", err)
	}
	if st.Message() == "" {
		t.Error("got a status without a message")
	}
	return r
}

func wantRefusal(t *testing.T, err error, want refusal) {
	t.Helper()
	if diff := cmp.Diff(want, refusalIn(t, err)); diff != "" {
		t.Errorf("%v\n-want +got:\n%s", err, diff)
	}
}

// badRequest is a request that is refused.
type badRequest[Request any] struct {
	name    string
	request *Request
	want    refusal
	asks    bool // the server asks the store for its revision before it refuses
}

// testBadRequests sends the requests one by one and checks that each is refused without
// work: no call of the store (except for asks), no write and no watcher.
func testBadRequests[Request, Response any](
	t *testing.T, in *instance,
	call func(context.Context, *Request, ...grpc.CallOption) (Response, error),
	requests []badRequest[Request],
) {
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	for _, bad := range requests {
		t.Run(bad.name, func(t *testing.T) {
			want := in.cost(ctx, t)
			if bad.asks {
				want.Calls[config]["Revision"]++
			}
			_, err := call(ctx, bad.request)
			wantRefusal(t, err, bad.want)
			if diff := cmp.Diff(want, in.cost(ctx, t)); diff != "" {
				t.Errorf("the refused request cost work, -want +got:\n%s", diff)
			}
		})
	}
}

// cost is the work that requests have caused in a server and its store so far.
type cost struct {
	Calls    map[string]map[string]int // of the store, by resource and method
	Revision int64                     // of the etcd
	Watched  map[string]int            // distinct interests, by resource
}

func (in *instance) cost(ctx context.Context, t *testing.T) cost {
	t.Helper()
	c := cost{Calls: map[string]map[string]int{}, Watched: map[string]int{}, Revision: in.revision(ctx, t)}
	for name, s := range in.seams {
		c.Calls[name] = s.counted()
		c.Watched[name] = in.dispatchers[name].Interests()
	}
	return c
}

// awaitLoaded waits until every resource is loaded. From then on, only requests cause
// calls of the store.
func (in *instance) awaitLoaded(ctx context.Context, t *testing.T) {
	t.Helper()
	for resource, s := range in.seams {
		before := s.counted()["Revision"]
		retrying(t, func() error {
			_, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: resource, PageSize: 1})
			return err
		})
		if s.counted()["Revision"] == before {
			t.Fatal("a linearizable read caused no call of Revision, want one")
		}
	}
}

// retrying repeats a request as long as its error has a RetryInfo. It does not wait in
// between, because the server does. The request's context ends the loop.
func retrying(t *testing.T, request func() error) {
	t.Helper()
	for {
		err := request()
		if err == nil {
			return
		}
		if !refusalIn(t, err).Retry {
			t.Fatal(err)
		}
	}
}
