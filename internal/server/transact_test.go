package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

func putting(p *fanoutv1.PutOperation) *fanoutv1.Operation {
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: p}}
}

func deleting(key string) *fanoutv1.Operation {
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Delete{Delete: &fanoutv1.DeleteOperation{Key: key}}}
}

func checking(key string, revision int64) *fanoutv1.Operation {
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Check{Check: &fanoutv1.CheckOperation{Key: key, ModRevision: &revision}}}
}

func TestTransactRefusesBadRequests(t *testing.T) {
	in := start(t, settings{})
	var requests []badRequest[fanoutv1.TransactRequest]
	add := func(name, resource string, want refusal, operations ...*fanoutv1.Operation) {
		requests = append(requests, badRequest[fanoutv1.TransactRequest]{
			name: name, request: &fanoutv1.TransactRequest{Resource: resource, Operations: operations}, want: want,
		})
	}
	var tooMany []*fanoutv1.Operation
	for i := range maxOperations + 1 {
		tooMany = append(tooMany, deleting(fmt.Sprint(i)))
	}
	good := deleting("good")
	add("nothing", "", invalid("resource"))
	add("missing resource", "", invalid("resource"), good)
	add("unknown resource", "x", unknownResource("x"), good)
	add("no operations", config, invalid("operations"))
	add("too many operations", config, invalid("operations"), tooMany...)
	add("empty operation", config, invalid("operations[1]"), good, &fanoutv1.Operation{})
	add("empty put", config, invalid("operations[0].put.key"), putting(&fanoutv1.PutOperation{}))
	add("put and delete of a key", config, invalid("operations[1]"), putting(putText("a", "")), deleting("a"))
	add("check and put of a key", config, invalid("operations[2]"), checking("a", 0), good, putting(putText("a", "")))
	add("the same delete twice", config, invalid("operations[1]", "operations[2]"), good, good, good)
	add("value is not JSON", documents, invalid("operations[1].put.text"), good, putting(putText("a", "{")))
	add("large value", config, invalid("operations[1].put.text"), good, putting(putText("a", string(make([]byte, maxValueBytes+1)))))
	add("check without a revision", config, invalid("operations[0].check.mod_revision"), &fanoutv1.Operation{
		Operation: &fanoutv1.Operation_Check{Check: &fanoutv1.CheckOperation{Key: "a"}},
	})
	add("negative check", config, invalid("operations[1].check.mod_revision"), good, checking("a", -1))
	add("negative precondition", config, invalid("operations[0].delete.if_mod_revision"), &fanoutv1.Operation{
		Operation: &fanoutv1.Operation_Delete{Delete: &fanoutv1.DeleteOperation{Key: "a", IfModRevision: proto.Int64(-1)}},
	})
	add("all faults are reported together", config,
		invalid("operations[0].put.key", "operations[1].delete.key", "operations[2].check.key", "operations[3]"),
		putting(putText("/", "")), deleting(""), checking("", 0), &fanoutv1.Operation{})
	for name, key := range badKeys {
		add("key/put/"+name, config, invalid("operations[1].put.key"), good, putting(putText(key, "")))
	}
	for name, ttl := range badTTLs {
		p := putText("a", "")
		p.Ttl = ttl
		add("ttl/"+name, config, invalid("operations[1].put.ttl"), good, putting(p))
	}
	testBadRequests(t, in, in.writes.Transact, requests)
}

func TestWatchersSeeATransactionAsAWhole(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	modified := in.put(ctx, t, config, "m", "1")
	in.put(ctx, t, config, "d", "1")
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	resp, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: []*fanoutv1.Operation{
		putting(putText("a", "1")), deleting("absent"), checking("m", modified), deleting("d"), checking("also absent", 0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	at := resp.GetRevision()
	want := &fanoutv1.TransactResponse{
		Revision: in.revision(ctx, t),
		Results:  []*fanoutv1.OperationResult{{}, {}, {}, {Deleted: true}, {}},
		Applied:  true,
	}
	if diff := cmp.Diff(want, resp, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	w.wantEvents(added("a", "1", at), deleted("d", "1", at))
}

func TestTransactAppliesNothingIfAPreconditionFails(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	b := in.put(ctx, t, config, "b", "")
	absent := putText("c", "")
	absent.IfModRevision = proto.Int64(0)
	for name, c := range map[string]struct {
		operations []*fanoutv1.Operation
		want       refusal
	}{
		"check": {
			[]*fanoutv1.Operation{putting(putText("a", "")), checking("b", b-1)},
			conflict("b", b-1, b, b),
		},
		"the error names the first failed precondition": {
			[]*fanoutv1.Operation{putting(absent), deleting("b"), checking("d", 7), checking("e", 8)},
			conflict("d", 7, 0, b),
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: c.operations})
			wantRefusal(t, err, c.want)
			if after := in.revision(ctx, t); after != b {
				t.Errorf("got revision %d, want %d: the request must write nothing", after, b)
			}
		})
	}
}

func TestWritesReturnObjects(t *testing.T) {
	for name, uncached := range map[string]bool{"cached": false, "uncached": true} {
		t.Run(name, func(t *testing.T) {
			in := start(t, settings{uncached: uncached})
			ctx := within(t)
			a := in.put(ctx, t, config, "a", "1")
			got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a"})
			if err != nil {
				t.Fatal(err)
			}
			want := func(what string, got, want proto.Message, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Errorf("%s, -want +got:\n%s", what, diff)
				}
			}
			absent := putText("a", "2")
			absent.IfModRevision = new(int64(0))
			put, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: absent, ReturnCurrent: true})
			want("put of an existing object", put, &fanoutv1.PutResponse{Revision: a, Object: got.GetObject()}, err)
			missing := putText("b", "2")
			missing.IfModRevision = &a
			put, err = in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: missing, ReturnCurrent: true})
			want("put of a missing object", put, &fanoutv1.PutResponse{Revision: a}, err)
			remove := func(ifModRevision int64, returnCurrent bool) (*fanoutv1.DeleteResponse, error) {
				return in.writes.Delete(ctx, &fanoutv1.DeleteRequest{
					Resource: config, ReturnCurrent: returnCurrent,
					Delete: &fanoutv1.DeleteOperation{Key: "a", IfModRevision: &ifModRevision, ReturnDeleted: true},
				})
			}
			_, err = remove(a-1, false)
			wantRefusal(t, err, conflict("a", a-1, a, a))
			deleted, err := remove(a-1, true)
			want("delete that is not applied", deleted, &fanoutv1.DeleteResponse{Revision: a, Object: got.GetObject()}, err)
			done, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, ReturnCurrent: true, Operations: []*fanoutv1.Operation{
				putting(putText("x", "")), checking("a", a), checking("b", a), deleting("y"),
			}})
			want("transaction that is not applied", done, &fanoutv1.TransactResponse{
				Revision: a, Results: []*fanoutv1.OperationResult{{}, {Object: got.GetObject()}, {}, {}},
			}, err)
			if after := in.revision(ctx, t); after != a {
				t.Errorf("got revision %d, want %d: the requests must write nothing", after, a)
			}
			deleted, err = remove(a, true)
			want("delete", deleted, &fanoutv1.DeleteResponse{Revision: a + 1, Deleted: true, Applied: true, Object: got.GetObject()}, err)
			deleted, err = remove(0, true)
			want("delete of nothing", deleted, &fanoutv1.DeleteResponse{Revision: a + 1, Applied: true}, err)
			put, err = in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: absent, ReturnCurrent: true})
			want("put", put, &fanoutv1.PutResponse{Revision: a + 2, Applied: true}, err)
		})
	}
}

// The response of an applied transaction always fits into the 4 MiB that clients accept.
func TestReturnedValuesAreBounded(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	large := strings.Repeat("x", 900<<10)
	req := &fanoutv1.TransactRequest{Resource: config}
	for i := range 8 {
		key := fmt.Sprint("a", i)
		in.put(ctx, t, config, key, large)
		req.Operations = append(req.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Delete{
			Delete: &fanoutv1.DeleteOperation{Key: key, ReturnDeleted: true},
		}})
	}
	resp, err := in.writes.Transact(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	values := 0
	for i, r := range resp.GetResults() {
		if r.GetObject().GetKey() != fmt.Sprint("a", i) || !r.GetDeleted() {
			t.Errorf("result %d: got %.200s, want the deleted object", i, r)
		}
		if r.GetObject().GetValue() != nil {
			values++
		}
	}
	if values != 3 {
		t.Errorf("got %d values of 900 KiB, want the 3 that fit into 3 MiB", values)
	}
}

func TestTransactWithOnlyChecksWritesNothing(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	a := in.put(ctx, t, config, "a", "")
	resp, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{
		Resource: config, Operations: []*fanoutv1.Operation{checking("a", a), checking("b", 0)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &fanoutv1.TransactResponse{Revision: a, Results: []*fanoutv1.OperationResult{{}, {}}, Applied: true}
	if diff := cmp.Diff(want, resp, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTransactAcceptsTheMaximumOfOperations(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	var operations []*fanoutv1.Operation
	for i := range maxOperations {
		p := putText(fmt.Sprintf("k%03d", i), "")
		p.IfModRevision = proto.Int64(0)
		operations = append(operations, putting(p))
	}
	resp, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: operations})
	if err != nil {
		t.Fatal(err)
	}
	all := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	if len(all.objects) != maxOperations || all.objects[0].GetModRevision() != resp.GetRevision() {
		t.Errorf("got %d objects, want %d of revision %d", len(all.objects), maxOperations, resp.GetRevision())
	}
}
