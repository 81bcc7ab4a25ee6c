package dispatch_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
)

// fixture is a dispatcher with a real cacher of a store in memory.
type fixture struct {
	store      *cachertest.Memory
	cacher     *cacher.Cacher
	dispatcher *dispatch.Dispatcher
	encoder    *countingEncoder
	workers    *sendqueue.Workers // that serve the watchers
	stop       func()             // stops dispatching; may be called more than once
}

// countingEncoder is the real encoder, and counts its calls.
type countingEncoder struct {
	wire.Encoder
	events  atomic.Int64 // calls of AppendEvent
	objects atomic.Int64 // calls of AddedEvent
	hook    func()       // called by each AppendEvent, if set before anything is written
}

func (e *countingEncoder) AppendEvent(b []byte, event object.Event, v object.Projection) []byte {
	e.events.Add(1)
	if e.hook != nil {
		e.hook()
	}
	return e.Encoder.AppendEvent(b, event, v)
}

func (e *countingEncoder) AddedEvent(o *object.Object, v object.Projection) []byte {
	e.objects.Add(1)
	return e.Encoder.AddedEvent(o, v)
}

// limits are those of the cacher and the dispatcher. Zero is the default.
type limits struct {
	window        int // changes
	tombstones    int
	messageBytes  int
	logBytes      int
	catchUpBytes  int
	catchUpStates int
	codec         string
	observer      feed.Observer
}

func start(t testing.TB, l limits) *fixture {
	t.Helper()
	codec, err := object.CodecByName(cmp.Or(l.codec, "raw"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{store: cachertest.NewMemory(), encoder: &countingEncoder{}}
	f.cacher = cacher.New(cacher.Config{
		Resource:  "test",
		Store:     f.store,
		Codec:     codec,
		Preencode: wire.Preencode,
		Window:    cacher.WindowLimits{MaxChanges: l.window},

		MaxTombstones: l.tombstones,
		Log:           slog.New(slog.DiscardHandler),
	})
	f.dispatcher = dispatch.New(feed.Config{
		Source:        f.cacher,
		Encoder:       f.encoder,
		MessageBytes:  l.messageBytes,
		LogBytes:      l.logBytes,
		CatchUpBytes:  l.catchUpBytes,
		CatchUpStates: l.catchUpStates,
		Observer:      l.observer,
	})
	cacheCtx, stopCacher := context.WithCancel(context.Background())
	dispatchCtx, stopDispatcher := context.WithCancel(context.Background())
	var caching, dispatching sync.WaitGroup
	caching.Go(func() { f.cacher.Run(cacheCtx) })
	dispatching.Go(func() { f.dispatcher.Run(dispatchCtx) })
	<-f.cacher.Ready()
	f.stop = func() {
		stopDispatcher()
		dispatching.Wait()
	}
	f.workers = sendqueue.Start(1)
	t.Cleanup(func() {
		f.stop()
		f.workers.Stop()
		stopCacher()
		caching.Wait()
	})
	return f
}

// watcher records the messages that it receives.
type watcher struct {
	*dispatch.Pulled
	stream check.Stream
}

func (f *fixture) watch(t testing.TB, scope object.Scope, begin catchup.Begin) *watcher {
	t.Helper()
	return f.watchInterest(t, feed.Interest{Scope: scope}, begin)
}

func (f *fixture) watchInterest(t testing.TB, i feed.Interest, begin catchup.Begin) *watcher {
	t.Helper()
	return f.watchWith(t, i, begin, dispatch.Options{})
}

func (f *fixture) watchWith(t testing.TB, i feed.Interest, begin catchup.Begin, o dispatch.Options) *watcher {
	t.Helper()
	w := &watcher{Pulled: f.dispatcher.Pull(f.workers.NewQueue(), i, begin, o)}
	t.Cleanup(w.Close)
	return w
}

// errQuiet means that no message came within a second of fake time.
var errQuiet = errors.New("no message")

// receive returns the next message, or errQuiet.
func (w *watcher) receive(t testing.TB) (check.Message, error) {
	t.Helper()
	// The time is that of a bubble.
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errQuiet)
	defer cancel()
	raw, err := w.Next(ctx)
	if err != nil {
		if context.Cause(ctx) == errQuiet {
			err = errQuiet
		}
		return check.Message{}, err
	}
	m := decode(t, raw)
	w.stream.Messages = append(w.stream.Messages, m)
	return m, nil
}

// decode reads a message as a client does.
func decode(t testing.TB, raw feed.Message) check.Message {
	t.Helper()
	var response fanoutv1.WatchResponse
	if err := proto.Unmarshal(append(bytes.Join(raw.Events, nil), wire.AppendHeader(nil, raw.Header)...), &response); err != nil {
		t.Fatal(err)
	}
	m, err := recorded.Message(&response)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// next returns the next message, which must be of the kind.
func (w *watcher) next(t testing.TB, kind object.MessageKind) check.Message {
	t.Helper()
	m, err := w.receive(t)
	if err != nil {
		t.Fatalf("waiting for a message of kind %d: %v", kind, err)
	}
	if m.Kind != kind {
		t.Fatalf("got %+v, want kind %d", m, kind)
	}
	return m
}

// sync receives a whole catch-up, which must be of the kind, and returns its events.
func (w *watcher) sync(t testing.TB, kind object.CatchUpKind) []check.Event {
	t.Helper()
	if m := w.next(t, object.CatchUpBegin); m.CatchUp != kind {
		t.Fatalf("got catch-up %d, want %d", m.CatchUp, kind)
	}
	var events []check.Event
	for {
		m, err := w.receive(t)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == object.Synced {
			return events
		}
		events = append(events, m.Events...)
	}
}

// quiet fails the test if there is a message.
func (w *watcher) quiet(t testing.TB) {
	t.Helper()
	if m, err := w.receive(t); !errors.Is(err, errQuiet) {
		t.Fatalf("got %+v, %v; want no message", m, err)
	}
}

// show returns events in short: +key added, ~key modified, -key deleted.
func show(events []check.Event) string {
	all := make([]string, len(events))
	for i, e := range events {
		all[i] = map[object.EventType]string{object.Added: "+", object.Modified: "~", object.Deleted: "-"}[e.Type] + string(e.Object.Key)
		if e.Type != object.Deleted {
			all[i] += "=" + string(e.Object.Value)
		}
	}
	return strings.Join(all, " ")
}

func prefix(t testing.TB, path string) object.Scope {
	t.Helper()
	scope, err := object.ParsePrefix(path)
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

// truth returns the history of the store for the checkers.
func (f *fixture) truth(t testing.TB) *check.Truth {
	t.Helper()
	var changes []check.Change
	for i, records := range f.store.History() {
		for _, r := range records {
			c := check.Change{Revision: object.Revision(i + 1), Key: r.Key}
			if !r.Deleted {
				c.New = &object.Decoded{
					Key: r.Key, Value: r.Value, ContentType: object.ContentBinary,
					CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: r.Version,
				}
			}
			changes = append(changes, c)
		}
	}
	truth, err := check.NewTruth(changes, f.store.Now())
	if err != nil {
		t.Fatal(err)
	}
	return truth
}
