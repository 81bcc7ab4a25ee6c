package server_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

func anyRevision() *fanoutv1.ReadConsistency {
	return &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
}

func minRevision(r int64) *fanoutv1.ReadConsistency {
	return &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_MinRevision{MinRevision: r}}
}

// inFuture is the refusal of a revision that the etcd has not reached.
func inFuture(asked, current int64) refusal {
	return refusal{
		Code: codes.OutOfRange, Reason: apierr.ReasonRevisionInFuture,
		Metadata: map[string]string{"asked_revision": decimal(asked), "current_revision": decimal(current)},
	}
}

func keyNotFound(key string, at int64) refusal {
	return refusal{
		Code: codes.NotFound, Reason: apierr.ReasonKeyNotFound,
		Metadata: map[string]string{"key": key, "revision": decimal(at)},
	}
}

func decimal(r int64) string { return strconv.FormatInt(r, 10) }

func TestGetRefusesBadRequests(t *testing.T) {
	in := start(t, settings{})
	now := in.put(within(t), t, config, "a", "1")
	testBadRequests(t, in, in.reads.Get, []badRequest[fanoutv1.GetRequest]{
		{name: "nothing", request: &fanoutv1.GetRequest{}, want: invalid("resource")},
		{name: "missing resource", request: &fanoutv1.GetRequest{Key: "a"}, want: invalid("resource")},
		{name: "unknown resource", request: &fanoutv1.GetRequest{Resource: "x", Key: "a"}, want: unknownResource("x")},
		{name: "missing key", request: &fanoutv1.GetRequest{Resource: config}, want: invalid("key")},
		{
			name:    "negative revision",
			request: &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: minRevision(-1)},
			want:    invalid("consistency.min_revision"),
		},
		{
			name:    "all faults are reported together",
			request: &fanoutv1.GetRequest{Resource: config, Consistency: minRevision(math.MinInt64)},
			want:    invalid("key", "consistency.min_revision"),
		},
		{
			name:    "next revision",
			request: &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: minRevision(now + 1)},
			want:    inFuture(now+1, now), asks: true,
		},
		{
			name:    "largest revision",
			request: &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: minRevision(math.MaxInt64)},
			want:    inFuture(math.MaxInt64, now), asks: true,
		},
	})
}

func TestGetReturnsTheStoredObject(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	created := in.put(ctx, t, config, "team/a", "1")
	modified := in.put(ctx, t, config, "team/a", "2")
	got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "team/a"})
	if err != nil {
		t.Fatal(err)
	}
	want := &fanoutv1.GetResponse{
		Object: &fanoutv1.Object{
			Key: "team/a", Value: &fanoutv1.Object_Text{Text: "2"}, ContentType: object.ContentText,
			CreateRevision: created, ModRevision: modified, Version: 2,
		},
		Position: &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: modified},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestGetOfAnAbsentKeyNamesTheRevision(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	deleted := in.delete(ctx, t, config, "a")
	_, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a"})
	wantRefusal(t, err, keyNotFound("a", deleted))
}

// Other programs may have written keys that fanoutd would refuse in a Put. Get serves
// them.
func TestGetServesKeysThatOthersWrote(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	for _, key := range badKeys {
		if key == "" {
			continue
		}
		_, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: blobs, Key: key})
		wantRefusal(t, err, keyNotFound(clipped(key), in.revision(ctx, t)))
		_, err = in.collections[blobs].Commit(ctx, []object.Op{{Kind: object.OpPut, Key: object.Key(key), Value: []byte(key)}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: blobs, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetObject().GetKey() != key || string(got.GetObject().GetData()) != key {
			t.Errorf("got %v, want key and value %q", got.GetObject(), key)
		}
	}
}

// clipped returns the key as it appears in a status, which shortens long keys.
func clipped(key string) string {
	if len(key) > object.MaxKeyBytes {
		return key[:object.MaxKeyBytes-3] + "..."
	}
	return key
}

// The connection of the tests accepts at most 8 KiB of trailers, as many clients do. A
// longer refusal would reach the client as a different error.
func TestRefusalsOfLongRequestsFitIntoTheTrailer(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	for name, long := range map[string]string{
		"ascii":    strings.Repeat("x", 100<<10),
		"percents": strings.Repeat("%", 100<<10),
		"umlauts":  strings.Repeat("ä", 50<<10), // percent-encoding triples each byte
		"quotes":   strings.Repeat(`"`, 100<<10),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: long})
			if r := refusalIn(t, err); r.Reason != apierr.ReasonKeyNotFound {
				t.Errorf("absent key: got %v, want reason %s", err, apierr.ReasonKeyNotFound)
			}
			_, err = in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: long, Key: "a"})
			if r := refusalIn(t, err); r.Reason != apierr.ReasonUnknownResource {
				t.Errorf("unknown resource: got %v, want reason %s", err, apierr.ReasonUnknownResource)
			}
			_, err = in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText(long, "")})
			wantRefusal(t, err, invalid("put.key"))

			operations := make([]*fanoutv1.Operation, maxOperations)
			for i := range operations {
				path := "//" + long[:1022]
				operations[i] = &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: putText(path, "")}}
			}
			_, err = in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: operations})
			if r := refusalIn(t, err); r.Reason != apierr.ReasonInvalidRequest || len(r.Fields) != 10 {
				t.Errorf("many bad operations: got %d violations, want the first 10: %v", len(r.Fields), err)
			}
		})
	}
}
