package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// keysets are the stages of a key rotation: one key (first), a second key added (added) and
// promoted to primary (promoted), and only the second key left (second).
type keysets struct {
	first, added, promoted, second []byte
	old, new                       uint32
}

func newKeysets(t *testing.T) (k keysets) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	k.first, k.old, err = crypt.Create()
	must(err)
	k.added, k.new, err = crypt.Add(k.first)
	must(err)
	k.promoted, _, err = crypt.Promote(k.added, k.new)
	must(err)
	k.second, err = crypt.Remove(k.promoted, k.old)
	must(err)
	return k
}

func keyring(t *testing.T, keyset []byte) *crypt.Keyring {
	t.Helper()
	r := crypt.NewKeyring(slog.New(slog.DiscardHandler))
	use(t, r, keyset)
	return r
}

func use(t *testing.T, r *crypt.Keyring, keyset []byte) {
	t.Helper()
	if err := r.Use(keyset); err != nil {
		t.Fatal(err)
	}
}

// openEtcdAndClient starts an etcd and returns it together with an etcd client.
func openEtcdAndClient(t *testing.T) (*store.Store, *clientv3.Client) {
	t.Helper()
	address := loopback.FreeAddress(t)
	etcd := openEtcdWith(t, store.EmbeddedConfig{ListenClient: address})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return etcd, client
}

// stored reads a key of a resource directly from etcd.
func stored(t *testing.T, client *clientv3.Client, resource, key string) *clientv3.GetResponse {
	t.Helper()
	resp, err := client.Get(within(t), "/test/"+resource+"/"+key)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("%s: %v, %v", key, resp, err)
	}
	return resp
}

// everywhere runs a test with cached and with uncached resources.
func everywhere(t *testing.T, test func(t *testing.T, with settings)) {
	for name, with := range map[string]settings{"cached": {}, "uncached": {uncached: true}} {
		t.Run(name, func(t *testing.T) { test(t, with) })
	}
}

// content returns "key=text" for each object, with "!" for an object without a value. It
// checks that exactly these objects are marked as undecryptable.
func content(t *testing.T, objects []*fanoutv1.Object) string {
	t.Helper()
	var all []string
	for _, o := range objects {
		text := o.GetText() + string(o.GetData())
		if (o.GetValue() == nil) != o.GetOpaque() {
			t.Errorf("got %v, want it marked as undecryptable if and only if it has no value", o)
		}
		if o.GetValue() == nil {
			text = "!"
			if o.GetContentType() != "" || len(o.GetLabels()) > 0 {
				t.Errorf("got %v, want nothing of an undecryptable value", o)
			}
		}
		all = append(all, o.GetKey()+"="+text)
	}
	return strings.Join(all, " ")
}

func (in *instance) wantContent(ctx context.Context, t *testing.T, req *fanoutv1.ListRequest, want string) {
	t.Helper()
	var got []*fanoutv1.Object
	asked := req
	for req = proto.CloneOf(req); ; req.Consistency = nil {
		var resp *fanoutv1.ListResponse
		retrying(t, func() (err error) {
			resp, err = in.reads.List(ctx, req)
			return err
		})
		got = append(got, resp.GetObjects()...)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if got := content(t, got); got != want {
		t.Errorf("%v: got %q, want %q", asked, got, want)
	}
}

// etcd contains no plain values, labels or content types.
func TestValuesAreEncryptedInEtcd(t *testing.T) {
	everywhere(t, func(t *testing.T, with settings) {
		k := newKeysets(t)
		etcd, client := openEtcdAndClient(t)
		with.keys = keyring(t, k.first)
		in := startOver(t, etcd, with)
		ctx := within(t)
		const secret = `{"password": "hunter2"}`
		for _, resource := range []string{config, documents, blobs} {
			put := putText("a", secret)
			if resource == config {
				put.Labels, put.ContentType = map[string]string{"team": "hunter2"}, "application/hunter2"
			}
			if _, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: resource, Operations: []*fanoutv1.Operation{
				{Operation: &fanoutv1.Operation_Put{Put: put}},
				{Operation: &fanoutv1.Operation_Put{Put: putText("b", secret)}},
			}}); err != nil {
				t.Fatal(err)
			}
			in.wantContent(ctx, t, &fanoutv1.ListRequest{Resource: resource}, "a="+secret+" b="+secret)
		}
		all, err := client.Get(ctx, "/test/", clientv3.WithPrefix())
		if err != nil || len(all.Kvs) != 6 {
			t.Fatalf("got %v, %v", all, err)
		}
		for _, kv := range all.Kvs {
			if bytes.Contains(kv.Value, []byte("hunter2")) || bytes.Contains(kv.Value, []byte("password")) {
				t.Errorf("%s: %q", kv.Key, kv.Value)
			}
		}
		got := in.status(ctx, t, config, false)
		if !got.GetEncrypted() || got.GetPrimaryKeyId() != k.old || got.GetUndecryptableObjects() != 0 || got.GetOpaqueValues() != 0 {
			t.Errorf("got %v", got)
		}
		in.wantContent(ctx, t, &fanoutv1.ListRequest{Resource: config, LabelSelector: "team=hunter2"}, "a="+secret)
	})
}

// A ciphertext is bound to its key. After a copy to another key, the server serves
// neither the value nor the ciphertext.
func TestACiphertextUnderAnotherKeyIsNotServed(t *testing.T) {
	everywhere(t, func(t *testing.T, with settings) {
		k := newKeysets(t)
		etcd, client := openEtcdAndClient(t)
		with.keys = keyring(t, k.first)
		in := startOver(t, etcd, with)
		ctx := within(t)
		in.put(ctx, t, blobs, "victim", "mine")
		w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: blobs, PreviousObject: true})
		w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		moved, err := client.Put(ctx, "/test/blobs/thief", string(stored(t, client, blobs, "victim").Kvs[0].Value))
		if err != nil {
			t.Fatal(err)
		}
		in.wantContent(ctx, t, &fanoutv1.ListRequest{Resource: blobs}, "thief=! victim=mine")
		in.wantContent(ctx, t, &fanoutv1.ListRequest{Resource: blobs, Consistency: exactRevision(moved.Header.Revision)}, "thief=! victim=mine")
		m := w.next(fanoutv1.WatchResponse_KIND_LIVE)
		if e := m.GetEvents()[0]; e.GetType() != fanoutv1.Event_TYPE_ADDED || content(t, []*fanoutv1.Object{e.GetObject()}) != "thief=!" {
			t.Errorf("got %v, want ADDED without a value", e)
		}
		if m.GetPosition().GetEpoch() != in.epoch(ctx, t) {
			t.Error("got another epoch, want the same: no server can decrypt the value")
		}
		if got := in.status(ctx, t, blobs, false); got.GetOpaqueValues() != 1 || !with.uncached && got.GetUndecryptableObjects() != 1 {
			t.Errorf("got %v", got)
		}
		if said := in.lines.text(); strings.Count(said, "cannot decrypt value") != 1 {
			t.Errorf("want one line about the value, got log:\n%s", said)
		}
		// A new write replaces the value, if it says so.
		in.overwrite(ctx, t, blobs, "thief", "other")
		m = w.next(fanoutv1.WatchResponse_KIND_LIVE)
		e := m.GetEvents()[0]
		if e.GetType() != fanoutv1.Event_TYPE_MODIFIED || content(t, []*fanoutv1.Object{e.GetPrevious(), e.GetObject()}) != "thief=! thief=other" {
			t.Errorf("got %v, want MODIFIED with the new value", e)
		}
		if got := in.status(ctx, t, blobs, false); got.GetUndecryptableObjects() != 0 {
			t.Errorf("got %v", got)
		}
	})
}

// The server serves plain values, and values under the old and the new key, at the same
// time: current and historical ones, in pages, and after a restart.
func TestValuesUnderSeveralKeysAreServedTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, with settings) {
		k := newKeysets(t)
		etcd, client := openEtcdAndClient(t)
		with.keys = keyring(t, k.added)
		with.window = cacher.WindowLimits{MinChanges: 1, MaxChanges: 1} // older revisions come from etcd
		in := startOver(t, etcd, with)
		ctx := within(t)
		for _, key := range []string{"1", "2", "3"} {
			if _, err := client.Put(ctx, "/test/blobs/plain"+key, "plain"+key); err != nil {
				t.Fatal(err)
			}
			in.put(ctx, t, blobs, "old"+key, "old"+key)
		}
		at := in.revision(ctx, t)
		use(t, with.keys, k.promoted)
		for _, key := range []string{"1", "2", "3"} {
			in.put(ctx, t, blobs, "new"+key, "new"+key)
			in.put(ctx, t, blobs, "old3", "new")
		}
		const before = "old1=old1 old2=old2 old3=old3 plain1=plain1 plain2=plain2 plain3=plain3"
		const now = "new1=new1 new2=new2 new3=new3 old1=old1 old2=old2 old3=new plain1=plain1 plain2=plain2 plain3=plain3"
		check := func() {
			t.Helper()
			for _, size := range []int32{0, 1, 4} {
				in.wantContent(ctx, t, &fanoutv1.ListRequest{Resource: blobs, PageSize: size}, now)
				in.wantContent(ctx, t, &fanoutv1.ListRequest{Resource: blobs, PageSize: size, Consistency: exactRevision(at)}, before)
			}
		}
		check()
		in.stop(ctx)
		in = startOver(t, etcd, with)
		check()
		if got := in.status(ctx, t, blobs, false); got.GetOpaqueValues() != 0 {
			t.Errorf("got %v", got)
		}
	})
}

// Watches miss nothing while keys are rotated and values re-encrypted: they receive each
// version of each object, in order and with its value.
func TestRotationDoesNotDisturbWatchesAndWrites(t *testing.T) {
	everywhere(t, func(t *testing.T, with settings) {
		k := newKeysets(t)
		with.keys = keyring(t, k.first)
		in := startOver(t, openEtcd(t, 0), with)
		ctx := within(t)
		in.put(ctx, t, config, "k0", "begin")
		in.put(ctx, t, config, "still", "begin") // only Reencrypt writes this key
		w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
		w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		stop, done := make(chan struct{}), make(chan int64)
		go func() {
			last := int64(0)
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- last
					return
				default:
				}
				resp, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText(fmt.Sprint("k", i%5), fmt.Sprint("text ", i))})
				if err != nil {
					t.Error(err)
					done <- last
					return
				}
				last = resp.GetRevision()
			}
		}()
		for range 5 {
			for _, stage := range [][]byte{k.added, k.promoted, k.added} {
				use(t, with.keys, stage)
				in.reencrypt(ctx, t, config, 2)
			}
		}
		use(t, with.keys, k.promoted)
		close(stop)
		last := <-done
		versions, texts, again := map[string]int64{"k0": 1, "still": 1}, map[string]string{"k0": "begin", "still": "begin"}, 0
		for at := int64(0); at < last; {
			m := w.next(fanoutv1.WatchResponse_KIND_LIVE)
			at = m.GetPosition().GetRevision()
			for _, e := range m.GetEvents() {
				o := e.GetObject()
				if versions[o.GetKey()]++; o.GetVersion() != versions[o.GetKey()] || o.GetOpaque() || o.GetValue() == nil {
					t.Fatalf("after version %d of %s: %v", versions[o.GetKey()]-1, o.GetKey(), e)
				}
				if o.GetText() == texts[o.GetKey()] {
					again++
				}
				texts[o.GetKey()] = o.GetText()
			}
		}
		if again == 0 {
			t.Error("got no re-encrypted object, so the test proves nothing")
		}
	})
}

// A server that lacks a key marks the value as undecryptable and uses an epoch of its own.
// A client that resumes at another server therefore gets the value. A watch that lasts
// until the server gets the key receives the value in its stream.
func TestAServerWithoutAKeyUsesItsOwnEpoch(t *testing.T) {
	everywhere(t, testAServerWithoutAKey)
}

func testAServerWithoutAKey(t *testing.T, with settings) {
	k := newKeysets(t)
	etcd := openEtcd(t, 0)
	behind := keyring(t, k.first)
	with.keys = keyring(t, k.promoted)
	whole := startOver(t, etcd, with)
	with.keys = behind
	lacking := startOver(t, etcd, with)
	ctx := within(t)
	lacking.awaitLoaded(ctx, t)
	whole.awaitLoaded(ctx, t)
	lacking.put(ctx, t, config, "a", "old")
	epoch := whole.epoch(ctx, t)
	w := lacking.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
	_, m := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	if m.GetPosition().GetEpoch() != epoch {
		t.Fatalf("got position %v, want epoch %s", m.GetPosition(), epoch)
	}

	written := whole.put(ctx, t, config, "b", "new")
	events, m := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	for len(events) < 2 { // the new epoch may arrive before the value
		more := w.next(fanoutv1.WatchResponse_KIND_LIVE)
		events, m = append(events, eventsIn(more)...), more
	}
	if diff := cmp.Diff([]event{added("a", "old", written-1), added("b", "", written)}, events); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if m.GetPosition().GetEpoch() == epoch {
		t.Errorf("got the common epoch %s for a state that lacks a value, want another one", epoch)
	}
	lacking.wantContent(ctx, t, &fanoutv1.ListRequest{Resource: config}, "a=old b=!")
	// The new epoch arrives before the server follows etcd again.
	poll.Until(t, "the server serves", func() bool {
		return lacking.status(ctx, t, config, false).GetState() == fanoutv1.ResourceStatus_STATE_SERVING
	})
	if got := lacking.status(ctx, t, config, false); !with.uncached && got.GetUndecryptableObjects() != 1 {
		t.Errorf("got %v", got)
	}
	if said := lacking.lines.text(); !strings.Contains(said, "cannot decrypt value") || !strings.Contains(said, fmt.Sprintf("key %d", k.new)) {
		t.Errorf("want a line about key %d, got log:\n%s", k.new, said)
	}

	// Resume at the other server.
	whole.awaitLoaded(ctx, t) // the cache must have these writes: a watch that resumes does not wait for them
	other := whole.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: after(m.GetPosition())})
	events, _ = other.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	if diff := cmp.Diff([]event{added("a", "old", written-1), added("b", "new", written)}, events); diff != "" {
		t.Errorf("other server, -want +got:\n%s", diff)
	}

	// A keyset without the missing key changes nothing.
	useless, _, err := crypt.Add(k.first)
	if err != nil {
		t.Fatal(err)
	}
	use(t, behind, useless)
	more := whole.put(ctx, t, config, "c", "new")
	m = w.next(fanoutv1.WatchResponse_KIND_LIVE)
	if diff := cmp.Diff([]event{added("c", "", more)}, eventsIn(m)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	use(t, behind, k.promoted)
	events, m = w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	if diff := cmp.Diff([]event{added("a", "old", written-1), added("b", "new", written), added("c", "new", more)}, events); diff != "" {
		t.Errorf("with the key, -want +got:\n%s", diff)
	}
	if m.GetPosition().GetEpoch() != epoch {
		t.Errorf("got position %v, want the common epoch %s", m.GetPosition(), epoch)
	}
	lacking.wantContent(ctx, t, &fanoutv1.ListRequest{Resource: config}, "a=old b=new c=new")
	if got := lacking.status(ctx, t, config, false); got.GetUndecryptableObjects() != 0 {
		t.Errorf("got %v", got)
	}
}
