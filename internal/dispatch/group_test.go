package dispatch_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/work"
)

// The worker sends a batch to the waiting watchers of one queue one after another, in the
// order of their places, and counts them together. The order remains when watchers leave
// the group for a while.
func TestBatchesAreSentQueueByQueue(t *testing.T) {
	const queues, each, events = 5, 40, 10
	f := startDispatching(t, limits{})
	c := &crowd{}
	q := make([]*sendqueue.Queue, queues)
	for i := range q {
		q[i] = f.workers.NewQueue()
	}
	place := func(n int) uint32 { return uint32(n / queues * 7 % each) } // another order than that of the joining
	ordered := make([]*member, queues*each)
	for n := range ordered {
		m := f.joinInOrder(t, c, q[n%queues], feed.Interest{}, dispatch.Options{Latest: n%3 == 0}, place(n))
		c.members = append(c.members, m)
		ordered[n%queues*each+int(place(n))] = m
		if n == queues*each/2 {
			c.after(func() { f.store.Put("k", "v") }) // the others join members that are in order
		}
	}
	f.wait()
	var slow, others crowd // the slow ones leave the group and join it again
	for n, m := range slices.Backward(c.members) {
		m.full = n%7 == 0
		m.crowd = &others
		if m.full {
			m.crowd = &slow
		}
		m.crowd.members = append(m.crowd.members, m)
	}
	others.after(func() { f.store.Put("k", "v") })
	f.wait()
	slow.after(func() {
		for _, m := range slow.members {
			m.full = false
			m.Ready()
		}
	})
	f.wait()
	for _, m := range c.members {
		m.crowd = c
	}
	for range events {
		f.wait()
		c.forget()
		c.after(func() { f.store.Put("k", "v") })
		f.wait()
		if !slices.Equal(c.order, ordered) {
			t.Fatal("the members received the batch in another order")
		}
		if c.far > 0 {
			t.Errorf("got %d batches sent without a prefetch", c.far)
		}
		total := 0
		for _, n := range c.counts {
			total += n
		}
		if total != queues*each || len(c.counts) > queues*each/10 {
			t.Fatalf("got %d deliveries counted in %d calls, want %d in a few", total, len(c.counts), queues*each)
		}
	}
}

// A watcher whose sink is full gets nothing until it is ready, then everything it has
// missed, and then the same batches as the others.
func TestFullSinkCatchesUpWhenItIsReady(t *testing.T) {
	f := startDispatching(t, limits{})
	c := f.gather(t, 3, feed.Interest{}, dispatch.Options{})
	slow := c.members[1]
	slow.full = true
	others := &crowd{members: []*member{c.members[0], c.members[2]}}
	for _, m := range others.members {
		m.crowd = others
	}
	for i := range 5 {
		others.after(func() { f.store.Put("k", fmt.Sprint(i)) })
	}
	f.wait()
	if slow.last != nil {
		t.Fatal("the full sink got a batch")
	}
	slow.full = false
	alone := &crowd{members: []*member{slow}}
	slow.crowd = alone
	alone.after(slow.Ready)
	if got, want := show(decode(t, slow.last.Message).Events), "+k=0 ~k=1 ~k=2 ~k=3 ~k=4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.wait()
	alone.received.Add(1)
	others.after(func() { f.store.Put("k", "5") })
	alone.received.Wait()
	if slow.last != others.members[0].last {
		t.Error("the watcher got another batch than the others")
	}
}

// Events that do not fit into one message follow in others, although nothing happens any
// more.
func TestBatchesContinueUntilEverythingIsSent(t *testing.T) {
	f := startDispatching(t, limits{messageBytes: 200})
	c := f.gather(t, 10, feed.Interest{}, everyDelivery...)
	writes := map[object.Key][]byte{}
	for i := range 10 {
		writes[object.Key(fmt.Sprint("key ", i))] = make([]byte, 50)
	}
	received := make(map[*member]int)
	c.each = func(m *member, b *feed.Batch) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if received[m] += b.Count; received[m] == 10 {
			c.received.Done()
		}
	}
	c.after(func() { f.store.Commit(writes) })
}

// Waiting watchers notice lost history, although no event concerns them.
func TestWaitingWatchersNoticeLostHistory(t *testing.T) {
	waiting := func(t *testing.T, do func(f *fixture)) *member {
		f := start(t, limits{})
		for range 10 {
			f.store.Put("other", "1") // so that revisions of the next epoch are smaller
		}
		synctest.Wait()
		c := &crowd{each: func(*member, *feed.Batch) {}}
		m := f.join(t, c, f.workers.NewQueue(), feed.Interest{Scope: object.ExactKey("quiet")}, dispatch.Options{EveryEvent: true})
		do(f)
		time.Sleep(time.Minute)
		<-m.done
		return m
	}
	t.Run("relist", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := waiting(t, func(f *fixture) {
				f.store.Change(func() { f.store.Quiet = true })
				f.store.Put("other", "1")
				at := f.store.Put("other", "2")
				f.store.Change(func() { f.store.Compacted, f.store.Quiet = at, false })
			})
			if _, lost := errors.AsType[*catchup.LostError](m.ended); !lost {
				t.Errorf("Serve returned %v, want a LostError", m.ended)
			}
		})
	})
	t.Run("epoch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := waiting(t, func(f *fixture) {
				f.store.Change(func() { f.store.Down = object.ErrUnavailable })
				synctest.Wait()
				f.store.Restart("e2")
				f.store.Put("other", "2")
				f.store.Change(func() { f.store.Down = nil })
			})
			if _, changed := errors.AsType[*catchup.EpochError](m.ended); !changed {
				t.Errorf("Serve returned %v, want an EpochError", m.ended)
			}
		})
	})
}

// A group keeps its members apart while some of them leave.
func TestGroupKeepsItsMembersApart(t *testing.T) {
	f := startDispatching(t, limits{})
	c := f.gather(t, 6, feed.Interest{}, dispatch.Options{})
	put := func(receivers ...*member) {
		t.Helper()
		now := &crowd{members: receivers}
		for _, m := range c.members {
			m.last, m.crowd = nil, now
		}
		now.after(func() { f.store.Put("k", "v") })
		f.wait()
		for i, m := range c.members {
			if (m.last != nil) != slices.Contains(receivers, m) {
				t.Errorf("member %d: got batch %v", i, m.last)
			}
		}
	}
	m := c.members
	m[0].full = true
	put(m[1], m[2], m[3], m[4], m[5])
	m[3].leave()
	put(m[1], m[2], m[4], m[5])
	for _, one := range m[1:5] {
		one.leave()
	}
	f.wait()
	put(m[5])
}

// A batch counts as a message for the bookmark interval.
func TestBatchesDelayTheNextBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		synctest.Wait()
		received := make(chan object.MessageKind, 10)
		c := &crowd{each: func(_ *member, b *feed.Batch) { received <- b.Header.Kind }}
		f.join(t, c, f.workers.NewQueue(), feed.Interest{}, dispatch.Options{BookmarkInterval: 10 * time.Second})
		time.Sleep(9 * time.Second)
		f.store.Put("k", "v")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n, kind := len(received), <-received; n != 1 || kind != object.Live {
			t.Errorf("got %d messages, the first of kind %v", n, kind)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n, kind := len(received), <-received; n != 1 || kind != object.Bookmark {
			t.Errorf("got %d messages, the first of kind %v", n, kind)
		}
	})
}

// A watcher with a batch delay joins its group. It gets events together, and no earlier
// than the delay after the previous message.
func TestBatchDelayHoldsEventsOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		synctest.Wait()
		received := make(chan int, 10)
		c := &crowd{each: func(_ *member, b *feed.Batch) { received <- b.Count }}
		f.join(t, c, f.workers.NewQueue(), feed.Interest{}, dispatch.Options{BatchDelay: time.Second})
		put := func() {
			f.store.Put("k", "v")
			synctest.Wait()
		}
		put()
		if n := len(received); n != 1 || <-received != 1 {
			t.Fatalf("got %d messages for a lone event, want 1", n)
		}
		put()
		put()
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if n := len(received); n != 0 {
			t.Fatalf("got %d messages within the delay, want none", n)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := len(received); n != 1 || <-received != 2 {
			t.Fatalf("got %d messages after the delay, want one with both events", n)
		}
		time.Sleep(time.Minute)
		put()
		if n := len(received); n != 1 || <-received != 1 {
			t.Fatalf("got %d messages for a later event, want 1", n)
		}
	})
}

// A panic in a sink ends its watcher only.
func TestPanicInASinkEndsOneWatcher(t *testing.T) {
	f := startDispatching(t, limits{})
	c := f.gather(t, 3, feed.Interest{}, dispatch.Options{})
	panics := c.members[1]
	c.each = func(m *member, _ *feed.Batch) {
		if m == panics {
			panic("bang")
		}
		c.received.Done()
	}
	c.received.Add(2)
	f.store.Put("k", "v")
	c.received.Wait()
	<-panics.done
	if _, ok := errors.AsType[*work.PanicError](panics.ended); !ok {
		t.Errorf("Serve returned %v, want a PanicError", panics.ended)
	}
	c.received.Add(2)
	f.store.Put("k", "w")
	c.received.Wait()
}

// A watcher sends a batch of its group if that is what it needs next.
func TestMatchingABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{messageBytes: 200})
		synctest.Wait()
		every, latest, strict := dispatch.Options{}, dispatch.Options{Latest: true}, dispatch.Options{EveryEvent: true}
		at := func(o dispatch.Options) *dispatch.Polled { return f.polled(t, feed.Interest{}, o) }
		take := func(w *dispatch.Polled, b *feed.Batch, want dispatch.Outcome) {
			t.Helper()
			if got := w.Take(b); got != want {
				t.Errorf("got outcome %d, want %d", got, want)
			}
		}
		put := func(key object.Key, value string) {
			f.store.Put(key, value)
			synctest.Wait()
		}

		first, second, behind, merges := at(every), at(strict), at(every), at(latest)
		put("a", "1")
		a := wantBatch(t, first, "+a=1")
		take(second, a, dispatch.Found)
		take(second, a, dispatch.Nothing)
		put("b", "1")
		b := wantBatch(t, first, "+b=1")
		take(behind, b, dispatch.Refused)
		take(second, b, dispatch.Found)
		half := at(every) // knows a and b
		put("a", "2")
		wantBatch(t, half, "~a=2")
		both := at(every)
		put("b", "2")
		all := wantBatch(t, first, "~a=2 ~b=2")
		take(half, all, dispatch.Refused)
		take(both, all, dispatch.Refused)
		take(second, all, dispatch.Found)
		take(merges, wantBatch(t, behind, "+a=1 +b=1 ~a=2 ~b=2"), dispatch.Refused)

		// A revision in parts.
		first, second, merges = at(every), at(every), at(latest)
		late := at(every)
		f.store.Put("other", "")
		writes := map[object.Key][]byte{}
		for i := range 9 {
			writes[object.Key(fmt.Sprint("key ", i))] = make([]byte, 50)
		}
		wantNext := func() *feed.Batch {
			t.Helper()
			part, outcome := first.Poll(time.Now())
			if outcome != dispatch.Found {
				t.Fatalf("got outcome %d", outcome)
			}
			return part
		}
		synctest.Wait()
		other := wantNext()
		for _, w := range []*dispatch.Polled{second, merges, late} {
			take(w, other, dispatch.Found)
		}
		f.store.Commit(writes)
		synctest.Wait()
		one, two := wantNext(), wantNext()
		if !one.Header.Partial || !two.Header.Partial {
			t.Fatal("the revision has fewer parts than the test needs")
		}
		take(second, one, dispatch.Found)
		take(merges, one, dispatch.Refused)
		take(late, two, dispatch.Refused)
		take(second, one, dispatch.Refused)
		take(second, two, dispatch.Found)
		take(second, two, dispatch.Refused)
	})
}
