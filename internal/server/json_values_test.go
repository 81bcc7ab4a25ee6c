package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/poll"
)

// startWithMessages starts an instance whose blobs are Protobuf messages of the type acme.v1.Route.
func startWithMessages(t *testing.T, etcd *store.Store, uncached bool) *instance {
	t.Helper()
	return startOver(t, etcd, settings{
		uncached: uncached,
		codecs:   map[string]string{blobs: "protobuf"},
		schemas:  map[string]object.Schema{blobs: {Message: routeType(t)}},
	})
}

// shown returns the value and the content type of an object.
func shown(o *fanoutv1.Object) string {
	switch value := o.GetValue().(type) {
	case *fanoutv1.Object_Text:
		return o.GetContentType() + " text " + value.Text
	case *fanoutv1.Object_Data:
		return fmt.Sprintf("%s data %q", o.GetContentType(), value.Data)
	}
	return o.GetContentType()
}

// Values of messages are returned in their JSON form on request, by every method.
func TestMessagesAreReturnedInJSON(t *testing.T) {
	t.Parallel()
	for _, uncached := range []bool{false, true} {
		t.Run(fmt.Sprint("uncached ", uncached), func(t *testing.T) {
			in := startWithMessages(t, openEtcdAlone(t, store.EmbeddedConfig{}), uncached)
			ctx := within(t)
			const old, now = `{"region":"eu","replicas":-1,"byNumber":{"1":"2","10":"20"}}`, `{"region":"us","hosts":["a b","ü"]}`
			binary := map[string]string{old: `application/protobuf data "\x12\x02eu\x18`}
			asJSON := func(text string) string { return "application/json text " + text }
			first := in.put(ctx, t, blobs, "a", old)
			// Messages in their binary form, one of which has a field that the type does not have.
			data := func(key, value string) {
				t.Helper()
				put := &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Data{Data: []byte(value)}}
				if _, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: blobs, Put: put}); err != nil {
					t.Fatal(err)
				}
			}
			data("b", "\x12\x02eu")
			data("unknown", "\x12\x02eu\xf8\x07\x01")
			in.commit(ctx, t, blobs, "opaque", []byte("\xff"))
			want := map[string]string{
				"a": asJSON(old), "b": asJSON(`{"region":"eu"}`),
				"unknown": `application/protobuf data "\x12\x02eu\xf8\a\x01"`, "opaque": `application/octet-stream data "\xff"`,
			}
			check := func(what string, objects ...*fanoutv1.Object) {
				t.Helper()
				if len(objects) != len(want) {
					t.Errorf("%s: got %d objects, want %d", what, len(objects), len(want))
				}
				for _, o := range objects {
					if got := shown(o); got != want[o.GetKey()] {
						t.Errorf("%s: %s: got %s, want %s", what, o.GetKey(), got, want[o.GetKey()])
					}
				}
			}
			for key := range want {
				for range 5 { // the library for JSON adds random spaces
					resp, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: blobs, Key: key, JsonValues: true})
					if err != nil {
						t.Fatal(err)
					}
					if got := shown(resp.GetObject()); got != want[key] {
						t.Errorf("get %s: got %s, want %s", key, got, want[key])
					}
				}
			}
			if resp, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: blobs, Key: "a"}); err != nil || !strings.HasPrefix(shown(resp.GetObject()), binary[old]) {
				t.Errorf("got %v, %v, want the binary form", resp, err)
			}
			list, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: blobs, JsonValues: true})
			if err != nil {
				t.Fatal(err)
			}
			check("list", list.GetObjects()...)
			list, err = in.reads.List(ctx, &fanoutv1.ListRequest{Resource: blobs, JsonValues: true, OmitValues: true})
			if err != nil || list.GetObjects()[0].GetValue() != nil {
				t.Errorf("list without values: got %v, %v", list, err)
			}

			watching := &fanoutv1.WatchRequest{Resource: blobs, JsonValues: true, PreviousObject: true}
			watches := map[string]*watch{"watch": in.watch(ctx, t, watching), "subscribe": in.subscribe(ctx, t).start(1, watching)}
			for name, w := range watches {
				w.next(kindBegin)
				var objects []*fanoutv1.Object
				for _, e := range w.next(kindPart).GetEvents() {
					objects = append(objects, e.GetObject())
				}
				check(name, objects...)
				w.next(kindSynced)
			}

			// A conditional put that fails, one that succeeds, and a delete.
			put := &fanoutv1.PutRequest{
				Resource: blobs, JsonValues: true, ReturnCurrent: true,
				Put: &fanoutv1.PutOperation{Key: "a", Value: &fanoutv1.PutOperation_Text{Text: now}, IfModRevision: proto.Int64(1)},
			}
			refused, err := in.writes.Put(ctx, put)
			if err != nil || refused.GetApplied() || shown(refused.GetObject()) != asJSON(old) {
				t.Errorf("put: got %v, %v", refused, err)
			}
			put.Put.IfModRevision = &first
			if _, err := in.writes.Put(ctx, put); err != nil {
				t.Fatal(err)
			}
			deleted, err := in.writes.Delete(ctx, &fanoutv1.DeleteRequest{
				Resource: blobs, JsonValues: true, Delete: &fanoutv1.DeleteOperation{Key: "a", ReturnDeleted: true},
			})
			if err != nil || shown(deleted.GetObject()) != asJSON(now) {
				t.Errorf("delete: got %v, %v", deleted, err)
			}
			transaction, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{
				Resource: blobs, JsonValues: true,
				Operations: []*fanoutv1.Operation{{Operation: &fanoutv1.Operation_Delete{Delete: &fanoutv1.DeleteOperation{Key: "b", ReturnDeleted: true}}}},
			})
			if err != nil || shown(transaction.GetResults()[0].GetObject()) != want["b"] {
				t.Errorf("transaction: got %v, %v", transaction, err)
			}

			wantEvents := []string{
				"TYPE_MODIFIED " + asJSON(now) + ", before " + asJSON(old),
				"TYPE_DELETED " + asJSON(now) + ", before " + asJSON(now),
				"TYPE_DELETED " + want["b"] + ", before " + want["b"],
			}
			for name, w := range watches {
				var events []string
				for len(events) < len(wantEvents) {
					for _, e := range w.next(kindLive).GetEvents() {
						events = append(events, fmt.Sprintf("%v %s, before %s", e.GetType(), shown(e.GetObject()), shown(e.GetPrevious())))
					}
				}
				if !slices.Equal(events, wantEvents) {
					t.Errorf("%s: got events %q, want %q", name, events, wantEvents)
				}
			}
		})
	}
}

// Only with the codec protobuf, a watch with JSON values is another interest.
func TestJSONValuesSplitNoInterests(t *testing.T) {
	in := startWithMessages(t, openEtcd(t, 0), false)
	ctx := within(t)
	for resource, want := range map[string]int{config: 2, documents: 2, blobs: 3} {
		for _, inJSON := range []bool{false, true} {
			for _, omit := range []bool{false, true} {
				in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: resource, JsonValues: inJSON, OmitValues: omit, Begin: fromNow()}).next(kindMark)
			}
		}
		if got := in.dispatchers[resource].Interests(); got != want {
			t.Errorf("%s: got %d interests, want %d", resource, got, want)
		}
	}
}

// A page stays below the size limit although JSON is larger than the binary form.
func TestPagesInJSONAreBounded(t *testing.T) {
	in := startWithMessages(t, openEtcd(t, 0), false)
	ctx := within(t)
	// In JSON, a small binary message with many short texts is more than twice as large.
	value := []byte(strings.Repeat("\x62\x01a", 100_000))
	const objects = 10
	for i := range objects {
		in.commit(ctx, t, blobs, fmt.Sprint(i), value)
	}
	last := in.commit(ctx, t, blobs, "x", []byte(strings.Repeat("\x62\x01a", 400_000)+strings.Repeat("\x62\x00", 50_000)))
	// A busy machine may take longer to decode these than a read waits for a revision.
	poll.Until(t, "the server has all objects", func() bool {
		return in.status(ctx, t, blobs, false).GetPosition().GetRevision() >= last
	})
	n, token := 0, ""
	for {
		resp, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: blobs, JsonValues: true, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(resp); size > 4<<20 {
			t.Errorf("a page has %d bytes, want at most 4 MiB", size)
		}
		for _, o := range resp.GetObjects() {
			n++
			if got := strings.HasPrefix(shown(o), "application/json text"); got != (o.GetKey() != "x") {
				t.Errorf("%s is in JSON: %v", o.GetKey(), got)
			}
		}
		if token = resp.GetNextPageToken(); token == "" {
			break
		}
	}
	if n != objects+1 {
		t.Errorf("got %d objects, want %d", n, objects+1)
	}
}
