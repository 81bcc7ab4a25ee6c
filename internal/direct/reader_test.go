package direct_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/poll"
)

func TestSnapshotThenLive(t *testing.T) {
	f := start(t, direct.Config{PageSize: 2})
	for i := range 5 {
		f.commit(t, f.put(fmt.Sprintf("a/%d", i), "v", nil), f.put(fmt.Sprintf("b/%d", i), "v", nil))
	}
	w := f.watch(t, feed.Interest{Scope: below(t, "a")}, catchup.FromSnapshot(0), dispatch.Options{})
	w.begins(t, object.Reset)
	var got []string
	for m := w.next(t, object.CatchUpPart); ; {
		got = append(got, show(m))
		var err error
		if m, err = w.receive(contextFor(t)); err != nil {
			t.Fatal(err)
		}
		if m.Kind == object.Synced {
			break
		}
	}
	base := f.position(t).Revision - 5
	want := fmt.Sprintf("+a/0@%d +a/1@%d +a/2@%d +a/3@%d +a/4@%d", base+1, base+2, base+3, base+4, base+5)
	if all := strings.Join(got, " "); all != want {
		t.Errorf("snapshot: got %s, want %s", all, want)
	}
	at := f.commit(t, f.put("a/1", "w", nil), remove("a/2"), f.put("b/1", "w", nil))
	if m := w.next(t, object.Live); show(m) != fmt.Sprintf("~a/1@%d -a/2@%d", at, at) || m.Position.Revision != at {
		t.Errorf("got %s at %d", show(m), m.Position.Revision)
	}
}

func TestObjectsAtRevisions(t *testing.T) {
	f := start(t, direct.Config{PageSize: 2})
	ctx := contextFor(t)
	var at object.Revision
	for _, key := range []string{"a", "a/1", "a/2", "a/3", "ab", "b"} {
		at = f.commit(t, f.put(key, key, nil))
	}
	f.commit(t, remove("a/1"), f.put("a/2", "new", nil))
	read := func(at object.Revision, scope object.Scope, start object.Key) string {
		var keys []string
		for o, err := range f.Objects(ctx, at, scope, start) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, string(o.Key)+"="+string(wire.Decode(o).Value))
		}
		return strings.Join(keys, " ")
	}
	now := f.position(t).Revision
	for _, test := range []struct {
		at    object.Revision
		scope object.Scope
		start object.Key
		want  string
	}{
		{at, object.Scope{}, "", "a=a a/1=a/1 a/2=a/2 a/3=a/3 ab=ab b=b"},
		{now, object.Scope{}, "", "a=a a/2=new a/3=a/3 ab=ab b=b"},
		{now, object.Scope{}, "a/3", "a/3=a/3 ab=ab b=b"},
		{now, below(t, "a"), "", "a/2=new a/3=a/3"},
		{now, below(t, "a"), "a/20", "a/3=a/3"},
		{at, object.ExactKey("a"), "", "a=a"},
		{at, object.ExactKey("a"), "a/1", ""},
		{now, object.ExactKey("a/1"), "", ""},
	} {
		if got := read(test.at, test.scope, test.start); got != test.want {
			t.Errorf("objects of %v from %q at %d: got %s, want %s", test.scope, test.start, test.at, got, test.want)
		}
	}
	f.compact(t, now)
	for _, err := range f.Objects(ctx, at, object.Scope{}, "") {
		if !errors.Is(err, object.ErrCompacted) {
			t.Errorf("read of a compacted revision: got %v, want %v", err, object.ErrCompacted)
		}
	}
	if p, err := f.Position(ctx, now); err != nil || p.Revision != now || p.Epoch == "" {
		t.Errorf("position: got %v (%v), want revision %d", p, err, now)
	}
	var future *cacher.FutureError
	if _, err := f.Position(ctx, now+1); !errors.As(err, &future) || future.Asked != now+1 || future.Current != now {
		t.Errorf("position in the future: got %v, want revision %d of %d", err, now+1, now)
	}
}

func TestWatchBeginsWhereItWasAsked(t *testing.T) {
	f := start(t, direct.Config{})
	first := f.commit(t, f.put("k", "1", nil))
	for i := range 4 {
		f.commit(t, f.put("k", fmt.Sprint(i+2), nil))
	}
	epoch := f.position(t).Epoch
	at := func(r object.Revision) object.Position { return object.Position{Epoch: epoch, Revision: r} }
	every := dispatch.Options{EveryEvent: true}

	w := f.watch(t, feed.Interest{}, catchup.FromPosition(at(first+2)), every)
	w.begins(t, object.Replay)
	if m := w.next(t, object.CatchUpPart); show(m) != fmt.Sprintf("~k@%d ~k@%d", first+3, first+4) {
		t.Errorf("replay: got %s", show(m))
	}
	w.next(t, object.Synced)

	w = f.watch(t, feed.Interest{}, catchup.FromPosition(at(first+4)), every)
	w.begins(t, object.Replay)
	w.next(t, object.Synced)

	w = f.watch(t, feed.Interest{}, catchup.FromNow(object.Position{}), every)
	if m := w.next(t, object.Bookmark); m.Position != at(first+4) {
		t.Errorf("now: got %v, want %v", m.Position, at(first+4))
	}

	w = f.watch(t, feed.Interest{}, catchup.FromExactly(first+1), every)
	w.begins(t, object.Reset)
	if m := w.next(t, object.CatchUpPart); show(m) != fmt.Sprintf("+k@%d", first+1) {
		t.Errorf("snapshot: got %s", show(m))
	}
	if m := w.next(t, object.Synced); m.Position != at(first+1) {
		t.Errorf("position of the snapshot: got %v, want %v", m.Position, at(first+1))
	}
	if m := w.next(t, object.Live); show(m) != fmt.Sprintf("~k@%d ~k@%d ~k@%d", first+2, first+3, first+4) {
		t.Errorf("events after the snapshot: got %s", show(m))
	}

	var future *cacher.FutureError
	if _, err := f.Watch(contextFor(t), feed.Interest{}, catchup.FromPosition(at(first+5)), every); !errors.As(err, &future) {
		t.Errorf("position ahead of the store: got %v, want a FutureError", err)
	}
	elsewhere := catchup.FromPosition(object.Position{Epoch: "elsewhere", Revision: first + 100})
	f.watch(t, feed.Interest{}, elsewhere, dispatch.Options{}).begins(t, object.Reset)
	if err := ends[*catchup.EpochError](t, f.watch(t, feed.Interest{}, elsewhere, every)); err.Asked != "elsewhere" || err.Current != at(first+4) {
		t.Errorf("error: got %+v", err)
	}

	f.compact(t, first+3)
	f.watch(t, feed.Interest{}, catchup.FromPosition(at(first+3)), dispatch.Options{}).begins(t, object.Replay)
	f.watch(t, feed.Interest{}, catchup.FromPosition(at(first+2)), dispatch.Options{}).begins(t, object.Reset)
	lost := &catchup.LostError{Asked: first + 2, Oldest: first + 3, Current: first + 4}
	if err := ends[*catchup.LostError](t, f.watch(t, feed.Interest{}, catchup.FromPosition(at(first+2)), every)); *err != *lost {
		t.Errorf("error: got %+v, want %+v", err, lost)
	}
	if err := ends[*catchup.LostError](t, f.watch(t, feed.Interest{}, catchup.FromExactly(first+2), dispatch.Options{})); *err != *lost {
		t.Errorf("error: got %+v, want %+v", err, lost)
	}
}

// A client that reads a snapshot more slowly than the store compacts gets another snapshot.
// The third time the watch ends with an error, so there is no endless series of snapshots.
func TestHonestAboutExpiredSnapshots(t *testing.T) {
	f := start(t, direct.Config{PageSize: 1})
	f.commit(t, f.put("a", "1", nil), f.put("b", "1", nil))
	forget := func() object.Revision {
		at := f.commit(t, f.put("a", "2", nil))
		f.compact(t, at)
		return at
	}
	w := f.watch(t, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{})
	for range 2 {
		w.begins(t, object.Reset)
		w.next(t, object.CatchUpPart)
		forget()
	}
	w.begins(t, object.Reset)
	for range 2 {
		w.next(t, object.CatchUpPart)
	}
	w.next(t, object.Synced) // a complete snapshot resets the count
	w.Close()

	w = f.watch(t, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{})
	var asked, now object.Revision
	for range 3 {
		w.begins(t, object.Reset)
		w.next(t, object.CatchUpPart)
		asked, now = f.position(t).Revision, forget()
	}
	if err := ends[*catchup.LostError](t, w); *err != (catchup.LostError{Asked: asked, Oldest: now, Current: now}) {
		t.Errorf("error: got %+v", err)
	}
}

// The type of an event depends on what the watcher saw before.
func TestEventTypesFollowTheSelector(t *testing.T) {
	f := start(t, direct.Config{})
	label := func(color string) map[string]string { return map[string]string{"color": color} }
	interest := labelled(t, object.Scope{}, "color=red")
	interest.Projection.Previous = true
	w := f.watch(t, interest, catchup.FromNow(object.Position{}), dispatch.Options{})
	w.next(t, object.Bookmark)
	want := func(want string) check.Message {
		t.Helper()
		m := w.next(t, object.Live)
		if show(m) != want {
			t.Errorf("got %s, want %s", show(m), want)
		}
		return m
	}
	f.commit(t, f.put("k", "1", label("blue")))
	want(fmt.Sprintf("+k@%d", f.commit(t, f.put("k", "2", label("red")))))
	if m := want(fmt.Sprintf("~k@%d", f.commit(t, f.put("k", "3", label("red"))))); string(m.Events[0].Previous.Value) != "2" {
		t.Errorf("previous: got %+v, want value 2", m.Events[0].Previous)
	}
	if m := want(fmt.Sprintf("-k@%d", f.commit(t, f.put("k", "4", label("blue"))))); string(m.Events[0].Object.Value) != "3" {
		t.Errorf("object that no longer matches: got %+v, want value 3", m.Events[0].Object)
	}
	f.commit(t, remove("k"))
	f.commit(t, f.put("k", "5", label("red")))
	w.next(t, object.Live)
	want(fmt.Sprintf("-k@%d", f.commit(t, remove("k"))))
}

// A revision that is larger than a message comes in parts, which are marked partial.
func TestLargeRevisionIsSplit(t *testing.T) {
	f := start(t, direct.Config{MessageBytes: 1000})
	w := f.watch(t, feed.Interest{}, catchup.FromNow(object.Position{}), dispatch.Options{})
	before := w.next(t, object.Bookmark).Position
	var ops []object.Op
	for i := range 10 {
		ops = append(ops, f.put(fmt.Sprint(i), strings.Repeat("x", 300), nil))
	}
	at := f.commit(t, ops...)
	for events := 0; events < len(ops); {
		m := w.next(t, object.Live)
		events += len(m.Events)
		last := events == len(ops)
		if m.Partial == last || last != (m.Position.Revision == at) || !last && m.Position != before {
			t.Errorf("after %d events: got partial %v at %v", events, m.Partial, m.Position)
		}
	}
}

// Bookmarks of a quiet resource follow the writes to other resources. The last bookmark
// comes before the end of the watch.
func TestBookmarks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	f := start(t, direct.Config{})
	w := f.watch(t, feed.Interest{Scope: below(t, "quiet")}, catchup.FromNow(object.Position{}), dispatch.Options{BookmarkInterval: 100 * time.Millisecond})
	last := w.next(t, object.Bookmark).Position
	for range 3 {
		at := f.commit(t, f.put("busy", "v", nil))
		// The first bookmark may be older than the write, the second must not be.
		w.next(t, object.Bookmark)
		if last = w.next(t, object.Bookmark).Position; last.Revision < at {
			t.Errorf("second bookmark after revision %d: got revision %d", at, last.Revision)
		}
	}
	// Without any write the position stays.
	if m := w.next(t, object.Bookmark); m.Position != last {
		t.Errorf("bookmark: got %v, want %v", m.Position, last)
	}

	w = f.watch(t, feed.Interest{}, catchup.FromNow(object.Position{}), dispatch.Options{LastBookmark: time.Now().Add(50 * time.Millisecond)})
	w.next(t, object.Bookmark)
	w.next(t, object.Bookmark)
	// Nothing comes, however long this waits.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if m, err := w.receive(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the last bookmark: got %+v (%v), want nothing", m, err)
	}
}

// Events that happen during the batch delay arrive in one message.
func TestBatchDelay(t *testing.T) {
	f := start(t, direct.Config{})
	unhurried(t, func(delay time.Duration) error {
		w := f.watch(t, feed.Interest{}, catchup.FromNow(object.Position{}), dispatch.Options{BatchDelay: delay})
		w.next(t, object.Bookmark)
		f.commit(t, f.put("k", "0", nil))
		w.next(t, object.Live)
		for i := range 3 {
			f.commit(t, f.put("k", fmt.Sprint(i+1), nil))
		}
		if m := w.next(t, object.Live); len(m.Events) != 3 {
			return fmt.Errorf("message after the delay: got %s, want three events", show(m))
		}
		return nil
	})
}

// A batch delay does not make a watch look dead: a client that asked for bookmarks gets a
// message in every interval.
func TestHonestWithADelayLongerThanTheBookmarkInterval(t *testing.T) {
	f := start(t, direct.Config{})
	w := f.watch(t, feed.Interest{}, catchup.FromNow(object.Position{}), dispatch.Options{BatchDelay: 2 * poll.Patience, BookmarkInterval: 100 * time.Millisecond})
	w.next(t, object.Bookmark)
	at := f.commit(t, f.put("k", "0", nil))
	w.next(t, object.Live)
	if m := w.next(t, object.Bookmark); m.Position.Revision != at {
		t.Errorf("bookmark: got %v, want revision %d", m.Position, at)
	}
}

func TestLatestMergesPendingEvents(t *testing.T) {
	f := start(t, direct.Config{})
	unhurried(t, func(delay time.Duration) error {
		f.commit(t, f.put("changed", "0", nil), f.put("deleted", "0", nil), f.put("replaced", "0", nil), remove("new"))
		w := f.watch(t, feed.Interest{}, catchup.FromPosition(f.position(t)), dispatch.Options{Latest: true, BatchDelay: delay})
		w.begins(t, object.Replay)
		w.next(t, object.Synced)
		f.commit(t, f.put("first", "1", nil))
		w.next(t, object.Live)
		f.commit(t, f.put("passing", "1", nil), f.put("changed", "1", nil), remove("replaced"))
		f.commit(t, remove("passing"), f.put("changed", "2", nil), f.put("deleted", "2", nil), f.put("new", "2", nil))
		at := f.commit(t, remove("deleted"), f.put("new", "3", nil), f.put("replaced", "3", nil))
		if m := w.next(t, object.Live); show(m) != fmt.Sprintf("~changed@%d -deleted@%d +new@%d ~replaced@%d", at-1, at, at, at) || m.Position.Revision != at {
			return fmt.Errorf("merged events: got %s at %d", show(m), m.Position.Revision)
		}
		return nil
	})
}

// Pending events are merged however many there are, if the merged ones fit into the buffer.
func TestLatestMergesMoreThanTheBuffer(t *testing.T) {
	f, store := startTapped(t, direct.Config{BufferBytes: 10 << 10})
	f.commit(t, f.put("changed", "0", nil), f.put("deleted", "0", nil))
	w := f.watch(t, feed.Interest{}, catchup.FromPosition(f.position(t)), dispatch.Options{Latest: true})
	w.begins(t, object.Replay)
	w.next(t, object.Synced)
	first := f.commit(t, remove("deleted"), f.put("passing", "0", nil))
	value := strings.Repeat("x", 1000)
	for range 100 {
		f.commit(t, f.put("changed", value, nil))
	}
	last := f.commit(t, remove("passing"))
	store.await(t, last)
	if m := w.next(t, object.Live); show(m) != fmt.Sprintf("-deleted@%d ~changed@%d", first, last-1) || m.Position.Revision != last {
		t.Errorf("merged events: got %s at %d", show(m), m.Position.Revision)
	}
}

// A replay contains the deletion of an object that was created and deleted since: the
// client may know the object from a part of a message that was cut off.
func TestLatestReplayDeletesPassingObjects(t *testing.T) {
	f, store := startTapped(t, direct.Config{})
	from := f.position(t)
	w := f.watch(t, feed.Interest{}, catchup.FromPosition(from), dispatch.Options{Latest: true})
	w.begins(t, object.Replay)
	w.next(t, object.Synced)
	f.commit(t, f.put("passing", "0", nil))
	last := f.commit(t, remove("passing"))
	store.await(t, last)
	f.commit(t, f.put("k", "0", nil))
	if m := w.next(t, object.Live); show(m) != fmt.Sprintf("+k@%d", last+1) {
		t.Errorf("live: got %s", show(m))
	}
	w = f.watch(t, feed.Interest{}, catchup.FromPosition(from), dispatch.Options{Latest: true})
	w.begins(t, object.Replay)
	var all []string
	for {
		m, err := w.receive(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == object.Synced {
			break
		}
		all = append(all, show(m))
	}
	if got := strings.Join(all, " "); !strings.Contains(got, fmt.Sprintf("-passing@%d", last)) {
		t.Errorf("replay: got %s, want the deletion of \"passing\"", got)
	}
}

// A value that does not decode is served unchanged. Its key is logged once, each version is counted
// once.
func TestOpaqueValuesAreServedUnchanged(t *testing.T) {
	var log bytes.Buffer
	f := start(t, direct.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	f.commit(t, object.Op{Kind: object.OpPut, Key: "k", Value: []byte("plain")})
	const versions = 3
	for i := range versions {
		for range 2 {
			w := f.watch(t, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{})
			w.begins(t, object.Reset)
			if o := w.next(t, object.CatchUpPart).Events[0].Object; !o.Opaque || string(o.Value) != "plain" {
				t.Errorf("object: got %+v, want an opaque one", o)
			}
		}
		if n := strings.Count(log.String(), "cannot decode value"); n != 1 || f.Opaque() != int64(i+1) {
			t.Errorf("log lines and count: got %d and %d, want 1 and %d", n, f.Opaque(), i+1)
		}
		f.commit(t, object.Op{Kind: object.OpPut, Key: "k", Value: []byte("plain")})
	}
}

// A client that does not read holds a position and a limited buffer, however much is
// written.
func TestClientThatDoesNotReadCostsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	f, _ := startProcess(t, direct.Config{BufferBytes: 1 << 20})
	value := strings.Repeat("x", 1_000_000)
	var idle []*watcher
	for range 3 {
		w := f.watch(t, feed.Interest{}, catchup.FromNow(object.Position{}), dispatch.Options{})
		w.next(t, object.Bookmark)
		idle = append(idle, w)
	}
	before := heap()
	const writes = 24
	var last object.Revision
	for range writes {
		last = f.commit(t, f.put("k", value, nil))
	}
	if grown := heap() - before; grown > writes*int64(len(value)) {
		t.Errorf("growth of the heap: got %d MiB, want less than what was written", grown>>20)
	}
	for _, w := range idle {
		for events := 0; events < writes; {
			events += len(w.next(t, object.Live).Events)
		}
		if w.Position().Revision != last {
			t.Errorf("position: got %v, want revision %d", w.Position(), last)
		}
	}
}

// The size of a page does not grow with the values. It is the memory of a client that stops
// reading half-way through its snapshot.
func TestBoundedPages(t *testing.T) {
	const objects, small = 450, 150 // without a limit, all of them would be one page
	f, store := startTapped(t, direct.Config{})
	var ops []object.Op
	bytes := 0
	for i := range objects {
		size := 20 << 10
		if i >= small {
			size = 100 << 10
		}
		ops = append(ops, f.put(fmt.Sprintf("%04d", i), strings.Repeat("x", size), nil))
		if bytes += size; bytes >= 1<<20 || i+1 == objects {
			f.commit(t, ops...)
			ops, bytes = nil, 0
		}
	}
	read := 0
	for _, err := range f.Objects(contextFor(t), f.position(t).Revision, object.Scope{}, "") {
		if err != nil {
			t.Fatal(err)
		}
		read++
	}
	if read != objects {
		t.Errorf("objects: got %d, want %d", read, objects)
	}
	for i, bytes := range store.pages {
		// The sizes in the first page are unknown, and the values grow within another.
		if limit := 6 * (4 << 20); bytes > limit {
			t.Errorf("page %d of %d: got %d KiB, want at most %d", i, len(store.pages), bytes>>10, limit>>10)
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A restart of etcd only delays events.
func TestWatchContinuesAfterEtcdRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	f, m := startProcess(t, direct.Config{})
	f.commit(t, f.put("k", "0", nil))
	w := f.watch(t, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{})
	w.begins(t, object.Reset)
	w.next(t, object.CatchUpPart)
	w.next(t, object.Synced)
	for i := range 3 {
		m.Kill(t)
		m.Start(t)
		if _, err := f.client.Put(contextFor(t), etcdPrefix+"k", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		if m := w.next(t, object.Live); !strings.HasPrefix(show(m), "~k@") {
			t.Errorf("got %s", show(m))
		}
	}
}

// There are no bookmarks while etcd is away.
func TestNoBookmarksWithoutEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	f, m := startProcess(t, direct.Config{})
	w := f.watch(t, feed.Interest{}, catchup.FromNow(object.Position{}), dispatch.Options{BookmarkInterval: 50 * time.Millisecond})
	w.next(t, object.Bookmark)
	w.next(t, object.Bookmark)
	m.Kill(t)
	// Nothing comes, however long this waits.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	bookmarks := 0
	for ; ; bookmarks++ {
		if _, err := w.receive(ctx); err != nil {
			break
		}
	}
	if bookmarks > 1 { // etcd may have confirmed one before it was killed
		t.Errorf("bookmarks while etcd is away: got %d, want at most 1", bookmarks)
	}
	m.Start(t)
	w.next(t, object.Bookmark)
}

// After etcd is restored from a backup, a watch gets a RESET. A watch that wants every event
// ends.
func TestRestoredEtcdCausesAReset(t *testing.T) {
	f, m := startProcess(t, direct.Config{})
	f.commit(t, f.put("kept", "0", nil))
	backup := m.Snapshot(t)
	f.commit(t, f.put("lost", "0", nil))
	watchers := map[bool]*watcher{}
	for _, every := range []bool{false, true} {
		w := f.watch(t, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{EveryEvent: every})
		w.begins(t, object.Reset)
		w.next(t, object.CatchUpPart)
		w.next(t, object.Synced)
		watchers[every] = w
	}
	before := watchers[false].Position()
	m.Kill(t)
	m.Restore(t, backup)
	m.Start(t)

	w := watchers[false]
	w.begins(t, object.Reset)
	if m := w.next(t, object.CatchUpPart); len(m.Events) != 1 || m.Events[0].Object.Key != "kept" {
		t.Errorf("snapshot: got %s", show(m))
	}
	w.next(t, object.Synced)
	after := w.Position()
	if after.Epoch == before.Epoch {
		t.Errorf("epoch: got %s again, want a new one", after.Epoch)
	}
	if err := ends[*catchup.EpochError](t, watchers[true]); err.Asked != before.Epoch || err.Current.Epoch != after.Epoch {
		t.Errorf("error: got %+v", err)
	}
}

func TestHealthFollowsTheStore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	f, m := startProcess(t, direct.Config{ReadWait: 500 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	defer func() { <-done }()
	defer stop()
	await := func(what string, want func() bool) {
		t.Helper()
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for giveUp := contextFor(t); !want(); {
			select {
			case <-ticker.C:
			case <-giveUp.Done():
				t.Fatalf("the source is not %s", what)
			}
		}
	}
	await("following", func() bool { return f.Loaded() && f.Following() })
	m.Kill(t)
	await("disconnected", func() bool { return f.Loaded() && !f.Following() })
	if _, err := f.Watch(contextFor(t), feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{}); !errors.Is(err, object.ErrUnavailable) {
		t.Errorf("watch without a store: got %v, want %v", err, object.ErrUnavailable)
	}
	m.Start(t)
	await("following", f.Following)
}
