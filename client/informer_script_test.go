package client_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// with returns an event with another value.
func with(e *fanoutv1.Event, value string) *fanoutv1.Event {
	e.Object.Value = &fanoutv1.Object_Text{Text: value}
	return e
}

// anew returns a message as one of another epoch.
func anew(m *fanoutv1.WatchResponse) *fanoutv1.WatchResponse {
	m.Position.Epoch = "f"
	return m
}

func TestInformerTellsWhatIsDifferent(t *testing.T) {
	first := []message{reset(), part(0, with(added("a", 1), "1"), with(added("b", 2), "2"), with(added("c", 3), "3")), synced(5)}
	begin := []string{"+a=1", "+b=2", "+c=3"}
	for name, c := range map[string]struct {
		acts  []act
		told  []string
		state []string
		stale bool
	}{
		"when the state is replaced": {
			acts: []act{
				{messages: first, end: lost},
				// The first of the two does not come to its end.
				{messages: []message{reset(), part(0, with(added("x", 9), "9"))}, end: lost},
				{messages: []message{reset(), part(0, with(added("a", 1), "1"), with(added("b", 7), "7"), with(added("d", 8), "8")), synced(8)}},
			},
			told:  []string{"-c=3", "*b=2>7", "+d=8"},
			state: []string{"a=1", "b=7", "d=8"},
		},
		"when a new epoch has the same revisions, and lower ones": {
			acts: []act{
				{messages: append(first[:3:3], live(6, with(modified("d", 6), "6"))), end: lost},
				{messages: []message{
					anew(reset()), anew(part(0, with(added("a", 1), "7"), with(added("b", 2), "2"), with(added("d", 4), "x"))), anew(synced(4)),
					anew(live(5, with(modified("d", 5), "5"))),
				}},
			},
			told:  []string{"+d=6", "!d", "-c=3", "*a=1>7", "*d=6>5"},
			state: []string{"a=7", "b=2", "d=5"},
		},
		"while the state is replaced: nothing": {
			acts: []act{
				{messages: first, end: lost},
				{messages: []message{reset(), part(0, with(added("x", 9), "9"))}},
			},
			state: []string{"a=1", "b=2", "c=3"}, stale: true,
		},
		"when a difference was interrupted": {
			acts: []act{
				{messages: first, end: lost},
				{messages: []message{delta(5), part(5, with(added("d", 6), "6"), deleted("a", 7))}, end: lost},
				{messages: []message{delta(5), part(5, deleted("a", 7), with(modified("b", 9), "9")), synced(10)}},
			},
			told:  []string{"-a=1", "*b=2>9"},
			state: []string{"b=9", "c=3"},
		},
		"and is not stale when the second server was behind the first": {
			acts: []act{
				{messages: first, end: lost},
				{messages: []message{delta(5), part(5, with(added("d", 6), "6"), with(added("e", 9), "9"))}, end: lost},
				{messages: []message{replay(5), part(6, with(added("d", 6), "6")), synced(7), live(9, with(added("e", 9), "9")), bookmark(12)}},
			},
			told:  []string{"+d=6", "+e=9"},
			state: []string{"a=1", "b=2", "c=3", "d=6", "e=9"},
		},
		"not before it is complete": {
			acts: []act{
				{messages: append(first[:3:3], partial(live(5, with(modified("a", 6), "6"))))},
			},
			state: []string{"a=1", "b=2", "c=3"},
		},
		"when it is complete": {
			acts: []act{
				{messages: append(first[:3:3], partial(live(5, with(modified("a", 6), "6"))), live(6, with(modified("b", 6), "6")))},
			},
			told:  []string{"*a=1>6", "*b=2>6"},
			state: []string{"a=6", "b=6", "c=3"},
		},
		"and makes sense of what the servers cannot know": {
			acts: []act{
				{messages: append(first[:3:3], live(6, deleted("x", 6)), live(7, with(modified("y", 7), "7")), live(8, with(added("a", 8), "8")))},
			},
			told:  []string{"+y=7", "*a=1>8"},
			state: []string{"a=8", "b=2", "c=3", "y=7"},
		},
		"of what can be decoded": {
			acts: []act{
				{messages: append(first[:3:3], live(6, with(modified("a", 6), "x"), with(added("z", 6), "z")), live(7, with(modified("b", 7), "x")), live(8, with(modified("b", 8), "8"))), end: lost},
				{messages: []message{reset(), part(0, with(added("a", 6), "x"), with(added("b", 8), "8"), with(added("c", 9), "y"), with(added("z", 10), "10")), synced(10)}},
			},
			told:  []string{"!a", "!z", "!b", "*b=2>8", "!c", "+z=10"},
			state: []string{"a=1!", "b=8", "c=3!", "z=10"},
		},
		"of what can be decoded, also in an interruption": {
			acts: []act{
				{messages: first, end: lost},
				{messages: []message{delta(5), part(5, with(modified("a", 6), "6"), with(added("d", 7), "7"))}, end: lost},
				{messages: []message{delta(5), part(5, with(modified("a", 9), "x"), with(added("d", 10), "x")), synced(10)}},
			},
			told:  []string{"!a", "!d", "*a=1>6", "+d=7"},
			state: []string{"a=6!", "b=2", "c=3", "d=7!"},
		},
		"of what can be decoded, also when it goes": {
			acts: []act{
				{messages: append(first[:3:3], live(6, with(modified("a", 6), "x"), with(added("z", 6), "z")), live(7, deleted("a", 7), deleted("z", 7)))},
			},
			told:  []string{"!a", "!z", "-a=1"},
			state: []string{"b=2", "c=3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := client.NewInformer(play(t, &script{acts: c.acts}), number)
				told := newJournal()
				inf.AddHandler(told.handler())
				run(t, inf)
				if err := inf.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				if diff := cmp.Diff(append(begin[:3:3], c.told...), told.all()); diff != "" {
					t.Errorf("told: -want +got:\n%s", diff)
				}
				if diff := cmp.Diff(c.state, items(inf.Lister())); diff != "" {
					t.Errorf("state: -want +got:\n%s", diff)
				}
				if inf.Lister().Stale() != c.stale || inf.Lister().Len() != len(c.state) {
					t.Errorf("stale is %v and there are %d", inf.Lister().Stale(), inf.Lister().Len())
				}
			})
		})
	}
}

func TestInformerTellsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{acts: []act{{messages: []message{reset(), part(0, with(added("a", 1), "1")), synced(5)}}}}
		inf := client.NewInformer(play(t, s), number, client.Resync(time.Minute))
		told := newJournal()
		inf.AddHandler(told.handler())
		run(t, inf)
		time.Sleep(150 * time.Second)
		if diff := cmp.Diff([]string{"+a=1", "*a=1>1", "*a=1>1"}, told.all()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// A handler that does not return stops the reading, and nothing piles up.
func TestSlowHandlersHoldTheServerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 1000
		a := act{messages: []message{reset(), synced(1)}}
		big := make([]byte, 32<<10)
		for i := range messages {
			a.messages = append(a.messages, live(int64(i+2), with(added(strconv.Itoa(i), int64(i+2)), string(big))))
		}
		s := &script{acts: []act{a}}
		inf := client.NewInformer(play(t, s), client.ObjectDecoder())
		first, release := make(chan struct{}), make(chan struct{})
		inf.AddHandler(client.Handler[*client.Object]{Add: func(client.Item[*client.Object]) {
			select {
			case first <- struct{}{}:
				<-release
			case <-release:
			}
		}})
		run(t, inf)
		<-first
		synctest.Wait()
		if n := s.sent.Load(); n > messages/4 {
			t.Errorf("%d of %d messages were sent while the handler was at the first", n, messages)
		}
		close(release)
		synctest.Wait()
		if n := inf.Lister().Len(); n != messages {
			t.Errorf("%d of %d came in the end", n, messages)
		}
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := client.NewInformer(play(t, &script{acts: []act{{}}}), number)
		run(t, inf)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := inf.WaitForState(ctx); err == nil {
			t.Error("there is a state")
		}
	})
}
