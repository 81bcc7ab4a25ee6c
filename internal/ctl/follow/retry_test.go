package follow

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// fakeCommand fails for objects whose text is "bad", until it is repaired.
type fakeCommand struct {
	pause time.Duration // how long the command takes

	mu       sync.Mutex
	runs     []string // the type of each event, the key and the text; guarded by mu
	repaired bool     // guarded by mu
}

func (c *fakeCommand) Run(_ context.Context, stdin io.Reader, variables ...string) error {
	var o struct{ Key, Text string }
	if err := json.NewDecoder(stdin).Decode(&o); err != nil {
		return err
	}
	time.Sleep(c.pause)
	c.mu.Lock()
	defer c.mu.Unlock()
	event := strings.TrimPrefix(variables[0], "FANOUT_EVENT=")
	c.runs = append(c.runs, event+" "+o.Key+" "+o.Text)
	if o.Text == "bad" && !c.repaired {
		return errors.New("it is bad")
	}
	return nil
}

func (c *fakeCommand) repair() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.repaired = true
}

// taken returns the commands that have run since the last call.
func (c *fakeCommand) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs := c.runs
	c.runs = nil
	return runs
}

// retrying is an [Executor] with the policy [Retry], which runs in a bubble.
type retrying struct {
	*testing.T
	Executor
	fakeCommand
	watch   fakeWatch
	saved   []int64 // revisions
	reports int
	cancel  context.CancelFunc
	done    chan error
}

func startRetrying(t *testing.T, count int) *retrying {
	r := &retrying{T: t, watch: make(fakeWatch), done: make(chan error, 1)}
	r.Executor = Executor{Resource: "config", Command: &r.fakeCommand, Policy: Retry, Report: func(error) { r.reports++ }, Count: count}
	if count == 0 {
		r.Save = func(p client.Position, _ bool) error { r.saved = append(r.saved, p.Revision); return nil }
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() { r.done <- r.Executor.Run(ctx, r.watch.updates) }()
	return r
}

// change sends a change, and waits until its command has run.
func (r *retrying) change(events ...client.Event) {
	r.Helper()
	last := events[len(events)-1].Revision
	r.watch <- &client.Update{Phase: client.PhaseLive, Events: events, Position: client.Position{Revision: last}}
	synctest.Wait()
}

// wantRan compares the commands that have run since the last call.
func (r *retrying) wantRan(want ...string) {
	r.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, r.taken()); diff != "" {
		r.Error(diff)
	}
}

func (r *retrying) wantSaved(want ...int64) {
	r.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, r.saved); diff != "" {
		r.Error(diff)
	}
}

func (r *retrying) stop() {
	r.Helper()
	r.cancel()
	if err := <-r.done; !errors.Is(err, context.Canceled) {
		r.Errorf("ended with %v", err)
	}
}

func event(kind client.EventType, key, text string, revision int64) client.Event {
	e := added(key, text, revision)
	e.Type, e.Object.ContentType = kind, "text/plain"
	return e
}

// A command that fails is run again with increasing delays. Other objects do not wait for it.
func TestRetryBacksOffWhileOtherObjectsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRetrying(t, 0)
		r.watch.replace(event(client.Added, "a", "bad", 1), event(client.Added, "b", "good", 1))
		r.wantRan("added a bad", "added b good")
		r.change(event(client.Modified, "b", "better", 2))
		r.wantRan("modified b better")
		time.Sleep(retries.First)
		r.wantRan("added a bad")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := len(r.taken()); n < 20 || n > 60 || n != r.reports-2 {
			t.Errorf("got %d attempts in ten minutes, and %d reports, want one every 15 to 30 s, and two reports more", n, r.reports)
		}
		r.repair()
		time.Sleep(10 * time.Minute)
		r.wantRan("added a bad")
		r.stop()
	})
}

// A newer change replaces the one that has failed. Its event compares with what the last successful command got.
func TestNewerChangeReplacesARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRetrying(t, 0)
		r.watch.replace()
		r.change(event(client.Added, "a", "bad", 2))
		r.wantRan("added a bad")
		r.change(event(client.Modified, "a", "good", 3))
		r.wantRan("added a good")
		time.Sleep(time.Hour)
		r.wantRan()

		r.change(event(client.Modified, "a", "bad", 4))
		r.change(event(client.Deleted, "a", "good", 5))
		r.wantRan("modified a bad", "deleted a good")
		time.Sleep(time.Hour)
		r.wantRan()

		r.change(event(client.Added, "a", "good", 6), event(client.Deleted, "a", "bad", 7))
		r.change(event(client.Added, "a", "better", 8))
		r.wantRan("added a good", "deleted a bad", "modified a better")

		// Two versions that fail: only the newer one is tried again, soon at first.
		r.change(event(client.Modified, "a", "bad", 9))
		time.Sleep(10 * time.Minute)
		r.change(event(client.Modified, "a", "bad", 10))
		r.taken()
		time.Sleep(retries.First)
		r.wantRan("modified a bad")
		r.stop()
	})
}

// A new state decides about what is tried again: an object that is gone is deleted, one that is the same stays.
func TestRetriesAfterAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRetrying(t, 0)
		r.watch.replace(event(client.Added, "gone", "bad", 1), event(client.Added, "same", "bad", 1))
		r.wantRan("added gone bad", "added same bad")
		r.watch.replace(event(client.Added, "same", "bad", 1))
		r.wantRan("deleted gone bad")
		r.repair()
		time.Sleep(retries.Most)
		synctest.Wait()
		if runs := r.taken(); len(runs) != 2 {
			t.Errorf("got %q, want one more command for each object", runs)
		}
		r.stop()
	})
}

// The saved position stays before the oldest change whose command has not succeeded.
func TestRetryHoldsThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRetrying(t, 0)
		r.watch.replace(event(client.Added, "a", "good", 1))
		r.change(event(client.Modified, "a", "bad", 2))
		r.change(event(client.Added, "b", "good", 3))
		r.change(event(client.Added, "c", "bad", 4))
		r.change(event(client.Modified, "a", "bad", 5))
		r.wantSaved(1)
		r.change(event(client.Modified, "a", "good", 6))
		r.wantSaved(1, 3)
		r.repair()
		time.Sleep(time.Minute)
		r.wantSaved(1, 3, 6)
		r.change(event(client.Deleted, "a", "good", 7))
		r.wantSaved(1, 3, 6, 7)
		r.stop()
	})
}

// A watch that ends after some changes waits for those that have failed, or for newer ones of their objects.
func TestCountWaitsForRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRetrying(t, 2)
		r.watch.replace(event(client.Added, "a", "bad", 1), event(client.Added, "b", "good", 1), event(client.Added, "c", "good", 1))
		r.change(event(client.Added, "d", "good", 2))
		r.wantRan("added a bad", "added b good")
		r.change(event(client.Modified, "a", "good", 3))
		r.wantRan("added a good")
		if err := <-r.done; err != nil {
			t.Error(err)
		}

		r = startRetrying(t, 1)
		r.watch.replace(event(client.Added, "a", "bad", 1))
		r.wantRan("added a bad")
		r.repair()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.wantRan("added a bad")
	})
}

// A command that is running, or will run again, does not keep the watch from ending.
func TestRetryEndsWithTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRetrying(t, 0)
		r.watch.replace(event(client.Added, "a", "bad", 1))
		synctest.Wait()
		r.stop()
		r.wantRan("added a bad")
	})
}

// While many changes arrive, commands run again between them.
func TestRetriesRunBetweenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRetrying(t, 0)
		r.pause = retries.Most
		r.watch.replace(event(client.Added, "a", "bad", 1), event(client.Added, "b", "good", 1), event(client.Added, "c", "good", 1), event(client.Added, "d", "good", 1))
		time.Sleep(6*retries.Most + 1)
		r.wantRan("added a bad", "added b good", "added a bad", "added c good", "added a bad", "added d good")
		r.stop()
	})
}
