package registry

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// fill registers watches 1 and 3 of resource a, a stream 2 with watches of a, and a stream 4
// with watches of b.
func fill(t *testing.T, r *Registry) {
	t.Helper()
	for _, s := range []*fakeRPC{newRPC("a", 0), newRPC("a", 3), newRPC("a", 0), newRPC("b", 2)} {
		r.add(t, s)
	}
}

// Watches of streams are listed between the other watches, in the order of their numbers.
func TestTheRegistryListsWatchesInOrder(t *testing.T) {
	r := newRegistry(Config{Resources: resources})
	fill(t, r)
	all := []Number{{1, 0}, {2, 1}, {2, 2}, {2, 3}, {3, 0}, {4, 1}, {4, 2}}
	for i := range all {
		var got []Number
		for w := range r.After(all[i], "a", "b") {
			got = append(got, w.Number())
			if found := r.Find(r.ID(w.Number())); found == nil || found.Number() != w.Number() {
				t.Errorf("Find returned %v for the id of %v", found, w.Number())
			}
		}
		if !slices.Equal(got, all[i+1:]) {
			t.Errorf("got %v after %v, want %v", got, all[i], all[i+1:])
		}
	}
	for w := range r.After(Number{}, "a", "b") {
		if w.Number() != all[0] {
			t.Errorf("got %v first, want %v", w.Number(), all[0])
		}
		break
	}
	if n := r.CountByResource(); n["a"] != 5 || n["b"] != 2 {
		t.Errorf("got %v watches, want 5 of a and 2 of b", n)
	}
	// The policy allows nothing.
	r.Interceptors = &rpc.Interceptors{Rights: &rpc.Rights{}}
	r.Interceptors.Rights.Use(&policy.Policy{})
	r.eachWatch(func(w Watch) { w.Caller().Identity, w.Caller().Pass = &access.Identity{}, &access.Pass{} })
	if n := r.Reexamine(); n != 7 {
		t.Errorf("Reexamine ended %d watches, want 7", n)
	}
}

// The counts look at no stream, and a page looks at those of its own watches, however many RPCs there
// are, and after most of them have gone.
func TestAPageOfWatchesLooksAtNoOthers(t *testing.T) {
	r := newRegistry(Config{Resources: resources})
	const streams, watches = 1280, 3
	all := make([]*fakeRPC, streams)
	for i := range all {
		all[i] = newRPC("a", watches)
		r.add(t, all[i])
	}
	var left []*fakeRPC
	for i, s := range all {
		if i%5 == 2 {
			left = append(left, s)
			continue
		}
		for range watches {
			r.counts["a"].end(false)
		}
		r.Unregister(s)
	}
	r.counts["a"].report(false, true, true)
	r.counts["a"].report(false, true, true)
	r.counts["a"].end(true)
	if n, failing := r.CountByResource()["a"], r.CountFailing("a", "b"); n != watches*len(left)-1 || failing != 1 {
		t.Errorf("got %d watches and %d that fail, want %d and 1", n, failing, watches*len(left)-1)
	}
	for _, first := range []int{0, len(left) / 2, len(left) - 2} {
		var page []Number
		for w := range r.After(Number{left[first].caller.number, 1}, "a") {
			if page = append(page, w.Number()); len(page) == 2*watches-2 {
				break
			}
		}
		one, two := left[first].caller.number, left[first+1].caller.number
		if want := []Number{{one, 2}, {one, 3}, {two, 1}, {two, 2}}; !slices.Equal(page, want) {
			t.Errorf("got the page %v, want %v", page, want)
		}
	}
	asked := 0
	for _, s := range all {
		asked += s.asked
	}
	if asked != 6 {
		t.Errorf("three pages of two streams each looked at %d streams", asked)
	}
	if n := r.rpcs.Len(); n != len(left) {
		t.Errorf("the registry has %d RPCs, want %d", n, len(left))
	}
}

// Only the ids that the registry gives out have numbers.
func TestIDsOfWatches(t *testing.T) {
	r := newRegistry(Config{Resources: resources})
	for _, n := range []Number{{1, 0}, {1 << 63, 0}, {7, 1}, {7, 1<<32 - 1}} {
		if got, ok := r.Number(r.ID(n)); !ok || got != n {
			t.Errorf("got %v, %v for the id of %v", got, ok, n)
		}
	}
	for _, rest := range []string{"", "1", "-", "-x", "-1.", "-1.0", "-1.x", "-1.4294967296", "-1.1.1", "-1 "} {
		if n, ok := r.Number(r.prefix + rest); ok {
			t.Errorf("got %v for the id %q, want none", n, rest)
		}
	}
	if _, ok := r.Number("other-1"); ok {
		t.Error("got a number for the id of another server")
	}
}

// In a drain, the watches of a stream end together, and have their share of the period.
func TestStreamsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(Config{Resources: resources})
		large, small := newRPC("a", 800), newRPC("a", 200)
		ended := map[*fakeRPC][]error{}
		for _, s := range []*fakeRPC{large, small} {
			s.end = func(reason error) { ended[s] = append(ended[s], reason) }
			r.add(t, s)
		}
		began := time.Now()
		r.Drain(t.Context(), 10*time.Second)
		if took := time.Since(began); took < 8*time.Second || took > 10*time.Second {
			t.Errorf("the drain took %v, want 8s to 10s", took)
		}
		for _, s := range []*fakeRPC{large, small} {
			if fmt.Sprint(ended[s]) != fmt.Sprint([]error{apierr.ErrDrainedInTurn}) {
				t.Errorf("got the ends %v of a stream, want one", ended[s])
			}
		}
		if err := r.Register(newRPC("a", 1)); !errors.Is(err, apierr.ErrDraining) {
			t.Errorf("got %v for a new stream, want %v", err, apierr.ErrDraining)
		}
		r.Unregister(large)
		r.Unregister(small)
		<-r.empty
	})
}

// Each watch that is there all the time is visited once, although others come and go.
func TestEachWatchIsVisitedOnce(t *testing.T) {
	r := newRegistry(Config{Resources: resources})
	const stable = 1280
	addWatches(t, r, stable, func(int) {})
	visits := map[Watch]int{}
	var passing []*fakeRPC
	r.eachWatch(func(w Watch) {
		visits[w]++
		if len(visits) > 2*stable {
			return
		}
		passing = append(passing, addWatches(t, r, 2, func(int) {})...)
		r.Unregister(passing[0])
		passing = passing[1:]
	})
	n := 0
	for w, visited := range visits {
		if visited != 1 {
			t.Errorf("watch %v was visited %d times", w.Number(), visited)
		}
		if w.Number().RPC <= stable {
			n++
		}
	}
	if n != stable {
		t.Errorf("got %d of %d watches", n, stable)
	}
}
