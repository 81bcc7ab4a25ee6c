package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/seed"
)

// TestSnapshotLargerThanEveryBuffer checks that a snapshot that is much larger than all
// buffers is the state of one revision, even if the client reads slowly and its objects
// are overwritten meanwhile. The events since that revision follow.
func TestSnapshotLargerThanEveryBuffer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	const objects, size = 1000, 16 << 10 // 16 MB, in messages of 1 MiB
	etcd := loopback.FreeAddress(t)
	s := startServer(t, embedded(t, etcd)...)
	store := fanoutv1.NewStoreServiceClient(s.conn)
	largePut := func(i, n int) *fanoutv1.PutOperation {
		return &fanoutv1.PutOperation{
			Key:   fmt.Sprintf("large/%04d", i),
			Value: &fanoutv1.PutOperation_Data{Data: bytes.Repeat([]byte{byte(n), byte(i)}, size/2)},
		}
	}
	const batch = 50
	for i := 0; i < objects; i += batch {
		request := &fanoutv1.TransactRequest{Resource: resource}
		for j := i; j < i+batch; j++ {
			request.Operations = append(request.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: largePut(j, 0)}})
		}
		if _, err := store.Transact(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}

	written := newLedger()
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	rng := seed.New(t).Rand(0)
	var writers errgroup.Group
	pace := newPace(t, 200)
	writers.Go(func() error { return overwrite(writing, store, written, pace, rng, objects, largePut) })

	r := newRecorder(t, dial(t, s.address), wholeResource())
	r.open(t, check.FromNothing)
	parts := 0
	for {
		m, err := r.receive(t)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == object.Synced {
			break
		}
		if m.Kind == object.CatchUpPart {
			parts++
		}
		if err := written.wait(t.Context(), written.len()+3); err != nil {
			t.Fatal(err)
		}
	}
	atSynced := written.len()
	stop()
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	r.reach(t, int64(written.newest()))
	r.validate(t, readTruth(t, dialEtcd(t, etcd)))
	t.Logf("%d parts, %d objects written meanwhile", parts, atSynced)
	if parts < 10 || atSynced < 3*parts {
		t.Errorf("the test is too easy: %d parts, %d writes", parts, atSynced)
	}
}

// overwrite overwrites objects at random until ctx ends.
func overwrite(ctx context.Context, store fanoutv1.StoreServiceClient, written *ledger, pace *pace, rng *rand.Rand, objects int,
	put func(i, n int) *fanoutv1.PutOperation,
) error {
	for n := 1; pace.next(ctx); n++ {
		op := put(rng.IntN(objects), n)
		begun := written.begin()
		answer, err := store.Put(context.WithoutCancel(ctx), &fanoutv1.PutRequest{Resource: resource, Put: op})
		if err != nil {
			return err
		}
		begun.acknowledged(answer.GetRevision(), object.Key(op.GetKey()))
	}
	return nil
}
