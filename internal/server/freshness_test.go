package server_test

import (
	"context"
	"errors"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
)

// present returns the present position of the resource.
func (in *instance) present(ctx context.Context, t *testing.T) *fanoutv1.Position {
	t.Helper()
	return in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}).next(fanoutv1.WatchResponse_KIND_BOOKMARK).GetPosition()
}

// A resumed watch is in sync when it has every write that was acknowledged before it began,
// even if the server has not received that write yet.
func TestAResumedWatchHasAllEarlierWrites(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	before := in.present(ctx, t)
	updates := in.behind(ctx, t)
	written := in.put(ctx, t, config, "a", "new")
	updates.await(ctx, t) // the write is on its way to the cacher
	asked := newGate("Revision")
	asked.open()
	in.seams[config].on(func(ctx context.Context, method string) error {
		return errors.Join(updates.pass(ctx, method), asked.pass(ctx, method))
	})
	began := time.Now()
	stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Begin: after(before)})
	if err != nil {
		t.Fatal(err)
	}
	resumed := (&watch{t, stream}).collect()
	asked.await(ctx, t) // the watch knows the revision that it must wait for
	if all := resumed.received(); len(all) > 0 {
		t.Errorf("got %v before the server has received the write", all)
	}
	updates.open()
	all := resumed.await(ctx, t, synced)
	last := all[len(all)-1]
	if last.GetPosition().GetRevision() < written || last.GetAge().AsDuration() > time.Since(began) {
		t.Errorf("got %v, want revision %d or later, as of a time after the beginning of the watch", last, written)
	}
}

// A server that has lost etcd resumes watches with what it knows, and says how old that is.
// When etcd is back, it says nothing.
func TestAResumedWatchStatesHowLongEtcdIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	before := in.present(ctx, t)
	known := in.put(ctx, t, config, "a", "1")
	if _, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: minRevision(known)}); err != nil {
		t.Fatal(err)
	}
	in.seams[config].on(func(context.Context, string) error { return object.ErrUnavailable })
	lost := time.Now()
	if _, err := in.collections[config].Commit(ctx, []object.Op{{Kind: object.OpPut, Key: "b"}}); err != nil { // ends the cacher's watch
		t.Fatal(err)
	}
	in.lines.await(ctx, t, line{"msg": "lost the store, trying again", "resource": config})
	resume := func() ([]event, *fanoutv1.WatchResponse) {
		return in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: after(before)}).catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY)
	}
	poll.Until(t, "a resumed watch says that etcd has been away for a second", func() bool {
		events, end := resume()
		if len(events) != 1 || events[0].At != known {
			t.Fatalf("got events %v, want the one of revision %d", events, known)
		}
		if end.GetAge().AsDuration() > time.Since(lost)+time.Minute {
			t.Errorf("got an age of %v, %v after etcd was lost", end.GetAge().AsDuration(), time.Since(lost))
		}
		return end.GetAge() != nil
	})
	in.seams[config].on(nil)
	poll.Until(t, "a resumed watch has the missed write, and no age", func() bool {
		events, end := resume()
		return len(events) == 2 && end.GetAge() == nil
	})
}

// A resumed watch that could not ask etcd states an age, even if etcd was lost a moment ago.
// Otherwise its client would believe that it has all earlier writes.
func TestAResumedWatchStatesALossOfTheLastMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	before := in.present(ctx, t)
	in.seams[config].on(func(context.Context, string) error { return object.ErrUnavailable })
	if _, err := in.collections[config].Commit(ctx, []object.Op{{Kind: object.OpPut, Key: "b"}}); err != nil { // ends the cacher's watch
		t.Fatal(err)
	}
	in.lines.await(ctx, t, line{"msg": "lost the store, trying again", "resource": config})
	events, end := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: after(before)}).catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY)
	if len(events) != 0 || end.GetAge() == nil {
		t.Errorf("got events %v and an age of %v, want no events and an age", events, end.GetAge())
	}
}
