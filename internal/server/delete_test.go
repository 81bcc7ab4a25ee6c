package server_test

import (
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

func TestDeleteRefusesBadRequests(t *testing.T) {
	in := start(t, settings{})
	var requests []badRequest[fanoutv1.DeleteRequest]
	add := func(name, resource string, op *fanoutv1.DeleteOperation, want refusal) {
		requests = append(requests, badRequest[fanoutv1.DeleteRequest]{
			name: name, request: &fanoutv1.DeleteRequest{Resource: resource, Delete: op}, want: want,
		})
	}
	add("nothing", "", nil, invalid("resource"))
	add("missing resource", "", &fanoutv1.DeleteOperation{Key: "a"}, invalid("resource"))
	add("unknown resource", "x", &fanoutv1.DeleteOperation{Key: "a"}, unknownResource("x"))
	add("missing delete", config, nil, invalid("delete"))
	add("negative precondition", config, &fanoutv1.DeleteOperation{Key: "a", IfModRevision: proto.Int64(-1)}, invalid("delete.if_mod_revision"))
	add("all faults are reported together", config, &fanoutv1.DeleteOperation{IfModRevision: proto.Int64(-1)}, invalid("delete.key", "delete.if_mod_revision"))
	add("empty key", config, &fanoutv1.DeleteOperation{}, invalid("delete.key"))
	testBadRequests(t, in, in.writes.Delete, requests)
}

// Other programs write keys that Put refuses. Whatever Get serves can be checked and deleted.
func TestKeysOfOtherProgramsCanBeDeleted(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	for name, key := range badKeys {
		if key == "" || !utf8.ValidString(key) {
			continue
		}
		at := in.commit(ctx, t, config, key, []byte("x"))
		if _, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: key}); err != nil {
			t.Errorf("%s: get: %v", name, err)
		}
		if _, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: []*fanoutv1.Operation{checking(key, at)}}); err != nil {
			t.Errorf("%s: check: %v", name, err)
		}
		_, err := in.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: config, Delete: &fanoutv1.DeleteOperation{Key: key, IfModRevision: new(at + 1)}})
		want := conflict(key, at+1, at, at)
		want.Metadata["key"] = apierr.Clip(key, object.MaxKeyBytes)
		wantRefusal(t, err, want)
		resp, err := in.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: config, Delete: &fanoutv1.DeleteOperation{Key: key}})
		if err != nil || !resp.GetDeleted() {
			t.Errorf("%s: delete: %v, %v", name, resp, err)
		}
	}
}

func TestDeleteOfAnAbsentKeyChangesNothing(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	before := in.put(ctx, t, config, "a", "")
	resp, err := in.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: config, Delete: &fanoutv1.DeleteOperation{Key: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetDeleted() || resp.GetRevision() != before {
		t.Errorf("got %v, want no deletion at revision %d", resp, before)
	}
	if after := in.revision(ctx, t); after != before {
		t.Errorf("got revision %d, want %d: the request must write nothing", after, before)
	}
}

func TestDeleteHonoursItsPrecondition(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	remove := func(ifModRevision int64) (*fanoutv1.DeleteResponse, error) {
		return in.writes.Delete(ctx, &fanoutv1.DeleteRequest{
			Resource: config, Delete: &fanoutv1.DeleteOperation{Key: "a", IfModRevision: &ifModRevision},
		})
	}
	created := in.put(ctx, t, config, "a", "")
	_, err := remove(0)
	wantRefusal(t, err, conflict("a", 0, created, created))
	_, err = remove(created - 1)
	wantRefusal(t, err, conflict("a", created-1, created, created))
	resp, err := remove(created)
	if err != nil {
		t.Fatal(err)
	}
	if !resp.GetDeleted() || resp.GetRevision() != created+1 {
		t.Errorf("got %v, want a deletion at revision %d", resp, created+1)
	}
	_, err = remove(created)
	wantRefusal(t, err, conflict("a", created, 0, created+1))
	if resp, err = remove(0); err != nil {
		t.Fatal(err)
	}
	if resp.GetDeleted() {
		t.Errorf("got %v for an absent key, want no deletion", resp)
	}
}
