package direct_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

func contextFor(t testing.TB) context.Context {
	return poll.Context(t)
}

const etcdPrefix = "/test/"

// fixture is a source over a real etcd, with a client of that etcd.
type fixture struct {
	*direct.Source
	codec  object.Codec
	store  *store.Collection
	client *clientv3.Client
}

// collection returns the keys of the tests. Their values are not encrypted.
func collection(s *store.Store) *store.Collection {
	return s.Collection("test", etcdPrefix, crypt.NewKeyring(slog.New(slog.DiscardHandler)).Values(false))
}

// newFixture returns a source over a store.
func newFixture(t testing.TB, s *store.Store, address string, cfg direct.Config) *fixture {
	t.Helper()
	codec, err := object.CodecByName("object")
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: poll.Patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	f := &fixture{codec: codec, store: collection(s), client: client}
	if cfg.Store == nil {
		cfg.Store = f.store
	}
	cfg.Resource, cfg.Codec, cfg.Preencode, cfg.Encoder = "test", codec, wire.Preencode, wire.Encoder{}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	f.Source = direct.New(cfg)
	return f
}

// start returns a source over an embedded etcd.
func start(t testing.TB, cfg direct.Config) *fixture {
	t.Helper()
	return startWrapped(t, cfg, nil)
}

// startWrapped is start with a wrapped store.
func startWrapped(t testing.TB, cfg direct.Config, wrap func(direct.Store) direct.Store) *fixture {
	t.Helper()
	address := loopback.FreeAddress(t)
	s, err := store.OpenEmbedded(t.Context(), store.EmbeddedConfig{
		Dir: filepath.Join(t.TempDir(), "data"), ListenClient: address, UnsafeNoFsync: true,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	if wrap != nil {
		cfg.Store = wrap(collection(s))
	}
	return newFixture(t, s, address, cfg)
}

// startProcess returns a source over an etcd in a process of its own, which can be killed.
func startProcess(t testing.TB, cfg direct.Config) (*fixture, *etcdproc.Member) {
	t.Helper()
	m := etcdproc.StartMember(t, "http")
	s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{m.Address}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return newFixture(t, s, m.Address, cfg), m
}

func closeStore(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// put returns the operation that stores a value with labels.
func (f *fixture) put(key, value string, labels map[string]string) object.Op {
	stored, err := f.codec.Encode(object.Content{Value: []byte(value), ContentType: object.ContentText, Labels: labels})
	if err != nil {
		panic(err)
	}
	return object.Op{Kind: object.OpPut, Key: object.Key(key), Value: stored}
}

func remove(key string) object.Op { return object.Op{Kind: object.OpDelete, Key: object.Key(key)} }

func (f *fixture) commit(t testing.TB, ops ...object.Op) object.Revision {
	t.Helper()
	done, err := f.store.Commit(contextFor(t), ops)
	if err != nil {
		t.Fatal(err)
	}
	return done.Revision
}

func (f *fixture) position(t testing.TB) object.Position {
	t.Helper()
	p, err := f.Position(contextFor(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compact compacts etcd at the revision.
func (f *fixture) compact(t testing.TB, at object.Revision) {
	t.Helper()
	if _, err := f.client.Compact(contextFor(t), int64(at)); err != nil {
		t.Fatal(err)
	}
}

// watcher records the messages of a watcher.
type watcher struct {
	*direct.Reader
	stream check.Stream
}

func (f *fixture) watch(t testing.TB, i feed.Interest, b catchup.Begin, o dispatch.Options) *watcher {
	t.Helper()
	w, err := f.Watch(contextFor(t), i, b, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return &watcher{Reader: w}
}

// receive returns the next message.
func (w *watcher) receive(ctx context.Context) (check.Message, error) {
	raw, err := w.Next(ctx)
	if err != nil {
		return check.Message{}, err
	}
	var response fanoutv1.WatchResponse
	if err := proto.Unmarshal(append(bytes.Join(raw.Events, nil), wire.AppendHeader(nil, raw.Header)...), &response); err != nil {
		return check.Message{}, err
	}
	m, err := recorded.Message(&response)
	if err == nil {
		w.stream.Messages = append(w.stream.Messages, m)
	}
	return m, err
}

// next returns the next message, which must be of the kind.
func (w *watcher) next(t testing.TB, kind object.MessageKind) check.Message {
	t.Helper()
	m, err := w.receive(contextFor(t))
	if err != nil {
		t.Fatalf("message: got %v, want one of kind %d", err, kind)
	}
	if m.Kind != kind {
		t.Fatalf("message: got %+v, want one of kind %d", m, kind)
	}
	return m
}

// begins receives a message, which must announce the catch-up.
func (w *watcher) begins(t testing.TB, want object.CatchUpKind) {
	t.Helper()
	if m := w.next(t, object.CatchUpBegin); m.CatchUp != want {
		t.Fatalf("catch-up: got %d, want %d", m.CatchUp, want)
	}
}

// ends reads until the watch ends and returns the error, which must be of type E.
func ends[E error](t testing.TB, w *watcher) E {
	t.Helper()
	for {
		_, err := w.receive(contextFor(t))
		if err == nil {
			continue
		}
		want, ok := errors.AsType[E](err)
		if !ok {
			t.Fatalf("end of the watch: got %v, want %T", err, want)
		}
		return want
	}
}

// labelled returns the interest in the objects of a scope with these labels.
func labelled(t testing.TB, scope object.Scope, labels string) feed.Interest {
	t.Helper()
	s, err := selector.ParseLabels(labels)
	if err != nil {
		t.Fatal(err)
	}
	return feed.Interest{Scope: scope, Selector: s}
}

func below(t testing.TB, path string) object.Scope {
	t.Helper()
	s, err := object.ParsePrefix(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// show returns the events of a message in short form.
func show(m check.Message) string {
	var all []string
	for i := range m.Events {
		all = append(all, m.Events[i].String())
	}
	return strings.Join(all, " ")
}
