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

// persistent is somebody who watches a prefix, and comes back at the last position
// whenever the watch ends.
type persistent struct {
	*instance
	t       *testing.T
	history check.History

	mu       sync.Mutex
	watching bool          // guarded by mu: a watch has begun and not ended
	changed  chan struct{} // guarded by mu; closed and replaced when it does
}

func (p *persistent) note(watching bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching = watching
	close(p.changed)
	p.changed = make(chan struct{})
}

// await returns true when the watcher is watching, or is not.
func (p *persistent) await(ctx context.Context, watching bool) bool {
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

// read reads until the watcher is at the revision that upTo receives.
func (p *persistent) read(ctx context.Context, upTo <-chan int64) {
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
				p.note(true)
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
			p.note(false)
		}
	}
}

var errEnough = errors.New("all has come")

// While policies replace each other and bob's right comes and goes, alice's watch goes
// on as if nothing had happened. Bob's ends each time, and misses nothing in the end.
func TestOthersDoNotNoticeThatARightComesAndGoes(t *testing.T) {
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
	watching := func(name string) *persistent {
		return &persistent{
			instance: in.as(t, name), t: t, history: check.History{Watcher: name, Scope: scope},
			changed: make(chan struct{}),
		}
	}
	a, b := watching("alice"), watching("bob")
	upTo := []chan int64{make(chan int64, 1), make(chan int64, 1)}
	var reading, changing sync.WaitGroup
	for i, p := range []*persistent{a, b} {
		reading.Go(func() { p.read(ctx, upTo[i]) })
		p.await(ctx, true)
	}
	done := make(chan struct{})
	changing.Go(func() {
		defer close(done)
		for range rounds {
			in.usePolicy(t, without)
			if !b.await(ctx, false) {
				t.Error("bob's watch goes on without its right")
				return
			}
			for range 5 {
				in.usePolicy(t, without)
				in.usePolicy(t, with)
				in.usePolicy(t, with)
			}
			if !b.await(ctx, true) {
				t.Error("bob does not come back")
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
	l.set(ctx, t, "team/end", "") // whoever waits looks again
	reading.Wait()
	truth := l.truth(ctx, t, check.Conditions{Window: 1000})
	for _, p := range []*persistent{a, b} {
		if err := check.Validate(&p.history, truth); err != nil {
			t.Error(err)
		}
	}
	if n := len(a.history.Streams); n != 1 {
		t.Errorf("alice had %d watches, want the one that she began", n)
	}
	if n := len(b.history.Streams); n <= rounds {
		t.Errorf("bob had %d watches in %d rounds", n, rounds)
	}
}
