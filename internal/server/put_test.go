package server_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// badTTLs are refused: a time to live must be a positive whole number of seconds within
// the limit.
var badTTLs = map[string]*durationpb.Duration{
	"zero":           {},
	"negative":       durationpb.New(-time.Second),
	"part of second": durationpb.New(500 * time.Millisecond),
	"one and a half": durationpb.New(1500 * time.Millisecond),
	"too long":       durationpb.New(maxTTL + time.Second),
	"overflow":       {Seconds: math.MaxInt64},
	"not a duration": {Seconds: 1, Nanos: -1},
}

func conflict(key string, want, have, at int64) refusal {
	return refusal{
		Code: codes.FailedPrecondition, Reason: apierr.ReasonPreconditionFailed,
		Metadata: map[string]string{
			"key": key, "expected_revision": decimal(want), "mod_revision": decimal(have), "revision": decimal(at),
		},
	}
}

func TestPutRefusesBadRequests(t *testing.T) {
	in := start(t, settings{})
	var requests []badRequest[fanoutv1.PutRequest]
	add := func(name, resource string, put *fanoutv1.PutOperation, fields ...string) {
		requests = append(requests, badRequest[fanoutv1.PutRequest]{
			name: name, request: &fanoutv1.PutRequest{Resource: resource, Put: put}, want: invalid(fields...),
		})
	}
	text := func(s string) *fanoutv1.PutOperation { return putText("a", s) }
	data := func(b []byte) *fanoutv1.PutOperation {
		return &fanoutv1.PutOperation{Key: "a", Value: &fanoutv1.PutOperation_Data{Data: b}}
	}
	with := func(p *fanoutv1.PutOperation, change func(*fanoutv1.PutOperation)) *fanoutv1.PutOperation {
		change(p)
		return p
	}

	add("nothing", "", nil, "resource")
	add("missing resource", "", text(""), "resource")
	add("missing put", config, nil, "put")
	add("empty put", config, &fanoutv1.PutOperation{}, "put.key")
	add("large text", config, text(strings.Repeat("x", maxValueBytes+1)), "put.text")
	add("large data", blobs, data(make([]byte, maxValueBytes+1)), "put.data")
	add("text is not JSON", documents, text("{"), "put.text")
	add("data is not JSON", documents, data([]byte("\xff")), "put.data")
	add("JSON and more", documents, text("{} {}"), "put.text")
	add("no value is not JSON", documents, &fanoutv1.PutOperation{Key: "a"}, "put.value")
	add("JSON of an object is not JSON", config, with(text(`{"a": tru`), func(p *fanoutv1.PutOperation) {
		p.ContentType = object.ContentJSON
	}), "put.text")
	add("JSON of an object is not UTF-8", config, with(data([]byte("\"\xff\"")), func(p *fanoutv1.PutOperation) {
		p.ContentType = "application/merge-patch+json"
	}), "put.data")
	add("no JSON in an object", config, &fanoutv1.PutOperation{Key: "a", ContentType: object.ContentJSON}, "put.value")
	add("content type of JSON", documents, with(text("{}"), func(p *fanoutv1.PutOperation) {
		p.ContentType = "text/plain"
	}), "put.content_type")
	for name, bad := range map[string]string{"NUL": "text/plain\x00a", "line": "text/plain\r\na", "long": "text/" + strings.Repeat("x", 512)} {
		add("content type with "+name, config, with(text(""), func(p *fanoutv1.PutOperation) { p.ContentType = bad }), "put.content_type")
	}
	add("labels of JSON", documents, with(text("{}"), func(p *fanoutv1.PutOperation) {
		p.Labels = map[string]string{"a": "b"}
	}), "put.labels")
	add("content type of raw", blobs, with(data(nil), func(p *fanoutv1.PutOperation) {
		p.ContentType = object.ContentJSON
	}), "put.content_type")
	add("labels of raw", blobs, with(data(nil), func(p *fanoutv1.PutOperation) {
		p.Labels = map[string]string{"a": "b"}
	}), "put.labels")
	add("negative precondition", config, with(text(""), func(p *fanoutv1.PutOperation) {
		p.IfModRevision = proto.Int64(-1)
	}), "put.if_mod_revision")
	add("all faults are reported together", documents, &fanoutv1.PutOperation{
		Key: "/", Value: &fanoutv1.PutOperation_Text{Text: "{"}, IfModRevision: proto.Int64(-1), Ttl: &durationpb.Duration{},
	}, "put.key", "put.if_mod_revision", "put.ttl", "put.text")
	for name, key := range badKeys {
		add("key/"+name, config, putText(key, ""), "put.key")
	}
	add("ttl and keep_ttl", config, with(text(""), func(p *fanoutv1.PutOperation) { p.Ttl, p.KeepTtl = durationpb.New(time.Minute), true }), "put.keep_ttl")
	for name, ttl := range badTTLs {
		add("ttl/"+name, config, with(text(""), func(p *fanoutv1.PutOperation) { p.Ttl = ttl }), "put.ttl")
	}
	requests = append(requests, badRequest[fanoutv1.PutRequest]{
		name: "unknown resource", request: &fanoutv1.PutRequest{Resource: "x", Put: text("")}, want: unknownResource("x"),
	})
	testBadRequests(t, in, in.writes.Put, requests)
}

func TestPutStoresWhatTheCodecAllows(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	text := func(s string) *fanoutv1.Object_Text { return &fanoutv1.Object_Text{Text: s} }
	data := func(b string) *fanoutv1.Object_Data { return &fanoutv1.Object_Data{Data: []byte(b)} }
	largest := strings.Repeat("x", maxValueBytes)
	for _, c := range []struct {
		name     string
		resource string
		put      *fanoutv1.PutOperation
		want     *fanoutv1.Object
	}{
		{
			"text", config,
			&fanoutv1.PutOperation{Value: &fanoutv1.PutOperation_Text{Text: "ä"}},
			&fanoutv1.Object{Value: text("ä"), ContentType: object.ContentText},
		},
		{
			"data", config,
			&fanoutv1.PutOperation{Value: &fanoutv1.PutOperation_Data{Data: []byte("text all the same")}},
			&fanoutv1.Object{Value: data("text all the same"), ContentType: object.ContentBinary},
		},
		{
			"nothing", config,
			&fanoutv1.PutOperation{},
			&fanoutv1.Object{Value: data(""), ContentType: object.ContentBinary},
		},
		{
			"the largest", config,
			&fanoutv1.PutOperation{Value: &fanoutv1.PutOperation_Text{Text: largest}},
			&fanoutv1.Object{Value: text(largest), ContentType: object.ContentText},
		},
		{
			"labels and a content type", config,
			&fanoutv1.PutOperation{
				Value: &fanoutv1.PutOperation_Data{Data: []byte("a: b")}, ContentType: "application/yaml", Labels: map[string]string{"x": "y", "example.com/e": ""},
			},
			&fanoutv1.Object{Value: text("a: b"), ContentType: "application/yaml", Labels: map[string]string{"x": "y", "example.com/e": ""}},
		},
		{
			"JSON as text", documents,
			&fanoutv1.PutOperation{Value: &fanoutv1.PutOperation_Text{Text: `{"a": 1}`}},
			&fanoutv1.Object{Value: text(`{"a": 1}`), ContentType: object.ContentJSON},
		},
		{
			"JSON as data", documents,
			&fanoutv1.PutOperation{Value: &fanoutv1.PutOperation_Data{Data: []byte("null")}, ContentType: object.ContentJSON},
			&fanoutv1.Object{Value: text("null"), ContentType: object.ContentJSON},
		},
		{
			"raw", blobs,
			&fanoutv1.PutOperation{Value: &fanoutv1.PutOperation_Data{Data: []byte("\x00\xff")}},
			&fanoutv1.Object{Value: data("\x00\xff"), ContentType: object.ContentBinary},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.put.Key = "key of " + c.name
			put, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: c.resource, Put: c.put})
			if err != nil {
				t.Fatal(err)
			}
			got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: c.resource, Key: c.put.Key})
			if err != nil {
				t.Fatal(err)
			}
			c.want.Key, c.want.Version = c.put.Key, 1
			c.want.CreateRevision, c.want.ModRevision = put.GetRevision(), put.GetRevision()
			if diff := cmp.Diff(c.want, got.GetObject(), protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPutHonoursItsPrecondition(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	put := func(text string, ifModRevision int64) (int64, error) {
		p := putText("a", text)
		p.IfModRevision = &ifModRevision
		resp, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: p})
		return resp.GetRevision(), err
	}
	before := in.revision(ctx, t)
	_, err := put("modifies what is absent", 5)
	wantRefusal(t, err, conflict("a", 5, 0, before))

	created, err := put("creates", 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = put("creates again", 0)
	wantRefusal(t, err, conflict("a", 0, created, created))

	modified, err := put("modifies", created)
	if err != nil {
		t.Fatal(err)
	}
	other := in.put(ctx, t, config, "b", "")
	_, err = put("modifies what has changed", created)
	wantRefusal(t, err, conflict("a", created, modified, other))

	got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetObject().GetText() != "modifies" || got.GetObject().GetModRevision() != modified {
		t.Errorf("got %v, want the object of the last accepted write", got)
	}
}

func TestWatchersReceiveTheDeletionOfAnExpiredObject(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	p := putText("a", "short-lived")
	p.Ttl = durationpb.New(time.Second)
	put, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: p})
	if err != nil {
		t.Fatal(err)
	}
	w.wantEvents(added("a", "short-lived", put.GetRevision()))

	gone := w.next(fanoutv1.WatchResponse_KIND_LIVE)
	at := gone.GetPosition().GetRevision()
	if at <= put.GetRevision() {
		t.Errorf("got deletion at revision %d, want one after %d", at, put.GetRevision())
	}
	wantEvents(t, gone, deleted("a", "short-lived", at))
	_, err = in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a"})
	wantRefusal(t, err, keyNotFound("a", at))
}

func TestPutAcceptsTheLongestTimeToLive(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	p := putText("a", "long-lived")
	p.Ttl = durationpb.New(maxTTL)
	if _, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: p}); err != nil {
		t.Fatal(err)
	}
	got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if left := got.GetTtl().AsDuration(); left < maxTTL-time.Hour || left > maxTTL {
		t.Errorf("got %v left, want almost %v", left, maxTTL)
	}
}

func TestAnotherPutReplacesTheTimeToLive(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	// The first time to live of "kept" is the shorter one. The deletion of "lost" therefore
	// proves that "kept" would have expired by then.
	for key, ttl := range map[string]time.Duration{"kept": time.Second, "lost": 3 * time.Second} {
		p := putText(key, "short-lived")
		p.Ttl = durationpb.New(ttl)
		if _, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: p}); err != nil {
			t.Fatal(err)
		}
	}
	in.put(ctx, t, config, "kept", "for good")
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	gone := w.next(fanoutv1.WatchResponse_KIND_LIVE)
	wantEvents(t, gone, deleted("lost", "short-lived", gone.GetPosition().GetRevision()))
	if _, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "kept"}); err != nil {
		t.Error(err)
	}
}

func TestKeepTTLKeepsTheTimeToLive(t *testing.T) {
	for name, uncached := range map[string]bool{"cached": false, "uncached": true} {
		t.Run(name, func(t *testing.T) {
			in := start(t, settings{uncached: uncached})
			ctx := within(t)
			write := func(change func(*fanoutv1.PutOperation)) int64 {
				t.Helper()
				p := putText("a", "x")
				change(p)
				resp, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: p})
				if err != nil {
					t.Fatal(err)
				}
				return resp.GetRevision()
			}
			want := func(what string, has bool) {
				t.Helper()
				got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a"})
				if err != nil {
					t.Fatal(err)
				}
				left := got.GetTtl().AsDuration()
				if got.GetObject().GetHasTtl() != has || (got.Ttl != nil) != has || has && (left < 30*time.Minute || left > time.Hour) {
					t.Errorf("%s: got has_ttl %v and ttl %v, want a time to live: %v", what, got.GetObject().GetHasTtl(), got.GetTtl(), has)
				}
			}
			keep := func(p *fanoutv1.PutOperation) { p.KeepTtl = true }
			write(keep)
			want("a new object", false)
			write(keep)
			want("an object without a time to live", false)
			at := write(func(p *fanoutv1.PutOperation) { p.Ttl = durationpb.New(time.Hour) })
			want("ttl", true)
			write(func(p *fanoutv1.PutOperation) { p.KeepTtl, p.IfModRevision = true, &at })
			want("keep_ttl with a precondition", true)
			write(keep)
			want("keep_ttl without one", true)
			p := putText("a", "y")
			p.KeepTtl = true
			if _, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: []*fanoutv1.Operation{putting(p), deleting("b")}}); err != nil {
				t.Fatal(err)
			}
			want("keep_ttl in a transaction", true)
			if list := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing); !list.objects[0].GetHasTtl() {
				t.Error("got no has_ttl for the object in a list, want it set")
			}
			if !uncached {
				stale, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: anyRevision()})
				if err != nil || !stale.GetObject().GetHasTtl() || stale.Ttl != nil {
					t.Errorf("with any: got %v, %v; want has_ttl and no ttl", stale, err)
				}
			}
			write(func(*fanoutv1.PutOperation) {})
			want("a plain put", false)
			if _, err := in.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: config, Delete: &fanoutv1.DeleteOperation{Key: "a"}}); err != nil {
				t.Fatal(err)
			}
			write(func(p *fanoutv1.PutOperation) { p.KeepTtl, p.IfModRevision = true, new(int64(0)) })
			want("keep_ttl of an object that must not exist", false)
		})
	}
}

func TestWritesAboveTheLimitOfTheStoreAreRefused(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	before := in.revision(ctx, t)
	var operations []*fanoutv1.Operation
	for _, key := range []string{"a", "b"} {
		operations = append(operations, &fanoutv1.Operation{
			Operation: &fanoutv1.Operation_Put{Put: putText(key, strings.Repeat("x", maxValueBytes))},
		})
	}
	_, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: operations})
	wantRefusal(t, err, refusal{Code: codes.InvalidArgument, Reason: apierr.ReasonWriteTooLarge})
	if after := in.revision(ctx, t); after != before {
		t.Errorf("got revision %d, want %d: the request must write nothing", after, before)
	}
}

func TestWritesToAFullStoreFailAndReadsGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := startOver(t, openEtcd(t, 4<<20), settings{})
	ctx := within(t)
	large := &fanoutv1.PutRequest{Resource: config, Put: putText("a", strings.Repeat("x", 1<<20))}
	full := refusal{Code: codes.ResourceExhausted, Reason: apierr.ReasonStoreFull}
	// etcd learns its size when it writes to the disk, several times a second. Until then it
	// accepts writes.
	const maxWrites = 500
	written := 0
	var err error
	for written < maxWrites && err == nil {
		if _, err = in.writes.Put(ctx, large); err == nil {
			written++
		}
	}
	wantRefusal(t, err, full)
	// etcd may have applied the write with which it noticed that it is full.
	before := in.revision(ctx, t)
	_, err = in.writes.Put(ctx, large)
	wantRefusal(t, err, full)
	if after := in.revision(ctx, t); after != before {
		t.Errorf("got revision %d, want %d: the request must write nothing", after, before)
	}
	got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if n := int(got.GetObject().GetVersion()); n < written || n > written+1 {
		t.Errorf("got version %d, want %d or one more", n, written)
	}
}
