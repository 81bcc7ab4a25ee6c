package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/poll"
)

// everyWriter runs a test with cached and uncached resources, with the seams of their stores. The
// blobs have the codec protobuf.
func everyWriter(t *testing.T, test func(ctx context.Context, t *testing.T, in *instance, seams map[string]*seam)) {
	t.Parallel()
	for name, uncached := range map[string]bool{"cached": false, "uncached": true} {
		t.Run(name, func(t *testing.T) {
			seams := map[string]*seam{}
			in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), settings{
				uncached:  uncached,
				codecs:    map[string]string{blobs: "protobuf"},
				schemas:   map[string]object.Schema{blobs: {Message: routeType(t)}},
				interfere: func(resource string, s *seam) { seams[resource] = s },
			})
			test(within(t), t, in, seams)
		})
	}
}

// foreign are values of another program that the codec of a resource cannot decode, and own is a
// value that it can.
var (
	foreign = map[string]string{config: `{"rps": 100}`, documents: "rps: 100", blobs: `{"region": "eu"}`}
	own     = map[string]string{config: "text", documents: `{"rps": 1}`, blobs: `{"region": "us"}`}
)

// storedValue returns what is stored at a key.
func (in *instance) storedValue(ctx context.Context, t *testing.T, resource, key string) string {
	t.Helper()
	records, _, err := in.collections[resource].List(ctx, 0, object.Scope{}, object.Key(key), 1)
	if err != nil || len(records) == 0 || records[0].Key != object.Key(key) {
		t.Fatalf("%s: got %v, %v", key, records, err)
	}
	return string(records[0].Value)
}

func putOf(resource string, put *fanoutv1.PutOperation) *fanoutv1.PutRequest {
	return &fanoutv1.PutRequest{Resource: resource, Put: put}
}

// overwrite writes a text, whatever the key has, and returns the revision.
func (in *instance) overwrite(ctx context.Context, t *testing.T, resource, key, text string) int64 {
	t.Helper()
	put := putText(key, text)
	put.OverwriteOpaque = true
	resp, err := in.writes.Put(ctx, putOf(resource, put))
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRevision()
}

func opaque(key string, modRevision int64) refusal {
	return refusal{Code: codes.FailedPrecondition, Reason: apierr.ReasonOpaqueValue, Metadata: map[string]string{"key": key, "mod_revision": decimal(modRevision)}}
}

// A put replaces a value that the codec cannot decode only on request.
func TestOpaqueValuesAreNotOverwrittenUnawares(t *testing.T) {
	everyWriter(t, func(ctx context.Context, t *testing.T, in *instance, _ map[string]*seam) {
		for resource, value := range foreign {
			at := in.commit(ctx, t, resource, "foreign", []byte(value))
			refused := func(what string, err error) {
				t.Helper()
				wantRefusal(t, err, opaque("foreign", at))
				if got := in.storedValue(ctx, t, resource, "foreign"); got != value {
					t.Fatalf("%s: %s has stored %q", resource, what, got)
				}
			}
			put := func() *fanoutv1.PutOperation { return putText("foreign", own[resource]) }
			for range 2 { // at once, and when the server knows the value
				_, err := in.writes.Put(ctx, putOf(resource, put()))
				refused("put", err)
				if message := status.Convert(err).Message(); !strings.Contains(message, "overwrite_opaque") || !strings.Contains(message, "another program") {
					t.Errorf("the message does not say why, and what to do: %s", message)
				}
			}
			conditional := put()
			conditional.IfModRevision = &at
			_, err := in.writes.Put(ctx, putOf(resource, conditional))
			refused("conditional put", err)
			keeping := put()
			keeping.KeepTtl = true
			_, err = in.writes.Put(ctx, putOf(resource, keeping))
			refused("put that keeps the time to live", err)
			_, err = in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: resource, Operations: []*fanoutv1.Operation{
				{Operation: &fanoutv1.Operation_Put{Put: putText("other", own[resource])}},
				{Operation: &fanoutv1.Operation_Put{Put: put()}},
			}})
			refused("transaction", err)
			if _, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: resource, Key: "other"}); status.Code(err) != codes.NotFound {
				t.Errorf("%s: a part of the transaction was applied: %v", resource, err)
			}
			// A precondition that does not hold is the reason, as before.
			conditional.IfModRevision = new(at + 1000)
			_, err = in.writes.Put(ctx, putOf(resource, conditional))
			if got := refusalIn(t, err); got.Reason != apierr.ReasonPreconditionFailed {
				t.Errorf("%s: got %v, want PRECONDITION_FAILED", resource, got)
			}

			// Other writes of the object, and those with the word, are allowed.
			if _, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: resource, Operations: []*fanoutv1.Operation{
				{Operation: &fanoutv1.Operation_Check{Check: &fanoutv1.CheckOperation{Key: "foreign", ModRevision: &at}}},
			}}); err != nil {
				t.Errorf("%s: check: %v", resource, err)
			}
			in.overwrite(ctx, t, resource, "foreign", own[resource])
			if _, err := in.writes.Put(ctx, putOf(resource, put())); err != nil {
				t.Errorf("%s: put of a value that is not opaque any more: %v", resource, err)
			}
			in.commit(ctx, t, resource, "foreign", []byte(value))
			in.delete(ctx, t, resource, "foreign")
			in.put(ctx, t, resource, "foreign", own[resource])
		}
	})
}

// A value that another program stores between the check of the server and its write is not lost
// either.
func TestOpaqueValuesOfOneMomentAgoAreNotOverwritten(t *testing.T) {
	everyWriter(t, func(ctx context.Context, t *testing.T, in *instance, seams map[string]*seam) {
		for resource, value := range foreign {
			for i, before := range []string{"", own[resource]} {
				key := fmt.Sprint("k", i)
				var first int64
				if before != "" {
					first = in.put(ctx, t, resource, key, before)
				}
				var once sync.Once
				seams[resource].on(func(ctx context.Context, method string) error {
					if method == "Commit" {
						once.Do(func() { in.commit(ctx, t, resource, key, []byte(value)) })
					}
					return nil
				})
				_, err := in.writes.Put(ctx, putOf(resource, putText(key, own[resource])))
				seams[resource].on(nil)
				if got := refusalIn(t, err); got.Reason != apierr.ReasonOpaqueValue {
					t.Errorf("%s: got %v, want OPAQUE_VALUE", resource, got)
				}
				if got := in.storedValue(ctx, t, resource, key); got != value {
					t.Errorf("%s, first at %d: the value of the other program is lost: %q", resource, first, got)
				}
			}
		}
	})
}

// Usually a put costs one request to the store, whatever the server has written before.
func TestPutsCostOneRequest(t *testing.T) {
	everyWriter(t, func(ctx context.Context, t *testing.T, in *instance, seams map[string]*seam) {
		commits := func(what string, want int, write func()) {
			t.Helper()
			before := seams[documents].counted()["Commit"]
			write()
			if got := seams[documents].counted()["Commit"] - before; got != want {
				t.Errorf("%s: got %d transactions, want %d", what, got, want)
			}
		}
		value := func(n int) string { return fmt.Sprintf(`{"n": %d}`, n) }
		commits("a new object", 1, func() { in.put(ctx, t, documents, "k", value(0)) })
		for n := range 5 {
			commits("an object that was just written", 1, func() { in.put(ctx, t, documents, "k", value(n)) })
		}
		commits("a deletion", 1, func() { in.delete(ctx, t, documents, "k") })
		var revision int64
		commits("an object that was just deleted", 1, func() { revision = in.put(ctx, t, documents, "k", value(0)) })
		conditional := putText("k", value(1))
		conditional.IfModRevision = &revision
		commits("a precondition", 1, func() {
			if _, err := in.writes.Put(ctx, putOf(documents, conditional)); err != nil {
				t.Error(err)
			}
		})
		commits("a precondition that does not hold", 1, func() {
			if _, err := in.writes.Put(ctx, putOf(documents, conditional)); status.Code(err) != codes.FailedPrecondition {
				t.Error(err)
			}
		})
	})
}

// An object that another server has changed is written all the same, with its time to live.
func TestPutsOfObjectsThatOthersChange(t *testing.T) {
	everyWriter(t, func(ctx context.Context, t *testing.T, in *instance, seams map[string]*seam) {
		mortal := putText("k", `{"n": 1}`)
		mortal.Ttl = durationpb.New(maxTTL)
		if _, err := in.writes.Put(ctx, putOf(documents, mortal)); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		seams[documents].on(func(ctx context.Context, method string) (err error) {
			if method == "Commit" {
				once.Do(func() {
					_, err = in.collections[documents].Commit(ctx, []object.Op{{Kind: object.OpPut, Key: "k", Value: []byte(`{"n": 2}`), KeepTTL: true}})
				})
			}
			return err
		})
		keeping := putText("k", `{"n": 3}`)
		keeping.KeepTtl = true
		if _, err := in.writes.Put(ctx, putOf(documents, keeping)); err != nil {
			t.Fatal(err)
		}
		seams[documents].on(nil)
		resp, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: documents, Key: "k"})
		if err != nil || resp.GetObject().GetText() != `{"n": 3}` || !resp.GetObject().GetHasTtl() || resp.GetObject().GetVersion() != 3 {
			t.Errorf("got %v, %v", resp, err)
		}
	})
}

// A put ends the lease of the object that it replaces, however the server knows that lease.
func TestPutsEndTheLeasesOfReplacedObjects(t *testing.T) {
	everyWriter(t, func(ctx context.Context, t *testing.T, in *instance, _ map[string]*seam) {
		c := in.collections[documents]
		put := func(p *fanoutv1.PutOperation) {
			t.Helper()
			if _, err := in.writes.Put(ctx, putOf(documents, p)); err != nil {
				t.Fatal(err)
			}
		}
		keeping := func(key string, overwrite bool) *fanoutv1.PutOperation {
			p := putText(key, `{"n": 2}`)
			p.KeepTtl, p.OverwriteOpaque = true, overwrite
			return p
		}
		for key, between := range map[string]func(key string){
			"written": func(string) {},
			"kept":    func(key string) { put(keeping(key, false)) },
			"unseen":  func(key string) { put(keeping(key, true)) },
			"read": func(key string) { // now it is in the cache
				if _, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: documents, Key: key}); err != nil {
					t.Fatal(err)
				}
			},
		} {
			mortal := putText(key, `{"n": 1}`)
			mortal.Ttl = durationpb.New(maxTTL)
			put(mortal)
			records, _, err := c.List(ctx, 0, object.ExactKey(object.Key(key)), "", 1)
			if err != nil || len(records) != 1 || records[0].Lease == 0 {
				t.Fatalf("%s: got %v, %v, want an object with a lease", key, records, err)
			}
			between(key)
			put(putText(key, `{"n": 3}`))
			poll.Until(t, "the lease has ended: "+key, func() bool {
				left, err := c.RemainingTTL(ctx, records[0].Lease)
				return err == nil && left == 0
			})
		}
	})
}

// Writers of one key do not fail because of each other.
func TestManyWritersOfOneKey(t *testing.T) {
	everyWriter(t, func(ctx context.Context, t *testing.T, in *instance, _ map[string]*seam) {
		const writers, writes = 20, 5
		var group sync.WaitGroup
		for n := range writers {
			group.Go(func() {
				for i := range writes {
					if _, err := in.writes.Put(ctx, putOf(documents, putText("k", fmt.Sprintf(`{"writer": %d, "n": %d}`, n, i)))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		resp, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: documents, Key: "k"})
		if err != nil || resp.GetObject().GetVersion() != writers*writes {
			t.Errorf("got %v, %v, want version %d", resp, err, writers*writes)
		}
	})
}

// A write waits for its turn only while others end: one whose answer does not come does not hold up the others.
func TestWritesDoNotWaitForOneThatIsStuck(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	var writes *seam
	in := startOver(t, openEtcd(t, 0), settings{interfere: func(resource string, s *seam) {
		if resource == documents {
			writes = s
		}
	}})
	ctx := within(t)
	attempts, stuck, release := 0, make(chan struct{}), make(chan struct{})
	writes.on(func(ctx context.Context, method string) error {
		if method != "Commit" {
			return nil
		}
		switch attempts++; attempts {
		case 1:
			in.commit(ctx, t, documents, "k", []byte("0")) // another program is faster
		case 2:
			close(stuck)
			<-release
		}
		return nil
	})
	first := make(chan int64)
	go func() { first <- in.put(ctx, t, documents, "k", "1") }()
	<-stuck
	in.put(ctx, t, documents, "other", "2")
	second := in.put(ctx, t, documents, "k", "2")
	close(release)
	if got := <-first; got < second {
		t.Errorf("the stuck write has revision %d, want one after %d", got, second)
	}
	in.put(ctx, t, documents, "k", "3")
}

// If other servers are faster each time, a put gives up, and says that it can be sent again.
func TestPutsThatOthersOvertake(t *testing.T) {
	everyWriter(t, func(ctx context.Context, t *testing.T, in *instance, seams map[string]*seam) {
		attempts := 0
		seams[documents].on(func(ctx context.Context, method string) error {
			if method == "Commit" {
				attempts++
				in.commit(ctx, t, documents, "k", fmt.Appendf(nil, `{"n": %d}`, attempts))
			}
			return nil
		})
		_, err := in.writes.Put(ctx, putOf(documents, putText("k", "0")))
		wantRefusal(t, err, refusal{Code: codes.Aborted, Reason: apierr.ReasonWriteContended, Retry: true})
		if attempts != 16 {
			t.Errorf("got %d attempts, want 16", attempts)
		}
		// Later ones are not affected.
		seams[documents].on(nil)
		in.put(ctx, t, documents, "k", "0")
	})
}

// Values that the server cannot decrypt are protected as well, whatever the codec.
func TestUndecryptableValuesAreNotOverwrittenUnawares(t *testing.T) {
	everywhere(t, func(t *testing.T, with settings) {
		k := newKeysets(t)
		etcd := openEtcd(t, 0)
		ctx := within(t)
		with.keys = keyring(t, k.first)
		in := startOver(t, etcd, with)
		at := map[string]int64{config: in.put(ctx, t, config, "secret", "x"), blobs: in.put(ctx, t, blobs, "secret", "x")}
		in.stop(ctx)

		for _, keys := range [][]byte{k.second, nil} { // other keys, and none
			with.keys = nil
			if keys != nil {
				with.keys = keyring(t, keys)
			}
			in = startOver(t, etcd, with)
			for resource, revision := range at {
				_, err := in.writes.Put(ctx, putOf(resource, putText("secret", "y")))
				wantRefusal(t, err, opaque("secret", revision))
			}
			in.stop(ctx)
		}
		with.keys = keyring(t, k.second)
		in = startOver(t, etcd, with)
		in.overwrite(ctx, t, config, "secret", "y")
		in.put(ctx, t, config, "secret", "z")
	})
}
