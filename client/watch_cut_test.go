package client_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// number5 is an event with a value that [number] decodes.
func number5(e *fanoutv1.Event) *fanoutv1.Event { return withValue(e, "5") }

// cutStreams are streams that break, or start over, between two positions. The caller
// has a at position 5, and the stream sends b and c as new keys. The replica that
// continues has never seen c: the key was created and deleted while that replica had
// lost its etcd watch. So a caller that has applied c keeps it forever.
var cutStreams = map[string]struct {
	cut     []message // breaks here
	resumed []message // what another replica sends after position 5
	want    []string
}{
	"DELTA, then RESET": {
		cut:     []message{delta(5), part(5, number5(added("b", 6)), number5(added("c", 7)), deleted("a", 8))},
		resumed: []message{reset(), part(0, number5(added("b", 6)), number5(added("d", 9))), synced(9)},
		want:    []string{"b", "d"},
	},
	"DELTA, then REPLAY": {
		cut:     []message{delta(5), part(5, number5(added("b", 6)), number5(added("c", 7)), deleted("a", 8))},
		resumed: []message{replay(5), part(8, number5(added("b", 6)), deleted("a", 8)), part(9, number5(added("d", 9))), synced(9)},
		want:    []string{"b", "d"},
	},
	"DELTA, then DELTA": {
		cut:     []message{delta(5), part(5, number5(added("b", 6))), part(5, number5(added("c", 7)), deleted("a", 8))},
		resumed: []message{delta(5), part(5, number5(added("b", 6)), deleted("a", 8)), part(5, number5(added("d", 9))), synced(9)},
		want:    []string{"b", "d"},
	},
	"DELTA, then REPLAY at a replica that is behind": {
		cut:     []message{delta(5), part(5, number5(added("b", 6)), number5(added("c", 7)), deleted("a", 8))},
		resumed: []message{replay(5), part(6, number5(added("b", 6))), synced(6), bookmark(7)},
		want:    []string{"a", "b"},
	},
	"partial message, then RESET": {
		cut:     []message{partial(live(5, number5(added("b", 6)), number5(added("c", 6))))},
		resumed: []message{reset(), part(0, number5(added("a", 5)), number5(added("b", 6))), synced(8)},
		want:    []string{"a", "b"},
	},
	"partial message, then REPLAY": {
		cut:     []message{partial(live(5, number5(added("b", 6)))), partial(live(5, number5(added("c", 6))))},
		resumed: []message{replay(5), part(8, number5(added("b", 6))), synced(8)},
		want:    []string{"a", "b"},
	},
	"partial message, then DELTA": {
		cut:     []message{partial(live(5, number5(added("b", 6)), number5(added("c", 6))))},
		resumed: []message{delta(5), part(5, number5(added("b", 6))), synced(8)},
		want:    []string{"a", "b"},
	},
	"partial message of a REPLAY, then REPLAY": {
		cut:     []message{replay(5), partial(part(5, number5(added("b", 6)), number5(added("c", 6))))},
		resumed: []message{replay(5), part(8, number5(added("b", 6))), synced(8)},
		want:    []string{"a", "b"},
	},
	"partial message, then DRAINING and REPLAY": {
		cut:     []message{partial(live(5, number5(added("b", 6)), number5(added("c", 6)))), draining(5)},
		resumed: []message{replay(5), part(8, number5(added("b", 6))), synced(8)},
		want:    []string{"a", "b"},
	},
	"partial message, then DELTA in the same stream": {
		cut:     []message{partial(live(5, number5(added("b", 6)), number5(added("c", 6)))), delta(5), part(5, number5(added("b", 6))), synced(8)},
		resumed: []message{replay(8), synced(8)},
		want:    []string{"a", "b"},
	},
}

// beforeCut leads to position 5.
func beforeCut() []message {
	return []message{reset(), part(0, number5(added("a", 5))), synced(5)}
}

// watchedCopy is a caller of Watch that keeps a copy as the package documentation
// asks for.
type watchedCopy struct {
	keys      map[string]bool
	position  client.Position
	replacing bool
}

// watch applies updates until the first interruption, or for 20 s.
func (c *watchedCopy) watch(t *testing.T, r *client.Resource) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for u, err := range r.Watch(ctx, client.After(c.position), client.OnInterruption(func(error) { cancel() })) {
		if err != nil {
			return
		}
		if u.Phase == client.PhaseReset {
			clear(c.keys)
			c.replacing = true
		}
		for _, e := range u.Events {
			if e.Type == client.Deleted {
				delete(c.keys, e.Object.Key)
			} else {
				c.keys[e.Object.Key] = true
			}
		}
		if u.Phase.Complete() {
			c.position, c.replacing = u.Position, false
		} else if !c.replacing {
			t.Errorf("got events before their position is reached: %s", formatUpdate(u))
		}
	}
}

// The copy of a process that ends where a stream breaks is right when the next process
// continues with it at another replica.
func TestACutStreamLeavesNothingInACopy(t *testing.T) {
	for name, c := range cutStreams {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := &watchedCopy{keys: map[string]bool{}}
				got.watch(t, connectTo(t, &scriptedServer{streams: []stream{{messages: slices.Concat(beforeCut(), c.cut), end: errLost}}}))
				got.watch(t, connectTo(t, &scriptedServer{streams: []stream{{messages: c.resumed}}}))
				if diff := cmp.Diff(c.want, sortedKeys(got.keys)); diff != "" {
					t.Errorf("keys: -want +got:\n%s", diff)
				}
			})
		})
	}
}

func sortedKeys(set map[string]bool) []string {
	var all []string
	for key := range set {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// informerKeys returns the keys that a lister has.
func informerKeys(l client.Lister[int]) []string {
	var all []string
	for i := range l.List("") {
		all = append(all, i.Object.Key)
	}
	return all
}

func TestACutStreamLeavesNothingInAnInformer(t *testing.T) {
	for name, c := range cutStreams {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{streams: []stream{{messages: slices.Concat(beforeCut(), c.cut), end: errLost}, {messages: c.resumed}}}
				inf := client.NewInformer(connectTo(t, s), number)
				calls := newRecorder()
				inf.AddHandler(calls.handler())
				run(t, inf)
				time.Sleep(20 * time.Second)
				if diff := cmp.Diff(c.want, informerKeys(inf.Lister())); diff != "" {
					t.Errorf("keys: -want +got:\n%s", diff)
				}
				if all := calls.all(); slices.Contains(all, "+c=5") || inf.Lister().Stale() {
					t.Errorf("handler calls: %q, stale: %v", all, inf.Lister().Stale())
				}
			})
		})
	}
}

func TestACutStreamLeavesNothingInTheFileOfAnInformer(t *testing.T) {
	for name, c := range cutStreams {
		t.Run(name, func(t *testing.T) {
			file := client.LastKnownGood(filepath.Join(t.TempDir(), "good"), 1<<20)
			synctest.Test(t, func(t *testing.T) {
				cut := &scriptedServer{streams: []stream{{messages: slices.Concat(beforeCut(), c.cut), end: errLost}, {end: errLost}}}
				runFor(t, cut, 20*time.Second, file)
				inf := client.NewInformer(connectTo(t, &scriptedServer{streams: []stream{{messages: c.resumed}}}), number, file)
				run(t, inf)
				time.Sleep(20 * time.Second)
				if diff := cmp.Diff(c.want, informerKeys(inf.Lister())); diff != "" {
					t.Errorf("keys: -want +got:\n%s", diff)
				}
			})
		})
	}
}

// Events of a REPLAY are not held back: its position advances with them.
func TestAReplayIsPassedOnAsItArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{
			replay(5), part(6, added("b", 6)), partial(part(6, added("c", 7))), part(7, added("d", 7)), // never SYNCED
		}}}}
		updates, err := collect(t, connectTo(t, s), client.After(client.Position{Epoch: "e", Revision: 5}))
		if diff := cmp.Diff([]string{"+b@6 e/6", "+c@7 +d@7 e/7"}, updates); diff != "" || err != nil {
			t.Errorf("updates: -want +got:\n%s; the watch ended with %v", diff, err)
		}
	})
}
