package subscribe

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// encodedStart returns an encoded start of a watch of a key.
func encodedStart(t testing.TB, id uint64, key string) []byte {
	b, err := proto.Marshal(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{Start: &fanoutv1.SubscribeRequest_Start{
		WatchId: id, Request: &fanoutv1.WatchRequest{Resource: "r", Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: key}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Starts that differ only in their ids share the decoded request.
func TestStartsShareTheDecodedRequest(t *testing.T) {
	d := &decoder{}
	decode := func(b []byte) *fanoutv1.SubscribeRequest_Start {
		if err := d.Decode(b); err != nil {
			t.Fatal(err)
		}
		return d.request.GetStart()
	}
	first, second, other := decode(encodedStart(t, 1, "a")), decode(encodedStart(t, 2, "a")), decode(encodedStart(t, 2, "b"))
	if first.GetRequest() != second.GetRequest() || first.GetWatchId() != 1 || second.GetWatchId() != 2 {
		t.Errorf("the starts %v and %v do not share their request", first, second)
	}
	if other.GetRequest().GetScope().GetKey() != "b" || first.GetRequest().GetScope().GetKey() != "a" {
		t.Errorf("got %v after %v", other, first)
	}
}

// Whatever comes before it, each request is decoded as protobuf decodes it.
func FuzzDecoder(f *testing.F) {
	start := encodedStart(f, 1, "a")
	stop, _ := proto.Marshal(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Stop_{Stop: &fanoutv1.SubscribeRequest_Stop{WatchId: 1}}})
	f.Add(start, encodedStart(f, 2, "a"))
	f.Add(start, encodedStart(f, 0, "b"))
	f.Add(start, stop)
	f.Add(start, append(encodedStart(f, 2, "b"), start...)) // protobuf merges both
	f.Add(start, protowire.AppendVarint(protowire.AppendTag(encodedStart(f, 2, "a"), 99, protowire.VarintType), 1))
	f.Add(start, start[:len(start)-1])
	f.Add(start, []byte(nil))
	f.Fuzz(func(t *testing.T, before, b []byte) {
		d := &decoder{}
		_ = d.Decode(before)
		want := &fanoutv1.SubscribeRequest{}
		wantErr := proto.Unmarshal(b, want)
		for range 2 {
			if err := d.Decode(b); (err == nil) != (wantErr == nil) {
				t.Fatalf("got error %v, want %v", err, wantErr)
			}
			if wantErr == nil && !proto.Equal(d.request, want) {
				t.Fatalf("got %v, want %v", d.request, want)
			}
		}
	})
}
