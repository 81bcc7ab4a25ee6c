package wire_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// appendEntry encodes an entry around a content that is already encoded.
func appendEntry(b []byte, ids []uint64, kind wire.EntryContent, content []byte) []byte {
	return append(wire.AppendEntryHead(b, wire.AppendWatchIDs(nil, ids...), kind, len(content)), content...)
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkSubscribeResponse encodes a response as the server does, and compares the bytes with
// those of the generated code.
func checkSubscribeResponse(t testing.TB, want *fanoutv1.SubscribeResponse) {
	t.Helper()
	var b []byte
	for _, e := range want.GetEntries() {
		switch c := e.GetContent().(type) {
		case *fanoutv1.SubscribeResponse_Entry_Response:
			b = appendEntry(b, e.GetWatchIds(), wire.EntryResponse, marshal(t, c.Response))
		case *fanoutv1.SubscribeResponse_Entry_Refused:
			b = appendEntry(b, e.GetWatchIds(), wire.EntryRefused, marshal(t, c.Refused))
		case *fanoutv1.SubscribeResponse_Entry_Ended:
			b = appendEntry(b, e.GetWatchIds(), wire.EntryEnded, marshal(t, c.Ended))
		}
	}
	if want.GetMore() {
		b = wire.AppendMore(b)
	}
	if generated := marshal(t, want); !slices.Equal(b, generated) {
		t.Errorf("got the bytes\n%x, the generated code has\n%x", b, generated)
	}
	got := &fanoutv1.SubscribeResponse{}
	if err := proto.Unmarshal(b, got); err != nil {
		t.Fatalf("the generated code cannot decode the message: %v", err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("response differs (-want +got):\n%s", diff)
	}
}

func TestSubscribeResponsesEqualTheGeneratedEncoding(t *testing.T) {
	response := &fanoutv1.WatchResponse{
		Events:   []*fanoutv1.Event{{Type: fanoutv1.Event_TYPE_DELETED, Revision: 77, Object: &fanoutv1.Object{Key: "k"}}},
		Position: &fanoutv1.Position{Epoch: "e", Revision: 77}, Kind: fanoutv1.WatchResponse_KIND_LIVE,
	}
	refused := &rpcstatus.Status{Code: 5, Message: "there is no resource"}
	for name, want := range map[string]*fanoutv1.SubscribeResponse{
		"nothing":   {},
		"only more": {More: true},
		"all kinds of entries": {More: true, Entries: []*fanoutv1.SubscribeResponse_Entry{
			{WatchIds: []uint64{0}, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: response}},
			{WatchIds: []uint64{1, 127, 128, 1 << 63}, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: response}},
			{WatchIds: []uint64{7}, Content: &fanoutv1.SubscribeResponse_Entry_Refused{Refused: refused}},
			{WatchIds: []uint64{1, 2}, Content: &fanoutv1.SubscribeResponse_Entry_Ended{Ended: &rpcstatus.Status{}}},
		}},
		"empty response": {Entries: []*fanoutv1.SubscribeResponse_Entry{
			{WatchIds: []uint64{1}, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: &fanoutv1.WatchResponse{}}},
		}},
		"lengths of more than a byte": {Entries: []*fanoutv1.SubscribeResponse_Entry{
			{WatchIds: many(1000), Content: &fanoutv1.SubscribeResponse_Entry_Ended{Ended: &rpcstatus.Status{Message: string(make([]byte, 20_000))}}},
		}},
	} {
		t.Run(name, func(t *testing.T) { checkSubscribeResponse(t, want) })
	}
}

// many returns the ids from 0 on.
func many(n int) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = uint64(i)
	}
	return ids
}

// FuzzSubscribeResponses encodes entries with random ids and contents of random sizes.
func FuzzSubscribeResponses(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}, "", uint16(0), false)
	f.Add([]byte{}, "message", uint16(1000), true)
	f.Fuzz(func(t *testing.T, numbers []byte, message string, events uint16, more bool) {
		ids := []uint64{uint64(len(numbers))}
		for n := range slices.Chunk(numbers, 8) {
			ids = append(ids, binary.LittleEndian.Uint64(append(slices.Clone(n), make([]byte, 8)...)))
		}
		if !utf8.ValidString(message) {
			return // a field of type string must be UTF-8
		}
		response := &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_LIVE}
		for range events % 100 {
			response.Events = append(response.Events, &fanoutv1.Event{Object: &fanoutv1.Object{Key: message}})
		}
		failed := &rpcstatus.Status{Code: int32(events), Message: message}
		checkSubscribeResponse(t, &fanoutv1.SubscribeResponse{More: more, Entries: []*fanoutv1.SubscribeResponse_Entry{
			{WatchIds: ids, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: response}},
			{WatchIds: ids[:1], Content: &fanoutv1.SubscribeResponse_Entry_Refused{Refused: failed}},
			{WatchIds: ids, Content: &fanoutv1.SubscribeResponse_Entry_Ended{Ended: failed}},
		}})
	})
}
