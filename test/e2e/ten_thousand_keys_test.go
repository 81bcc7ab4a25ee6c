package e2e

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestTenThousandKeys checks that a client that asks for ten thousand keys at once
// receives them, or as many as the maximum page size allows, or an error that names the
// limit.
func TestTenThousandKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const many, batch = 10_000, 125
	etcd := loopback.FreeAddress(t)
	s := startServer(t, embedded(t, etcd)...)
	putMany(t, s, "many", many, batch)
	fanout := fanoutv1.NewFanoutServiceClient(s.conn)

	t.Run("list", func(t *testing.T) {
		request := &fanoutv1.ListRequest{Resource: resource, PageSize: many}
		found := map[string]bool{}
		pages := 0
		for {
			answer, err := fanout.List(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for _, o := range answer.GetObjects() {
				found[o.GetKey()] = true
			}
			if left := int(answer.GetRemainingCount()); left != many-len(found) {
				t.Errorf("page %d: got remaining count %d, want %d", pages, left, many-len(found))
			}
			if request.PageToken = answer.GetNextPageToken(); request.PageToken == "" {
				break
			}
		}
		if len(found) != many {
			t.Errorf("got %d keys in %d pages", len(found), pages)
		}
	})
	t.Run("list of more", func(t *testing.T) {
		// A page size above the maximum is lowered to it.
		answer, err := fanout.List(t.Context(), &fanoutv1.ListRequest{Resource: resource, PageSize: 2 * many})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(answer.GetObjects()); n == 0 || n > many {
			t.Errorf("got %d objects, want between 1 and %d", n, many)
		}
	})
	t.Run("watch", func(t *testing.T) {
		r := newRecorder(t, s.conn, wholeResource())
		r.open(t, check.FromNothing)
		r.until(t, object.Synced)
		r.validate(t, readTruth(t, dialEtcd(t, etcd)))
	})
	t.Run("transaction", func(t *testing.T) {
		request := &fanoutv1.TransactRequest{Resource: resource}
		for i := range many {
			request.Operations = append(request.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{
				Put: &fanoutv1.PutOperation{Key: fmt.Sprintf("many/%04d", i)},
			}})
		}
		_, err := fanoutv1.NewStoreServiceClient(s.conn).Transact(t.Context(), request)
		refusedField(t, err, "operations", "128")
	})
}

// refusedField fails the test unless the error names the wrong field and its limit.
func refusedField(t *testing.T, err error, field, limit string) {
	t.Helper()
	if status.Code(err) != codes.InvalidArgument {
		t.Fatalf("got %v, want INVALID_ARGUMENT", err)
	}
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range bad.GetFieldViolations() {
				if violation.GetField() == field && strings.Contains(violation.GetDescription(), limit) {
					return
				}
			}
		}
	}
	t.Errorf("got %v, want an error that %s is limited to %s", err, field, limit)
}
