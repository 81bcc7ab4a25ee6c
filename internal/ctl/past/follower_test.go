package past

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// remembering starts a server whose resource "past" has a history of any length.
func remembering(t *testing.T) (s *inprocess.Server, r *client.Resource, etcd, prefix string) {
	t.Helper()
	cfg := inprocess.Config(t)
	cfg.EmbeddedEtcdListen = loopback.FreeAddress(t)
	resource := config.NewResource("past")
	resource.History = config.NewHistory()
	resource.History.Versions = 1_000_000
	cfg.Resources = []config.Resource{resource}
	s = inprocess.Start(t, cfg)
	c, err := client.New(s.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return s, c.Resource("past"), cfg.EmbeddedEtcdListen, cfg.Resources[0].Prefix
}

// followed is what a follower has shown, one run after another.
type followed struct {
	mu    sync.Mutex
	lines []string        // guarded by mu
	at    client.Position // guarded by mu
}

func (f *followed) snapshot() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.lines)
}

var errEnough = errors.New("the test stops the follower")

// run follows until ctx ends, or until it has shown so many entries. What was shown after the last position counts as
// not shown, as for a process that was killed.
func (f *followed) run(ctx context.Context, r *client.Resource, most int, opts ...client.HistoryOption) error {
	f.mu.Lock()
	after := f.at
	f.mu.Unlock()
	var pending []string
	n := 0
	follower := Follower{
		Resource: r, After: after, Options: opts, Interrupted: func(error) {},
		Show: func(e *client.HistoryEntry) error {
			if n++; n > most {
				return errEnough
			}
			value := ""
			if e.Object != nil {
				value = string(e.Object.Value)
			}
			pending = append(pending, fmt.Sprintf("%d %d %s %s %s", e.Revision, e.Kind, e.Key, e.Change.Message, value))
			return nil
		},
		Reached: func(p client.Position) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lines, pending, f.at = append(f.lines, pending...), nil, p
			return nil
		},
	}
	return follower.Run(ctx)
}

// Writers change the same few objects while a follower is stopped and resumed at random, and the server restarts. It
// shows each write exactly once, in order, with its message and value.
func TestFollowerMissesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	s, r, _, _ := remembering(t)
	ctx := poll.Context(t)
	begin, err := r.Put(ctx, "k/0", client.Text("begin"))
	if err != nil {
		t.Fatal(err)
	}
	shown := &followed{}
	var at client.Position
	for _, err := range r.List(ctx, client.ListPosition(&at)) {
		if err != nil {
			t.Fatal(err)
		}
	}
	at.Revision = begin
	shown.at = at

	var mu sync.Mutex
	var want []string
	const writers, writes, keys = 4, 120, 5
	write := func(random *rand.Rand, name string) error {
		message := "by " + name
		first, second := random.IntN(keys), random.IntN(keys)
		ops := []client.Op{client.OpPut(fmt.Sprintf("k/%d", first), client.Text(name))}
		kinds := []string{fmt.Sprintf("%d k/%d %s %s", client.HistoryPut, first, message, name)}
		if second != first && random.IntN(2) == 0 {
			ops = append(ops, client.OpDelete(fmt.Sprintf("k/%d", second)))
			kinds = append(kinds, fmt.Sprintf("%d k/%d %s ", client.HistoryDelete, second, message))
		}
		done, err := r.Because(message).Transact(ctx, ops...)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i, kind := range kinds {
			if i == 0 || done.Deleted[i] {
				want = append(want, fmt.Sprintf("%d %s", done.Revision, kind))
			}
		}
		return nil
	}
	writing := func(round int) {
		var all sync.WaitGroup
		for w := range writers {
			random := rand.New(rand.NewPCG(uint64(w), uint64(round)))
			all.Go(func() {
				for i := range writes {
					if err := write(random, fmt.Sprintf("%d-%d-%d", round, w, i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() {
		random := rand.New(rand.NewPCG(1, 1))
		for following.Err() == nil {
			if err := shown.run(following, r, 1+random.IntN(200), client.HistoryValues()); !errors.Is(err, errEnough) && following.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	writing(1)
	s.Stop()
	s.Start(t)
	poll.Until(t, "the client has reached the server again", func() bool {
		return r.Validate(ctx, "k/0", client.Text("")) == nil
	})
	writing(2)
	poll.Until(t, "the follower has shown the last write", func() bool { return len(shown.snapshot()) >= len(want) })
	stop()
	follower.Wait()
	got := shown.snapshot()
	if !slices.IsSortedFunc(got, byRevision) {
		t.Error("the writes are not in order")
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the follower differs from the writers (-wrote +shown):\n%s", diff)
	}
}

func byRevision(a, b string) int {
	revision := func(s string) (n int64) {
		_, _ = fmt.Sscan(s, &n)
		return n
	}
	return int(revision(a) - revision(b))
}

// What another program writes is shown when it happens, and not again before the next write.
func TestFollowerShowsGaps(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	_, r, etcd, prefix := remembering(t)
	ctx := poll.Context(t)
	shown := &followed{}
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() { _ = shown.run(following, r, 1000) })
	defer follower.Wait()
	defer stop()
	poll.Until(t, "the follower has begun", func() bool {
		shown.mu.Lock()
		defer shown.mu.Unlock()
		return shown.at.Revision > 0
	})
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	kinds := func() string {
		var all []string
		for _, line := range shown.snapshot() {
			all = append(all, strings.Fields(line)[1])
		}
		return strings.Join(all, " ")
	}
	put, gap := fmt.Sprint(int(client.HistoryPut)), fmt.Sprint(int(client.HistoryGap))
	want := ""
	for i, foreign := range []bool{false, true, true, false} {
		next := put
		if foreign {
			next = gap
			_, err = c.Put(ctx, prefix+"a", fmt.Sprint(i))
		} else {
			_, err = r.Put(ctx, "a", client.Text(fmt.Sprint(i)), client.OverwriteOpaque())
		}
		if err != nil {
			t.Fatal(err)
		}
		want = strings.TrimSpace(want + " " + next)
		poll.Until(t, "the follower has shown "+want, func() bool { return kinds() == want })
	}
}
