package server_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// declared are the fields of an instance whose documents are JSON and whose blobs are
// Protobuf messages of the type acme.v1.Route. The same text can be written to both.
var declared = []object.Field{
	{Name: "region", Path: "region", Indexed: true},
	{Name: "host", Path: "backend.hostName"},
	{Name: "person", Path: "person"},
}

// routeType returns the type acme.v1.Route.
func routeType(t *testing.T) *object.MessageType {
	t.Helper()
	set, err := os.ReadFile("../object/testdata/route.binpb")
	if err != nil {
		t.Fatal(err)
	}
	descriptors, err := object.ParseDescriptors(set)
	if err != nil {
		t.Fatal(err)
	}
	route, err := descriptors.Message("acme.v1.Route")
	if err != nil {
		t.Fatal(err)
	}
	return route
}

func startWithFields(t *testing.T) *instance {
	t.Helper()
	return start(t, settings{
		codecs: map[string]string{blobs: "protobuf"},
		schemas: map[string]object.Schema{
			config:    {Fields: declared},
			documents: {Fields: declared},
			blobs:     {Fields: declared, Message: routeType(t)},
		},
	})
}

// onBoth runs a test with the JSON documents and with the Protobuf messages.
func onBoth(t *testing.T, test func(ctx context.Context, t *testing.T, in *instance, resource string)) {
	in := startWithFields(t)
	for _, resource := range []string{documents, blobs} {
		t.Run(resource, func(t *testing.T) { test(within(t), t, in, resource) })
	}
}

// route returns a JSON document that is also the JSON form of an acme.v1.Route.
func route(region, host string) string {
	return fmt.Sprintf(`{"region": %q, "backend": {"hostName": %q}, "metadata": {"labels": {"of": %q}}}`, region, host, host)
}

// commit writes a value directly to the store and returns the revision.
func (in *instance) commit(ctx context.Context, t *testing.T, resource, key string, stored []byte) int64 {
	t.Helper()
	commit, err := in.collections[resource].Commit(ctx, []object.Op{{Kind: object.OpPut, Key: object.Key(key), Value: stored}})
	if err != nil {
		t.Fatal(err)
	}
	return int64(commit.Revision)
}

func (in *instance) wantKeys(ctx context.Context, t *testing.T, resource string, selects map[string]string) {
	t.Helper()
	for fields, want := range selects {
		resp, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: resource, FieldSelector: fields})
		if err != nil {
			t.Fatal(err)
		}
		if got := keysOf(resp.GetObjects()); got != want {
			t.Errorf("%q: got keys %q, want %q", fields, got, want)
		}
	}
}

func TestListByDeclaredFields(t *testing.T) {
	onBoth(t, func(ctx context.Context, t *testing.T, in *instance, resource string) {
		in.put(ctx, t, resource, "a", route("eu", "h1"))
		in.put(ctx, t, resource, "b", route("us", "h1"))
		in.put(ctx, t, resource, "c/a", route("eu", "h2"))
		in.put(ctx, t, resource, "d", `{"person": "x"}`)
		in.wantKeys(ctx, t, resource, map[string]string{
			"":                            "a b c/a d",
			"region=eu":                   "a c/a",
			"region==us":                  "b",
			"region!=eu":                  "b d",
			"region=eu,host=h1":           "a",
			"host=h1,region!=eu,name=b":   "b",
			"region=eu,key=c/a":           "c/a",
			"region=eu,region!=eu":        "",
			"region=":                     "d",
			"host=":                       "d",
			"person=":                     "a b c/a",
			"person=x":                    "d",
			"region=e":                    "",
			"name=a,region!=us,person!=x": "a c/a",
		})
		resp, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: resource, LabelSelector: "of in (h1,h3)", FieldSelector: "region!=us"})
		if err != nil {
			t.Fatal(err)
		}
		if got := keysOf(resp.GetObjects()); got != "a" {
			t.Errorf("fields and labels together: got keys %q, want a", got)
		}
	})
}

// Objects enter the selection of a watch, change in it and leave it. A resumed watch and a
// list agree with the live events.
func TestWatchByDeclaredFields(t *testing.T) {
	for _, by := range []string{"region=eu", "region=eu,host!=h9", "host!=h9,region!=us,region!="} {
		t.Run(by, func(t *testing.T) {
			onBoth(t, func(ctx context.Context, t *testing.T, in *instance, resource string) {
				first := in.put(ctx, t, resource, "a", route("eu", "h1"))
				in.put(ctx, t, resource, "b", route("us", "h1"))
				req := &fanoutv1.WatchRequest{Resource: resource, FieldSelector: by}
				live := in.watch(ctx, t, req)
				events, synced := live.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
				if diff := cmp.Diff([]event{added("a", "", first)}, textless(events)); diff != "" {
					t.Fatalf("snapshot, -want +got:\n%s", diff)
				}
				var want []event
				put := func(key, region string, event func(key, text string, at int64) event) {
					at := in.put(ctx, t, resource, key, route(region, "h1"))
					if event != nil {
						want = append(want, event(key, "", at))
					}
				}
				put("a", "eu", modified)
				put("b", "us", nil)
				put("b", "eu", added)
				put("c", "us", nil)
				put("a", "us", deleted)
				put("a", "us", nil)
				put("a", "eu", added)
				in.delete(ctx, t, resource, "c")
				want = append(want, deleted("a", "", in.delete(ctx, t, resource, "a")))
				put("d", "eu", added)

				if diff := cmp.Diff(want, live.events(len(want))); diff != "" {
					t.Errorf("live, -want +got:\n%s", diff)
				}
				req.Begin = after(synced.GetPosition())
				events, _ = in.watch(ctx, t, req).catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY)
				if diff := cmp.Diff(want, textless(events)); diff != "" {
					t.Errorf("replayed, -want +got:\n%s", diff)
				}
				in.wantKeys(ctx, t, resource, map[string]string{by: "b d"})
			})
		})
	}
}

// events returns the next n events without their values, because Protobuf messages are
// not text.
func (w *watch) events(n int) []event {
	w.t.Helper()
	var events []event
	for len(events) < n {
		events = append(events, textless(eventsIn(w.next(fanoutv1.WatchResponse_KIND_LIVE)))...)
	}
	return events
}

func textless(events []event) []event {
	for i := range events {
		events[i].Text = ""
	}
	return events
}

func TestAnUndeclaredFieldIsRefused(t *testing.T) {
	in := startWithFields(t)
	ctx := within(t)
	// The document has the field, but it is not declared.
	in.put(ctx, t, documents, "a", `{"backend": {"port": 80}}`)
	for _, resource := range []string{config, documents, blobs} {
		for _, fields := range []string{"port=80", "region=eu,backend.hostName=h1", "person!=x,Region=eu"} {
			_, listErr := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: resource, FieldSelector: fields})
			stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: resource, FieldSelector: fields})
			if err != nil {
				t.Fatal(err)
			}
			_, watchErr := stream.Recv()
			for _, err := range []error{listErr, watchErr} {
				wantRefusal(t, err, invalid("field_selector"))
				const want = "is not one of key, name, region, host, person"
				if got := violation(err); !strings.HasSuffix(got, want) {
					t.Errorf("%s by %s: got %q, want it to end with %q", resource, fields, got, want)
				}
			}
		}
	}
}

// violation returns the description of the first field violation in an error.
func violation(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			return bad.GetFieldViolations()[0].GetDescription()
		}
	}
	return ""
}

// A value that does not decode, written by another program, is served as an object without
// fields.
func TestValuesThatDoNotDecodeHaveNoFields(t *testing.T) {
	onBoth(t, func(ctx context.Context, t *testing.T, in *instance, resource string) {
		garbage := []byte("\x12\x7feu")
		first := in.put(ctx, t, resource, "a", route("eu", "h1"))
		ofEU := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: resource, FieldSelector: "region=eu"})
		ofNone := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: resource, FieldSelector: "region="})
		events, _ := ofEU.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		if diff := cmp.Diff([]event{added("a", "", first)}, textless(events)); diff != "" {
			t.Fatalf("snapshot, -want +got:\n%s", diff)
		}
		ofNone.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)

		spoilt := in.commit(ctx, t, resource, "a", garbage)
		if diff := cmp.Diff([]event{deleted("a", "", spoilt)}, ofEU.events(1)); diff != "" {
			t.Errorf("watch of its former region, -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]event{added("a", "", spoilt)}, ofNone.events(1)); diff != "" {
			t.Errorf("watch of objects without a region, -want +got:\n%s", diff)
		}
		in.wantKeys(ctx, t, resource, map[string]string{"": "a", "region=": "a", "region=eu": "", "region!=eu": "a", "host=,person=": "a"})

		got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: resource, Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		o := got.GetObject()
		if !o.GetOpaque() || served(o) != string(garbage) || len(o.GetLabels()) > 0 {
			t.Errorf("got %v, want the stored bytes, marked as opaque", o)
		}
		in.lines.await(ctx, t, line{"msg": "cannot decode value, serving it unchanged", "resource": resource, "key": "a"})

		repaired := in.overwrite(ctx, t, resource, "a", route("eu", "h1"))
		if diff := cmp.Diff([]event{added("a", "", repaired)}, ofEU.events(1)); diff != "" {
			t.Errorf("after a valid write, -want +got:\n%s", diff)
		}
		in.wantKeys(ctx, t, resource, map[string]string{"region=eu": "a", "region=": ""})
	})
}

// served returns the value of an object, whether it is text or data.
func served(o *fanoutv1.Object) string { return o.GetText() + string(o.GetData()) }

// Objects of the codec "object" have fields if their values are JSON.
func TestObjectsWithJSONValuesHaveFields(t *testing.T) {
	in := startWithFields(t)
	ctx := within(t)
	in.put(ctx, t, config, "text", route("eu", "h1"))
	document := putText("json", route("eu", "h1"))
	document.ContentType = object.ContentJSON
	if _, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: document}); err != nil {
		t.Fatal(err)
	}
	in.wantKeys(ctx, t, config, map[string]string{"region=eu": "json", "region=": "text"})
}

// A Protobuf message can be written in its binary or its JSON form. The server serves the
// binary form.
func TestPutAcceptsBothFormsOfAMessage(t *testing.T) {
	in := startWithFields(t)
	ctx := within(t)
	binary := []byte("\x12\x02eu")
	for name, put := range map[string]*fanoutv1.PutOperation{
		"bytes":           {Value: &fanoutv1.PutOperation_Data{Data: binary}},
		"bytes with type": {Value: &fanoutv1.PutOperation_Data{Data: binary}, ContentType: object.ContentProtobuf},
		"text":            {Value: &fanoutv1.PutOperation_Text{Text: `{"region": "eu"}`}},
		"text with type":  {Value: &fanoutv1.PutOperation_Text{Text: `{"region": "eu"}`}, ContentType: object.ContentJSON},
	} {
		put.Key = strings.ReplaceAll(name, " ", "-")
		if _, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: blobs, Put: put}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: blobs, Key: put.Key})
		if err != nil {
			t.Fatal(err)
		}
		if o := got.GetObject(); string(o.GetData()) != string(binary) || o.GetContentType() != object.ContentProtobuf || o.GetOpaque() {
			t.Errorf("%s: got %v, want the binary form", name, o)
		}
	}
	for name, bad := range map[string]struct {
		put   *fanoutv1.PutOperation
		field string
	}{
		"bytes that are no message": {&fanoutv1.PutOperation{Value: &fanoutv1.PutOperation_Data{Data: []byte{0xff}}}, "put.data"},
		"text that is no message":   {&fanoutv1.PutOperation{Value: &fanoutv1.PutOperation_Text{Text: `{"regoin": "eu"}`}}, "put.text"},
		"another type":              {&fanoutv1.PutOperation{ContentType: "text/plain"}, "put.content_type"},
		"labels beside the message": {&fanoutv1.PutOperation{Labels: map[string]string{"a": "b"}}, "put.labels"},
	} {
		bad.put.Key = "k"
		_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: blobs, Put: bad.put})
		t.Run(name, func(t *testing.T) { wantRefusal(t, err, invalid(bad.field)) })
	}
}
