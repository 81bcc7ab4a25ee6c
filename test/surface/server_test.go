package surface

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// variable sets how long each test runs.
const variable = "FANOUTD_FUZZ"

// server is the server under attack, and a well-behaved client of it.
type server struct {
	t       *testing.T
	address string
	admin   string // address of the HTTP listener
	until   time.Time

	client  *client.Client
	witness *witness

	goroutines int
	heap       uint64
}

// serve starts a server.
func serve(t *testing.T) *server {
	t.Helper()
	cfg := inprocess.Config(t)
	cfg.MaxConnectionRate = 0      // a fuzzer does not wait
	cfg.EmbeddedEtcdUnsafe = false // its fast start makes etcd log an error
	cfg.AdminListen = loopback.FreeAddress(t)
	plain, documents := config.NewResource("plain"), config.NewResource("documents")
	plain.Cache = false
	documents.Codec = "json"
	documents.Fields = []config.Field{{Name: "region", Path: "region", Indexed: true}, {Name: "host", Path: "backend.host_name"}}
	cfg.Resources = []config.Resource{config.NewResource("config"), plain, documents}
	inprocess.StartLogging(t, cfg, slog.New(errorHandler{t}))
	s := &server{t: t, address: cfg.Listen, admin: cfg.AdminListen}
	var err error
	if s.client, err = client.New(s.address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.client.Close() })
	s.witness = observe(t, s.client.Resource("config"))
	s.mark("beginning")
	if given := os.Getenv(variable); given != "" {
		d, err := time.ParseDuration(given)
		if err != nil {
			t.Fatal(err)
		}
		s.until = time.Now().Add(d)
	}
	s.goroutines, s.heap = runtime.NumGoroutine(), heap()
	return s
}

// more reports whether the n-th attack should still run: the first least attacks always
// do.
func (s *server) more(n, least int) bool {
	if s.until.IsZero() {
		return n < least
	}
	return n < least || time.Now().Before(s.until)
}

// heap returns the number of reachable bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // frees what finalizers and pools released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// mark writes an object and waits until the witness has seen it.
func (s *server) mark(value string) {
	s.t.Helper()
	ctx := poll.Context(s.t)
	revision, err := s.client.Resource("config").Put(ctx, "witness", client.Text(value))
	if err != nil {
		s.t.Fatalf("the well-behaved client cannot write: %v", err)
	}
	select {
	case <-s.witness.reached(revision):
	case <-ctx.Done():
		s.t.Fatal("the well-behaved client did not receive a change")
	}
}

// An attack may leave this much behind: the objects that it has written, their history, and
// etcd's buffers that grow with use. The attacks send a hundred times as much.
const (
	spareHeap       = 48 << 20
	spareGoroutines = 20
)

// settle checks that the attack has left nothing behind.
func (s *server) settle() {
	s.t.Helper()
	s.mark("end")
	s.witness.compare(s.t, s.client.Resource("config"))
	// The server notices the end of a connection with a delay.
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	deadline := time.Now().Add(poll.Patience)
	for runtime.NumGoroutine() > s.goroutines+spareGoroutines {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			s.t.Fatalf("got %d goroutines, want about %d\n%s", runtime.NumGoroutine(), s.goroutines, stacks[:runtime.Stack(stacks, true)])
		}
		<-look.C
	}
	now := heap()
	s.t.Logf("goroutines: %d before, %d after; heap: %d KiB before, %d KiB after", s.goroutines, runtime.NumGoroutine(), s.heap>>10, now>>10)
	if now > s.heap+spareHeap {
		s.t.Errorf("got a heap of %d MiB, want about %d MiB", now>>20, s.heap>>20)
	}
}

// errorHandler is a log handler that fails the test if the server logs an error. Clients must
// not be able to cause one.
type errorHandler struct{ t *testing.T }

func (c errorHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}
func (c errorHandler) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c errorHandler) WithGroup(string) slog.Handler      { return c }

func (c errorHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString("\n" + a.String())
		return true
	})
	c.t.Errorf("the server logs an error: %s%s", r.Message, &b)
	return nil
}

// witness keeps a copy of a resource.
type witness struct {
	mu      sync.Mutex
	objects map[string]int64        // guarded by mu: revisions by key
	at      int64                   // guarded by mu
	waiting map[int64]chan struct{} // guarded by mu: by the revision that is waited for
}

// observe follows a resource until the test ends.
func observe(t *testing.T, r *client.Resource) *witness {
	w := &witness{objects: map[string]int64{}, waiting: map[int64]chan struct{}{}}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for u, err := range r.Watch(ctx) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("the watch of the well-behaved client: %v", err)
				return
			}
			w.apply(u)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return w
}

func (w *witness) apply(u *client.Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if u.Phase == client.PhaseReset {
		clear(w.objects)
	}
	for _, e := range u.Events {
		if e.Type == client.Deleted {
			delete(w.objects, e.Object.Key)
		} else {
			w.objects[e.Object.Key] = e.Object.ModRevision
		}
	}
	if u.Phase.Complete() {
		w.at = u.Position.Revision
		for revision, c := range w.waiting {
			if revision <= w.at {
				close(c)
				delete(w.waiting, revision)
			}
		}
	}
}

// reached returns a channel that is closed once the copy is as new as the revision.
func (w *witness) reached(revision int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.waiting[revision]
	if !ok {
		c = make(chan struct{})
		if revision <= w.at {
			close(c)
			return c
		}
		w.waiting[revision] = c
	}
	return c
}

// compare compares the copy with a List. No client writes meanwhile.
func (w *witness) compare(t *testing.T, r *client.Resource) {
	t.Helper()
	listed := map[string]int64{}
	for o, err := range r.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		listed[o.Key] = o.ModRevision
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(listed, w.objects) {
		t.Errorf("got from the list %v\ngot from the watch %v", listed, w.objects)
	}
}
