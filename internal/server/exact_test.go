package server_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/seed"
)

func exactRevision(r int64) *fanoutv1.ReadConsistency {
	return &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_ExactRevision{ExactRevision: r}}
}

// revisionExpired is the refusal of a revision that is no longer available.
func revisionExpired(asked, oldest int64) refusal {
	return refusal{Code: codes.OutOfRange, Reason: apierr.ReasonRevisionExpired, Metadata: map[string]string{
		"asked_revision": decimal(asked), "oldest_revision": decimal(oldest),
	}}
}

// writeRandomly sends random writes: of several keys at once, of keys that come and go,
// and sometimes to another resource.
func (l *ledger) writeRandomly(ctx context.Context, random *rand.Rand, writes int) error {
	for i := range writes {
		if random.IntN(5) == 0 {
			_, err := l.writes.Put(ctx, &fanoutv1.PutRequest{Resource: blobs, Put: putText("elsewhere", fmt.Sprint(i))})
			if err != nil {
				return err
			}
			continue
		}
		texts := map[string]*string{}
		for range 1 + random.IntN(3) {
			key := fmt.Sprintf("%c/%d", 'a'+random.IntN(3), random.IntN(4))
			if random.IntN(3) == 0 {
				texts[key] = nil
			} else {
				texts[key] = new(fmt.Sprint(i))
			}
		}
		if err := l.commit(ctx, texts); err != nil {
			return err
		}
	}
	return nil
}

// rememberedFrom returns the oldest revision whose state a server with this window knows.
// It is the revision of the newest change that no longer fits into the window.
func (l *ledger) rememberedFrom(window int) int64 {
	return int64(l.changes[len(l.changes)-window-1].Revision)
}

func oddOrEven(text string) map[string]string {
	if (text[len(text)-1]-'0')%2 == 0 {
		return map[string]string{"number": "even"}
	}
	return map[string]string{"number": "odd"}
}

// Reads with exact_revision return the state at that revision, from the window if it has
// the revision and otherwise from etcd's history.
func TestExactReadsReturnTheStateAtTheirRevision(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const window = 20
	random := seed.New(t).Rand(0)
	etcd, compact := openEtcdToCompact(t)
	in := startOver(t, etcd, settings{window: cacher.WindowLimits{MaxChanges: window}})
	ctx := within(t)
	l := in.ledger(config)
	l.labels = oddOrEven
	before := in.revision(ctx, t)
	if err := l.writeRandomly(ctx, random, 2*window); err != nil {
		t.Fatal(err)
	}
	in.put(ctx, t, blobs, "last", "") // the revision of a write elsewhere counts, too
	truth := l.truth(ctx, t, check.Conditions{})
	now := int64(truth.Through)
	oldest := l.rememberedFrom(window)
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)

	listed := func() int { return in.seams[config].counted()["List"] }
	for at := before; at <= now; at++ {
		past := listed()
		for _, req := range []*fanoutv1.ListRequest{
			{},
			{Scope: prefix("b")},
			{Scope: prefix("b"), StartKey: "b/1", PageSize: 2},
			{Scope: exactly("c/0")},
			{PageSize: 3},
			{LabelSelector: "number=odd", PageSize: 2},
		} {
			req.Consistency = exactRevision(at)
			read := l.read(ctx, t, req)
			if req.GetLabelSelector() != "" {
				read.Picks = func(o *object.Decoded) bool { return o.Labels["number"] == "odd" }
			}
			if err := check.Consistent(read, truth); err != nil {
				t.Error(err)
			}
		}
		state := truth.State(object.Scope{}, object.Revision(at))
		for _, key := range []string{"a/0", "b/3", "never"} {
			got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: key, Consistency: exactRevision(at)})
			i := slices.IndexFunc(state, func(o *object.Decoded) bool { return string(o.Key) == key })
			switch {
			case i < 0:
				wantRefusal(t, err, keyNotFound(key, at))
			case err != nil:
				t.Errorf("%q at revision %d: %v", key, at, err)
			case got.GetPosition().GetRevision() != at || got.GetObject().GetText() != string(state[i].Value) || got.GetObject().GetModRevision() != int64(state[i].ModRevision):
				t.Errorf("%q at revision %d: got %v, want %v", key, at, got, state[i])
			}
		}
		if asked, remembered := listed() > past, at >= oldest; asked == remembered {
			t.Errorf("revision %d: got a read of etcd's history: %v; want one only before revision %d", at, asked, oldest)
		}
	}
	for _, req := range []*fanoutv1.ReadConsistency{exactRevision(now + 1), exactRevision(math.MaxInt64)} {
		_, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: req})
		wantRefusal(t, err, inFuture(req.GetExactRevision(), now))
		_, err = in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: req})
		wantRefusal(t, err, inFuture(req.GetExactRevision(), now))
	}

	// Compact etcd beyond the window of the server.
	compacted := oldest + 3
	compact(ctx, compacted)
	for at := before; at <= compacted; at++ {
		_, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: exactRevision(at)})
		_, getErr := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "never", Consistency: exactRevision(at)})
		if at < oldest {
			wantRefusal(t, err, revisionExpired(at, oldest))
			wantRefusal(t, getErr, revisionExpired(at, oldest))
			continue
		}
		if err != nil {
			t.Errorf("revision %d, which the window has: %v", at, err)
		}
		wantRefusal(t, getErr, keyNotFound("never", at))
	}

	// Reads from the window do not need the store; older ones do.
	in.seams[config].on(func(context.Context, string) error { return object.ErrUnavailable })
	if err := check.Consistent(l.read(ctx, t, &fanoutv1.ListRequest{Consistency: exactRevision(oldest)}), truth); err != nil {
		t.Error(err)
	}
	_, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: exactRevision(oldest - 1)})
	wantRefusal(t, err, storeUnavailable)
}

// A watch can begin with the state at any revision in the window. It continues from there
// without a gap, whatever is written meanwhile.
func TestReliableFromAnExactSnapshotOn(t *testing.T) {
	const window = 40
	random := seed.New(t).Rand(0)
	in := start(t, settings{window: cacher.WindowLimits{MaxChanges: window}})
	ctx := within(t)
	l := in.ledger(config)
	if err := l.writeRandomly(ctx, random, 2*window); err != nil {
		t.Fatal(err)
	}
	from := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at.GetRevision()
	oldest := l.rememberedFrom(window)
	for _, at := range []int64{oldest - 1, 1} {
		stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Consistency: exactRevision(at)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		wantRefusal(t, err, revisionExpired(at, oldest))
	}
	for _, at := range []int64{from + 1, math.MaxInt64} {
		stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Consistency: exactRevision(at)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		wantRefusal(t, err, inFuture(at, from))
	}

	// The watches begin at different revisions during writes. There are too few writes to
	// push these revisions out of the window.
	type begun struct {
		at    int64
		scope *fanoutv1.Scope
		inbox *inbox
	}
	var watches []begun
	var writing sync.WaitGroup
	defer writing.Wait()
	const more = window / 8 // writes of up to three changes
	writing.Go(func() {
		if err := l.writeRandomly(ctx, random, more); err != nil {
			t.Error(err)
		}
	})
	for at := from - 5; at <= from; at++ {
		for _, scope := range []*fanoutv1.Scope{nil, prefix("b"), exactly("c/1")} {
			w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: scope, Consistency: exactRevision(at), EveryEvent: true})
			watches = append(watches, begun{at, scope, w.collect()})
		}
	}
	writing.Wait()
	last := l.write(ctx, t, map[string]*string{"a/last": new(""), "b/last": new(""), "c/1": new("last")})
	truth := l.truth(ctx, t, check.Conditions{Window: window})
	for _, w := range watches {
		all := w.inbox.await(ctx, t, reached(last))
		s := streamOf(t, check.FromNothing, nil, all)
		s.Exact = object.Revision(w.at)
		h := check.History{Watcher: fmt.Sprintf("a watcher of %v from revision %d on", w.scope, w.at), Streams: []check.Stream{s}, EveryEvent: true}
		var err error
		switch {
		case w.scope.GetPrefix() != "":
			h.Scope, err = object.ParsePrefix(w.scope.GetPrefix())
		case w.scope.GetKey() != "":
			h.Scope, err = object.ParseKeyScope(w.scope.GetKey())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := check.Validate(&h, truth); err != nil {
			t.Error(err)
		}
	}
}
