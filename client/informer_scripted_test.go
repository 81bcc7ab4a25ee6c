package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

func TestHandlersGetTheDifference(t *testing.T) {
	first := []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2"), withValue(added("c", 3), "3")), synced(5)}
	begin := []string{"+a=1", "+b=2", "+c=3"}
	for name, c := range map[string]struct {
		streams []stream
		calls   []string // after those of the first state
		state   []string
		stale   bool
	}{
		"of a RESET": {
			streams: []stream{
				{messages: first, end: errLost},
				// The first RESET is cut.
				{messages: []message{reset(), part(0, withValue(added("x", 9), "9"))}, end: errLost},
				{messages: []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 7), "7"), withValue(added("d", 8), "8")), synced(8)}},
			},
			calls: []string{"-c=3", "*b=2>7", "+d=8"},
			state: []string{"a=1", "b=7", "d=8"},
		},
		"of a new epoch with the same revisions, and lower ones": {
			streams: []stream{
				{messages: append(first[:3:3], live(6, withValue(modified("d", 6), "6"))), end: errLost},
				{messages: []message{
					inNewEpoch(reset()), inNewEpoch(part(0, withValue(added("a", 1), "7"), withValue(added("b", 2), "2"), withValue(added("d", 4), "x"))), inNewEpoch(synced(4)),
					inNewEpoch(live(5, withValue(modified("d", 5), "5"))),
				}},
			},
			calls: []string{"+d=6", "-c=3", "*a=1>7", "!d", "*d=6>5"},
			state: []string{"a=7", "b=2", "d=5"},
		},
		"of half a RESET: nothing": {
			streams: []stream{
				{messages: first, end: errLost},
				{messages: []message{reset(), part(0, withValue(added("x", 9), "9"))}},
			},
			state: []string{"a=1", "b=2", "c=3"}, stale: true,
		},
		"of a DELTA after half a DELTA": {
			streams: []stream{
				{messages: first, end: errLost},
				{messages: []message{delta(5), part(5, withValue(added("d", 6), "6"), deleted("a", 7))}, end: errLost},
				{messages: []message{delta(5), part(5, deleted("a", 7), withValue(modified("b", 9), "9")), synced(10)}},
			},
			calls: []string{"-a=1", "*b=2>9"},
			state: []string{"b=9", "c=3"},
		},
		"of a DELTA between live messages": {
			streams: []stream{
				{messages: append(first[:3:3], live(6, withValue(modified("a", 6), "6")),
					// b was deleted and created again, and the informer never had z.
					delta(7), part(7, withValue(added("b", 9), "9"), deleted("a", 12), deleted("z", 12)), synced(12),
					live(13, withValue(added("d", 13), "13")))},
			},
			calls: []string{"*a=1>6", "*b=2>9", "-a=6", "+d=13"},
			state: []string{"b=9", "c=3", "d=13"},
		},
		"of a REPLAY at a server that is behind the one that sent half a DELTA": {
			streams: []stream{
				{messages: first, end: errLost},
				{messages: []message{delta(5), part(5, withValue(added("d", 6), "6"), withValue(added("e", 9), "9"))}, end: errLost},
				{messages: []message{replay(5), part(6, withValue(added("d", 6), "6")), synced(7), live(9, withValue(added("e", 9), "9")), bookmark(12)}},
			},
			calls: []string{"+d=6", "+e=9"},
			state: []string{"a=1", "b=2", "c=3", "d=6", "e=9"},
		},
		"of a partial message: nothing": {
			streams: []stream{
				{messages: append(first[:3:3], partial(live(5, withValue(modified("a", 6), "6"))))},
			},
			state: []string{"a=1", "b=2", "c=3"},
		},
		"of a revision in two messages": {
			streams: []stream{
				{messages: append(first[:3:3], partial(live(5, withValue(modified("a", 6), "6"))), live(6, withValue(modified("b", 6), "6")))},
			},
			calls: []string{"*a=1>6", "*b=2>6"},
			state: []string{"a=6", "b=6", "c=3"},
		},
		"of events that do not fit the state": {
			streams: []stream{
				{messages: append(first[:3:3], live(6, deleted("x", 6)), live(7, withValue(modified("y", 7), "7")), live(8, withValue(added("a", 8), "8")))},
			},
			calls: []string{"+y=7", "*a=1>8"},
			state: []string{"a=8", "b=2", "c=3", "y=7"},
		},
		"of values that can be decoded": {
			streams: []stream{
				{messages: append(first[:3:3], live(6, withValue(modified("a", 6), "x"), withValue(added("z", 6), "z")), live(7, withValue(modified("b", 7), "x")), live(8, withValue(modified("b", 8), "8"))), end: errLost},
				{messages: []message{reset(), part(0, withValue(added("a", 6), "x"), withValue(added("b", 8), "8"), withValue(added("c", 9), "y"), withValue(added("z", 10), "10")), synced(10)}},
			},
			calls: []string{"!a", "!z", "!b", "*b=2>8", "!c", "+z=10"},
			state: []string{"a=1!", "b=8", "c=3!", "z=10"},
		},
		"of values that can be decoded, after half a DELTA": {
			streams: []stream{
				{messages: first, end: errLost},
				{messages: []message{delta(5), part(5, withValue(modified("a", 6), "6"), withValue(added("d", 7), "7"))}, end: errLost},
				{messages: []message{delta(5), part(5, withValue(modified("a", 9), "x"), withValue(added("d", 10), "x")), synced(10)}},
			},
			calls: []string{"!a", "!d"},
			state: []string{"a=1!", "b=2", "c=3"},
		},
		"of a deletion of a value that cannot be decoded": {
			streams: []stream{
				{messages: append(first[:3:3], live(6, withValue(modified("a", 6), "x"), withValue(added("z", 6), "z")), live(7, deleted("a", 7), deleted("z", 7)))},
			},
			calls: []string{"!a", "!z", "-a=1"},
			state: []string{"b=2", "c=3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for n := range c.streams {
					c.streams[n].paced = true
				}
				inf := client.NewInformer(connectTo(t, &scriptedServer{streams: c.streams}), number)
				calls := newRecorder()
				inf.AddHandler(calls.handler())
				run(t, inf)
				if err := inf.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				if diff := cmp.Diff(append(begin[:3:3], c.calls...), calls.all()); diff != "" {
					t.Errorf("handler calls: -want +got:\n%s", diff)
				}
				if diff := cmp.Diff(c.state, items(inf.Lister())); diff != "" {
					t.Errorf("state: -want +got:\n%s", diff)
				}
				if inf.Lister().Stale() != c.stale || inf.Lister().Len() != len(c.state) {
					t.Errorf("got stale %v and %d items, want %v and %d", inf.Lister().Stale(), inf.Lister().Len(), c.stale, len(c.state))
				}
			})
		})
	}
}

func TestResyncUpdatesEveryItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(5)}}}}
		inf := client.NewInformer(connectTo(t, s), number, client.Resync(time.Minute))
		calls := newRecorder()
		inf.AddHandler(calls.handler())
		run(t, inf)
		time.Sleep(150 * time.Second)
		if diff := cmp.Diff([]string{"+a=1", "*a=1>1", "*a=1>1"}, calls.all()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestWaitForStateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := client.NewInformer(connectTo(t, &scriptedServer{streams: []stream{{}}}), number)
		run(t, inf)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := inf.WaitForState(ctx); err == nil {
			t.Error("got no error, want that of the context")
		}
	})
}
