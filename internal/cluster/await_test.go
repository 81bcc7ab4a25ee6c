package cluster

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// awaiting is a server without data in Await.
type awaiting struct {
	done chan struct{}
	got  Beginning // when done is closed
	err  error     // when done is closed

	mu  sync.Mutex
	now Awaited // guarded by mu
}

// await starts Await for a server of a list, which leaves others out.
func await(t *testing.T, ctx context.Context, list List, name string, without ...string) *awaiting {
	t.Helper()
	w := &awaiting{done: make(chan struct{})}
	own, _ := list.Get(name)
	cfg := Config{
		List: list, Name: name, DataDir: t.TempDir(), Listen: own.Peer, Log: slog.New(slog.DiscardHandler),
		OnWait: func(now Awaited) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.now = now
		},
	}
	if len(without) > 0 {
		if err := Form(cfg.DataDir, without); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		defer close(w.done)
		w.got, w.err = Await(ctx, cfg)
	}()
	return w
}

// waitsFor waits until the reason to wait begins with a text.
func (w *awaiting) waitsFor(t *testing.T, text string) {
	t.Helper()
	poll.Until(t, "the server waits for "+text, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.HasPrefix(w.now.Reason, text)
	})
}

// Two servers that leave each other out agree on one founder. The other one does not found while the founder is silent
// because its etcd is about to start.
func TestServersThatLeaveEachOtherOut(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	var list List
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		list = append(list, Server{Name: name, Peer: loopback.FreeAddress(t), Client: "127.0.0.1:1"})
	}
	ctx, stop := context.WithCancel(t.Context())
	first, second := await(t, ctx, list, "node-1", "node-2"), await(t, ctx, list, "node-2", "node-1")
	first.waitsFor(t, "node-3 (")
	second.waitsFor(t, "node-3 (")
	third := await(t, ctx, list, "node-3")
	<-first.done
	if first.err != nil || first.got.Action != Found {
		t.Errorf("got %+v, %v", first.got, first.err)
	}
	second.waitsFor(t, "node-1 (")
	third.waitsFor(t, "node-1 (")
	stop()
	for _, w := range []*awaiting{second, third} {
		if <-w.done; !errors.Is(w.err, context.Canceled) {
			t.Errorf("got %+v, %v", w.got, w.err)
		}
	}
}
