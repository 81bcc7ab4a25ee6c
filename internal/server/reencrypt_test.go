package server_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// reencrypt re-encrypts a resource page by page and returns the sum of the answers.
func (in *instance) reencrypt(ctx context.Context, t *testing.T, resource string, size int32) *fanoutv1.ReencryptResponse {
	t.Helper()
	sum := &fanoutv1.ReencryptResponse{}
	for req := (&fanoutv1.ReencryptRequest{Resource: resource, PageSize: size}); ; {
		resp, err := in.admin().Reencrypt(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.GetLookedAt() > int64(size) && size > 0 {
			t.Errorf("got %v for a page of size %d, want at most %d objects", resp, size, size)
		}
		sum.LookedAt += resp.GetLookedAt()
		sum.Reencrypted += resp.GetReencrypted()
		sum.Undecryptable += resp.GetUndecryptable()
		sum.ChangedMeanwhile += resp.GetChangedMeanwhile()
		sum.Encrypted, sum.PrimaryKeyId = resp.GetEncrypted(), resp.GetPrimaryKeyId()
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			if resp.GetRemaining() != 0 {
				t.Errorf("got %d remaining objects after the last page, want 0", resp.GetRemaining())
			}
			return sum
		}
		if resp.GetRemaining() == 0 {
			t.Errorf("got no remaining objects but a token for another page: %v", resp)
		}
	}
}

// wantReencrypted compares the numbers of objects that were looked at, re-encrypted and
// undecryptable.
func wantReencrypted(t *testing.T, got *fanoutv1.ReencryptResponse, looked, done, undecryptable int64) {
	t.Helper()
	if got.GetLookedAt() != looked || got.GetReencrypted() != done || got.GetUndecryptable() != undecryptable || got.GetChangedMeanwhile() != 0 {
		t.Errorf("got %v, want %d looked at, %d re-encrypted, %d undecryptable", got, looked, done, undecryptable)
	}
}

// Reencrypt rewrites each object that is not encrypted with the primary key, once. The
// values do not change, and watchers receive a MODIFIED event for each rewrite. An
// interrupted run can begin again: it skips the objects that are done.
func TestReencryptRewritesValuesUnderThePrimaryKey(t *testing.T) {
	everywhere(t, func(t *testing.T, with settings) {
		k := newKeysets(t)
		etcd, client := openEtcdAndClient(t)
		with.keys = keyring(t, k.first)
		in := startOver(t, etcd, with)
		ctx := within(t)
		for i := range 40 {
			in.put(ctx, t, blobs, fmt.Sprintf("a%02d", i), fmt.Sprint(i))
		}
		if _, err := client.Put(ctx, "/test/blobs/plain", "p"); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Put(ctx, "/test/blobs/\xff", "no text"); err != nil { // an invalid key is not an object
			t.Fatal(err)
		}
		wantReencrypted(t, in.reencrypt(ctx, t, blobs, 0), 42, 1, 0)
		before := stored(t, client, blobs, "a00").Header.Revision
		wantReencrypted(t, in.reencrypt(ctx, t, blobs, 7), 42, 0, 0)
		if now := stored(t, client, blobs, "a00").Header.Revision; now != before {
			t.Errorf("got revision %d, want %d: values under the primary key must not be rewritten", now, before)
		}

		// Interrupt a run after one page and begin again.
		use(t, with.keys, k.promoted)
		w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: blobs, Begin: fromNow()})
		w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		page, err := in.admin().Reencrypt(ctx, &fanoutv1.ReencryptRequest{Resource: blobs, PageSize: 10})
		if err != nil || page.GetReencrypted() != 10 || page.GetRemaining() != 32 || page.GetPrimaryKeyId() != k.new || !page.GetEncrypted() {
			t.Fatalf("got %v, %v; want 10 re-encrypted under key %d and 32 remaining", page, err, k.new)
		}
		wantReencrypted(t, in.reencrypt(ctx, t, blobs, 0), 42, 31, 0)
		received := 0
		for received < 41 {
			m := w.next(fanoutv1.WatchResponse_KIND_LIVE)
			if n := len(m.GetEvents()); n == 0 {
				t.Fatal("got a live message without events")
			}
			at := map[int64]int{}
			for _, e := range m.GetEvents() {
				o := e.GetObject()
				at[o.GetModRevision()]++
				want := "p"
				if o.GetKey() != "plain" {
					want = strconv.Itoa(received)
				}
				if e.GetType() != fanoutv1.Event_TYPE_MODIFIED || string(o.GetData()) != want || o.GetModRevision() <= before {
					t.Errorf("got %v, want MODIFIED with value %s after revision %d", e, want, before)
				}
				received++
			}
			for _, n := range at {
				if n > 16 {
					t.Errorf("got %d events of one revision, want at most 16", n)
				}
			}
		}
		if kv := stored(t, client, blobs, "\xff").Kvs[0]; string(kv.Value) != "no text" {
			t.Errorf("got value %q under an invalid key, want it unchanged", kv.Value)
		}

		// Nothing is left under the old key.
		use(t, with.keys, k.second)
		wantReencrypted(t, in.reencrypt(ctx, t, blobs, 0), 42, 0, 0)
		if listed := in.list(ctx, t, &fanoutv1.ListRequest{Resource: blobs}, nothing); len(listed.objects) != 41 {
			t.Errorf("got %d objects, want 41", len(listed.objects))
		}

		// Go back to plain values.
		in.stop(ctx)
		with.plain = true
		in = startOver(t, etcd, with)
		in.awaitLoaded(ctx, t)
		done := in.reencrypt(ctx, t, blobs, 0)
		wantReencrypted(t, done, 42, 41, 0)
		if done.GetEncrypted() || done.GetPrimaryKeyId() != 0 || string(stored(t, client, blobs, "a07").Kvs[0].Value) != "7" {
			t.Errorf("got %v, want plain values and no primary key", done)
		}
	})
}

// Reencrypt counts values that it cannot decrypt, and does not rewrite them.
func TestReencryptKeepsUndecryptableValues(t *testing.T) {
	k := newKeysets(t)
	etcd, client := openEtcdAndClient(t)
	keys := keyring(t, k.first)
	in := startOver(t, etcd, settings{keys: keys})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	use(t, keys, k.second)
	in.put(ctx, t, config, "b", "2")
	before := stored(t, client, config, "a").Kvs[0]
	wantReencrypted(t, in.reencrypt(ctx, t, config, 0), 2, 0, 1)
	if now := stored(t, client, config, "a").Kvs[0]; now.ModRevision != before.ModRevision {
		t.Errorf("got revision %d of an undecryptable value, want %d as before", now.ModRevision, before.ModRevision)
	}
	use(t, keys, k.promoted)
	wantReencrypted(t, in.reencrypt(ctx, t, config, 0), 2, 1, 0)
}

// Rewritten objects keep their leases, so they expire at the same time as before.
func TestReencryptKeepsTimesToLive(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	k := newKeysets(t)
	etcd, client := openEtcdAndClient(t)
	keys := keyring(t, k.first)
	in := startOver(t, etcd, settings{keys: keys})
	ctx := within(t)
	for key, seconds := range map[string]int64{"short": 1, "long": 1000} {
		put := putText(key, "x")
		put.Ttl = &durationpb.Duration{Seconds: seconds}
		if _, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: put}); err != nil {
			t.Fatal(err)
		}
	}
	leases := map[string]int64{"short": stored(t, client, config, "short").Kvs[0].Lease, "long": stored(t, client, config, "long").Kvs[0].Lease}
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	use(t, keys, k.promoted)
	wantReencrypted(t, in.reencrypt(ctx, t, config, 0), 2, 2, 0)
	for key, lease := range leases {
		if key == "long" && stored(t, client, config, key).Kvs[0].Lease != lease || lease == 0 {
			t.Errorf("got another lease for %s, want %x as before", key, lease)
		}
	}
	for {
		for _, e := range w.next(fanoutv1.WatchResponse_KIND_LIVE).GetEvents() {
			switch {
			case e.GetType() == fanoutv1.Event_TYPE_DELETED && e.GetObject().GetKey() == "short":
				return
			case e.GetType() != fanoutv1.Event_TYPE_MODIFIED:
				t.Fatalf("got %v, want MODIFIED events and the deletion of short", e)
			}
		}
	}
}

// Concurrent writes win over Reencrypt: no increment of a counter is lost.
func TestReencryptDoesNotOverwriteConcurrentWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	k := newKeysets(t)
	keys := keyring(t, k.promoted)
	in := startOver(t, openEtcd(t, 0), settings{keys: keys})
	ctx := within(t)
	const counters, increments = 4, 50
	for c := range counters {
		in.put(ctx, t, config, fmt.Sprint("c", c), "0")
	}
	var writers sync.WaitGroup
	for c := range counters {
		writers.Go(func() {
			for done := 0; done < increments; {
				got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: fmt.Sprint("c", c)})
				if err != nil {
					t.Error(err)
					return
				}
				n, _ := strconv.Atoi(got.GetObject().GetText())
				put := putText(got.GetObject().GetKey(), strconv.Itoa(n+1))
				put.IfModRevision = &got.GetObject().ModRevision
				_, err = in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: put})
				switch {
				case err == nil:
					done++
				case status.Code(err) != codes.FailedPrecondition:
					t.Error(err)
					return
				}
			}
		})
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		writers.Wait()
	}()
	again := int64(0)
	for running, stage := true, 0; running; stage++ {
		use(t, keys, [][]byte{k.added, k.promoted}[stage%2])
		again += in.reencrypt(ctx, t, config, 0).GetReencrypted()
		select {
		case <-stopped:
			running = false
		default:
		}
	}
	if again == 0 {
		t.Error("got no re-encrypted objects, so the test proves nothing")
	}
	for c := range counters {
		got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: fmt.Sprint("c", c)})
		if err != nil || got.GetObject().GetText() != strconv.Itoa(increments) {
			t.Errorf("counter %d: got %v, %v; want %d", c, got, err, increments)
		}
	}
}

func TestReencryptRefusesBadRequests(t *testing.T) {
	in := start(t, settings{})
	testBadRequests(t, in, in.admin().Reencrypt, []badRequest[fanoutv1.ReencryptRequest]{
		{name: "nothing", request: &fanoutv1.ReencryptRequest{}, want: invalid("resource")},
		{name: "resource", request: &fanoutv1.ReencryptRequest{Resource: "x"}, want: unknownResource("x")},
		{name: "negative", request: &fanoutv1.ReencryptRequest{Resource: config, PageSize: -1}, want: invalid("page_size")},
		{name: "token", request: &fanoutv1.ReencryptRequest{Resource: config, PageToken: "*"}, want: invalid("page_token")},
	})
}

func TestReencryptNeedsWrites(t *testing.T) {
	in := start(t, settings{readOnly: true})
	_, err := in.admin().Reencrypt(within(t), &fanoutv1.ReencryptRequest{Resource: config})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v, want UNIMPLEMENTED", err)
	}
}
