package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// resumingWatcher watches a prefix and resumes at its last position whenever the watch
// ends.
type resumingWatcher struct {
	*instance
	t       *testing.T
	history check.History

	mu       sync.Mutex
	watching bool          // guarded by mu; a watch has begun and has not ended
	changed  chan struct{} // guarded by mu; closed and replaced when watching changes
}

func (p *resumingWatcher) setWatching(watching bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching = watching
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits until p.watching has the given value. It returns false if ctx ends first.
func (p *resumingWatcher) await(ctx context.Context, watching bool) bool {
	for {
		p.mu.Lock()
		is, changed := p.watching, p.changed
		p.mu.Unlock()
		if is == watching {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// read reads until the watcher has reached the revision that it receives from upTo.
func (p *resumingWatcher) read(ctx context.Context, upTo <-chan int64) {
	last := int64(-1)
	for {
		req := &fanoutv1.WatchRequest{Resource: config, Scope: prefix("team")}
		begin, at := check.FromNothing, (*fanoutv1.Position)(nil)
		if position, ok := p.history.Position(); ok {
			begin, at = check.After, &fanoutv1.Position{Epoch: string(position.Epoch), Revision: int64(position.Revision)}
			req.Begin = after(at)
		}
		stream, err := p.reads.Watch(ctx, req)
		var all []*fanoutv1.WatchResponse
		for err == nil {
			var m *fanoutv1.WatchResponse
			if m, err = stream.Recv(); err != nil {
				break
			}
			if all = append(all, m); len(all) == 1 {
				p.setWatching(true)
			}
			select {
			case last = <-upTo:
			default:
			}
			if last >= 0 && m.GetPosition().GetRevision() >= last {
				err = errEnough
			}
		}
		if len(all) > 0 {
			p.history.Streams = append(p.history.Streams, streamOf(p.t, begin, at, all))
		}
		if errors.Is(err, errEnough) {
			return
		}
		if ctx.Err() != nil {
			p.t.Errorf("%s: %v", p.history.Watcher, err)
			return
		}
		if len(all) > 0 {
			wantRefusal(p.t, err, denied("watch", config))
			p.setWatching(false)
		}
	}
}

var errEnough = errors.New("the last revision has arrived")

// The policy changes many times, and bob loses and regains his right. Alice's watch is
// not disturbed. Bob's watch ends each time, and when he resumes he misses no event.
func TestChangesOfARightDoNotDisturbOtherWatchers(t *testing.T) {
	const rounds = 25
	with, without := bobMay("watch", config, ", prefixes: [team]"), aliceMay
	in := start(t, settings{policy: with})
	ctx := within(t)
	alice := in.as(t, "alice")
	alice.awaitLoaded(ctx, t)
	l := alice.ledger(config)
	scope, err := object.ParsePrefix("team")
	if err != nil {
		t.Fatal(err)
	}
	watcher := func(name string) *resumingWatcher {
		return &resumingWatcher{
			instance: in.as(t, name), t: t, history: check.History{Watcher: name, Scope: scope},
			changed: make(chan struct{}),
		}
	}
	a, b := watcher("alice"), watcher("bob")
	upTo := []chan int64{make(chan int64, 1), make(chan int64, 1)}
	var reading, changing sync.WaitGroup
	for i, p := range []*resumingWatcher{a, b} {
		reading.Go(func() { p.read(ctx, upTo[i]) })
		p.await(ctx, true)
	}
	done := make(chan struct{})
	changing.Go(func() {
		defer close(done)
		for range rounds {
			in.usePolicy(t, without)
			if !b.await(ctx, false) {
				t.Error("bob's watch goes on after he lost the right")
				return
			}
			for range 5 {
				in.usePolicy(t, without)
				in.usePolicy(t, with)
				in.usePolicy(t, with)
			}
			if !b.await(ctx, true) {
				t.Error("bob's watch does not begin again")
				return
			}
		}
	})
	for i := 0; ; i++ {
		l.set(ctx, t, fmt.Sprint("team/", i%7), fmt.Sprint(i))
		select {
		case <-done:
		default:
			continue
		}
		break
	}
	changing.Wait()
	last := l.set(ctx, t, "team/last", "")
	for _, c := range upTo {
		c <- last
	}
	l.set(ctx, t, "team/end", "") // a further event makes both watchers check upTo
	reading.Wait()
	truth := l.truth(ctx, t, check.Conditions{Window: 1000})
	for _, p := range []*resumingWatcher{a, b} {
		if err := check.Validate(&p.history, truth); err != nil {
			t.Error(err)
		}
	}
	if n := len(a.history.Streams); n != 1 {
		t.Errorf("got %d watches by alice, want 1", n)
	}
	if n := len(b.history.Streams); n <= rounds {
		t.Errorf("got %d watches by bob, want more than %d", n, rounds)
	}
}
