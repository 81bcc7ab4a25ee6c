package wire_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

var objects = map[string]struct {
	object object.Decoded
	proto  *fanoutv1.Object
}{
	"JSON is text": {
		object.Decoded{Key: "a/b", Value: []byte(`{"x":1}`), ContentType: "application/json", CreateRevision: 3, ModRevision: 300, Version: 7},
		&fanoutv1.Object{Key: "a/b", Value: &fanoutv1.Object_Text{Text: `{"x":1}`}, ContentType: "application/json", CreateRevision: 3, ModRevision: 300, Version: 7},
	},
	"binary with labels": {
		object.Decoded{
			Key: "k", Value: []byte{0xff, 0}, ContentType: "application/octet-stream",
			Labels: map[string]string{"tier": "gold", "app": "x", "empty": ""}, CreateRevision: 1, ModRevision: 1, Version: 1,
		},
		&fanoutv1.Object{
			Key: "k", Value: &fanoutv1.Object_Data{Data: []byte{0xff, 0}}, ContentType: "application/octet-stream",
			Labels: map[string]string{"tier": "gold", "app": "x", "empty": ""}, CreateRevision: 1, ModRevision: 1, Version: 1,
		},
	},
	"with a time to live": {
		object.Decoded{Key: "k", Value: []byte("x"), ContentType: "text/plain", CreateRevision: 1, ModRevision: 300, Version: 1, Lease: 77},
		&fanoutv1.Object{Key: "k", Value: &fanoutv1.Object_Text{Text: "x"}, ContentType: "text/plain", CreateRevision: 1, ModRevision: 300, Version: 1, HasTtl: true},
	},
	"text that is not UTF-8 is data": {
		object.Decoded{Key: "k", Value: []byte{0xff}, ContentType: "text/plain", CreateRevision: 1, ModRevision: 1, Version: 1},
		&fanoutv1.Object{Key: "k", Value: &fanoutv1.Object_Data{Data: []byte{0xff}}, ContentType: "text/plain", CreateRevision: 1, ModRevision: 1, Version: 1},
	},
	"empty opaque value": {
		object.Decoded{Key: "k", Opaque: true, CreateRevision: 1 << 40, ModRevision: 1<<62 + 1, Version: 1 << 20},
		&fanoutv1.Object{Key: "k", Value: &fanoutv1.Object_Data{Data: []byte{}}, Opaque: true, CreateRevision: 1 << 40, ModRevision: 1<<62 + 1, Version: 1 << 20},
	},
	"undecryptable object without a value": {
		object.Decoded{Key: "k", Opaque: true, Undecryptable: true, CreateRevision: 1, ModRevision: 300, Version: 2},
		&fanoutv1.Object{Key: "k", Opaque: true, CreateRevision: 1, ModRevision: 300, Version: 2},
	},
}

func decode[M proto.Message](t *testing.T, message M, bytes []byte) M {
	t.Helper()
	if err := proto.Unmarshal(bytes, message); err != nil {
		t.Fatalf("the generated code cannot decode the message: %v", err)
	}
	if len(message.ProtoReflect().GetUnknown()) != 0 {
		t.Errorf("the message has unknown fields: %x", message.ProtoReflect().GetUnknown())
	}
	return message
}

func TestEventsEqualTheGeneratedEncoding(t *testing.T) {
	for name, tc := range objects {
		t.Run(name, func(t *testing.T) {
			o := wire.Preencode(tc.object)

			before := wire.Preencode(object.Decoded{Key: tc.object.Key, Value: []byte("old"), ContentType: "x/y", CreateRevision: 1, ModRevision: 2, Version: 1})
			previous := &fanoutv1.Object{Key: tc.proto.Key, Value: &fanoutv1.Object_Data{Data: []byte("old")}, ContentType: "x/y", CreateRevision: 1, ModRevision: 2, Version: 1}
			valueless := func(o *fanoutv1.Object) *fanoutv1.Object {
				o = proto.CloneOf(o)
				o.Value = nil
				return o
			}
			at := tc.proto.GetModRevision()
			gone := &fanoutv1.Object{Key: tc.proto.Key}
			want := &fanoutv1.WatchResponse{
				Events: []*fanoutv1.Event{
					{Type: fanoutv1.Event_TYPE_ADDED, Revision: at, Object: tc.proto},
					{Type: fanoutv1.Event_TYPE_ADDED, Revision: at, Object: valueless(tc.proto)},
					{Type: fanoutv1.Event_TYPE_MODIFIED, Revision: at, Object: tc.proto},
					{Type: fanoutv1.Event_TYPE_MODIFIED, Revision: at, Object: tc.proto, Previous: previous},
					{Type: fanoutv1.Event_TYPE_MODIFIED, Revision: at, Object: valueless(tc.proto), Previous: valueless(previous)},
					{Type: fanoutv1.Event_TYPE_DELETED, Revision: at + 128, Object: tc.proto},
					{Type: fanoutv1.Event_TYPE_DELETED, Revision: at + 128, Object: tc.proto, Previous: tc.proto},
					{Type: fanoutv1.Event_TYPE_DELETED, Revision: at + 128, Object: valueless(tc.proto)},
					{Type: fanoutv1.Event_TYPE_DELETED, Revision: 77, Object: gone},
					{Type: fanoutv1.Event_TYPE_DELETED, Revision: 77, Object: gone},
				},
				Position: &fanoutv1.Position{Epoch: "abc", Revision: 12345},
				Kind:     fanoutv1.WatchResponse_KIND_LIVE,
				Partial:  true,

				ResumeAtOnce: true,
			}
			all, values, both := object.Projection{}, object.Projection{OmitValues: true}, object.Projection{Previous: true}
			modified := object.Event{Type: object.Modified, Revision: o.ModRevision, Key: o.Key, Object: o, Previous: before}
			vanished := object.Event{Type: object.Deleted, Revision: 77, Key: o.Key}
			removed := object.Event{Type: object.Deleted, Revision: o.ModRevision + 128, Key: o.Key, Object: o, Previous: o}
			b := append([]byte(nil), wire.Encoder{}.AddedEvent(o, all)...)
			b = append(b, wire.Encoder{}.AddedEvent(o, values)...)
			b = wire.Encoder{}.AppendEvent(b, modified, all)
			b = wire.Encoder{}.AppendEvent(b, modified, both)
			b = wire.Encoder{}.AppendEvent(b, modified, object.Projection{Previous: true, OmitValues: true})
			b = wire.Encoder{}.AppendEvent(b, removed, all)
			b = wire.Encoder{}.AppendEvent(b, removed, both)
			b = wire.Encoder{}.AppendEvent(b, removed, values)
			b = wire.Encoder{}.AppendEvent(b, vanished, all)
			b = wire.Encoder{}.AppendEvent(b, vanished, both)
			b = wire.AppendHeader(b, object.Header{Kind: object.Live, Position: object.Position{Epoch: "abc", Revision: 12345}, Partial: true, ResumeAtOnce: true})

			got := decode(t, &fanoutv1.WatchResponse{}, b)
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("response differs (-want +got):\n%s", diff)
			}
			if size := proto.Size(want); len(b) != size {
				t.Errorf("got %d bytes, want %d as the generated code", len(b), size)
			}
		})
	}
}

func TestHeadersWithAnAge(t *testing.T) {
	for _, age := range []time.Duration{1, time.Second, 90*time.Second + 250*time.Millisecond, 1000 * time.Hour} {
		want := &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_SYNCED, Position: &fanoutv1.Position{Epoch: "e", Revision: 9}, Age: durationpb.New(age)}
		b := wire.AppendHeader(nil, object.Header{Kind: object.Synced, Position: object.Position{Epoch: "e", Revision: 9}, Age: age})
		if diff := cmp.Diff(want, decode(t, &fanoutv1.WatchResponse{}, b), protocmp.Transform()); diff != "" {
			t.Errorf("%v: response differs (-want +got):\n%s", age, diff)
		}
	}
}

func TestListAndGetShareTheEncodedObject(t *testing.T) {
	position := object.Position{Epoch: "e", Revision: 9}
	for name, tc := range objects {
		t.Run(name, func(t *testing.T) {
			o := wire.Preencode(tc.object)
			field := wire.ObjectField(o)
			_, head := protowire.ConsumeVarint(o.Encoded()[1:])
			if &field[0] != &o.Encoded()[1+head] {
				t.Error("ObjectField copied the object")
			}

			list := append(append([]byte(nil), field...), field...)
			gotList := decode(t, &fanoutv1.ListResponse{}, wire.AppendListEnd(list, position, "next", 5))
			wantList := &fanoutv1.ListResponse{
				Objects:       []*fanoutv1.Object{tc.proto, tc.proto},
				Position:      &fanoutv1.Position{Epoch: "e", Revision: 9},
				NextPageToken: "next", RemainingCount: new(int64(5)),
			}
			if diff := cmp.Diff(wantList, gotList, protocmp.Transform()); diff != "" {
				t.Errorf("list differs (-want +got):\n%s", diff)
			}

			valueless := proto.CloneOf(tc.proto)
			valueless.Value = nil
			gotKeys := decode(t, &fanoutv1.ListResponse{}, wire.ObjectFieldWithoutValue(o))
			if diff := cmp.Diff(&fanoutv1.ListResponse{Objects: []*fanoutv1.Object{valueless}}, gotKeys, protocmp.Transform()); diff != "" {
				t.Errorf("list without values differs (-want +got):\n%s", diff)
			}

			get := append([]byte(nil), field...)
			gotGet := decode(t, &fanoutv1.GetResponse{}, wire.AppendPosition(get, position))
			wantGet := &fanoutv1.GetResponse{Object: tc.proto, Position: &fanoutv1.Position{Epoch: "e", Revision: 9}}
			if diff := cmp.Diff(wantGet, gotGet, protocmp.Transform()); diff != "" {
				t.Errorf("get differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPreencodeKeepsTheValueOnce(t *testing.T) {
	value := []byte("a value")
	o := wire.Preencode(object.Decoded{Key: "k", Value: value, ContentType: object.ContentText})
	value[0] = 'X'
	if got := wire.Decode(o).Value; string(got) != "a value" {
		t.Errorf("got the value %q, want a copy that does not share memory with the record", got)
	}
}

// What an object does not keep beside its wire form is found in it.
func TestDecodeInvertsPreencode(t *testing.T) {
	for name, tc := range objects {
		t.Run(name, func(t *testing.T) {
			o := wire.Preencode(tc.object)
			if diff := cmp.Diff(tc.object, wire.Decode(o), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the object differs (-want +got):\n%s", diff)
			}
			if got := o.CreateRevision(); got != tc.object.CreateRevision {
				t.Errorf("got the create revision %d, want %d", got, tc.object.CreateRevision)
			}
		})
	}
}

// An object that only stands for its key, such as a tombstone, was never created.
func TestKeyOnlyObjectHasNoCreateRevision(t *testing.T) {
	o := object.New(object.Decoded{Key: "a", ModRevision: 7}, nil, 0)
	if got := o.CreateRevision(); !o.IsKeyOnly() || got != 0 {
		t.Errorf("got the create revision %d, want 0", got)
	}
}

func TestEnumsEqualTheProtocol(t *testing.T) {
	for ours, theirs := range map[object.EventType]fanoutv1.Event_Type{
		object.Added: fanoutv1.Event_TYPE_ADDED, object.Modified: fanoutv1.Event_TYPE_MODIFIED, object.Deleted: fanoutv1.Event_TYPE_DELETED,
	} {
		if int32(ours) != int32(theirs) {
			t.Errorf("event type %d differs from %v in the protocol", ours, theirs)
		}
	}
	kinds := []object.MessageKind{0, object.CatchUpBegin, object.CatchUpPart, object.Synced, object.Live, object.Bookmark, object.Draining}
	names := []string{"KIND_UNSPECIFIED", "KIND_CATCH_UP_BEGIN", "KIND_CATCH_UP_PART", "KIND_SYNCED", "KIND_LIVE", "KIND_BOOKMARK", "KIND_DRAINING"}
	for i, kind := range kinds {
		if got := fanoutv1.WatchResponse_Kind(kind).String(); got != names[i] {
			t.Errorf("message kind %d is %s in the protocol, want %s", kind, got, names[i])
		}
	}
	for ours, name := range map[object.CatchUpKind]string{
		object.NoCatchUp: "CATCH_UP_UNSPECIFIED", object.Replay: "CATCH_UP_REPLAY", object.Reset: "CATCH_UP_RESET",
		object.Delta: "CATCH_UP_DELTA",
	} {
		if got := fanoutv1.WatchResponse_CatchUp(ours).String(); got != name {
			t.Errorf("catch-up %d is %s in the protocol, want %s", ours, got, name)
		}
	}
	if ours, theirs := int(object.CatchUpKinds), len(fanoutv1.WatchResponse_CatchUp_name); ours != theirs {
		t.Errorf("got %d kinds of catch-up, and %d in the protocol", ours, theirs)
	}
}

func BenchmarkPreencode(b *testing.B) {
	value := make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		wire.Preencode(object.Decoded{Key: "team-a/limits", Value: value, ContentType: object.ContentBinary, CreateRevision: 100, ModRevision: 100000, Version: 5})
	}
}
