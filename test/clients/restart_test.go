package clients

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/poll"
)

// restartingSubscriber has an informer with a file of its last known good state. The test
// ends the informer now and then, like a program that is restarted, and a new one begins
// with the file.
type restartingSubscriber struct {
	*informerRun // the current one; only the goroutine of the test uses this field

	resource *client.Resource
	file     string
	count    *counts
	next     chan *informerRun
	ended    chan error // the result of a run that the test ended
}

// informerRun is one informer from its start to its end.
type informerRun struct {
	*informerSubscriber
	stop chan struct{} // closed to end the run
}

func newRestartingSubscriber(r *client.Resource, file string, count *counts) *restartingSubscriber {
	s := &restartingSubscriber{resource: r, file: file, count: count, next: make(chan *informerRun, 1), ended: make(chan error)}
	s.begin()
	return s
}

// begin starts a new informer.
func (s *restartingSubscriber) begin() {
	s.count.add(&s.count.starts)
	good := client.LastKnownGood(s.file, 64<<20)
	s.informerRun = &informerRun{newInformerSubscriber("restarting", s.resource, s.count, []client.InformerOption{good}), make(chan struct{})}
	s.seenEpochs++ // the file may be of another epoch, which has passed before the first call
	s.next <- s.informerRun
}

// run runs one informer after the other.
func (s *restartingSubscriber) run(ctx context.Context) error {
	for {
		select {
		case r := <-s.next:
			err := r.run(ctx)
			select {
			case <-r.stop:
			default:
				return err
			}
			select {
			case s.ended <- err:
			case <-ctx.Done():
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run runs the informer until ctx ends or stop is closed.
func (r *informerRun) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		select {
		case <-r.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := r.informer.Run(ctx)
	cancel()
	<-waited
	return err
}

// informerItem is an item of an informer.
type informerItem struct {
	Value    int
	Revision int64
	Invalid  bool // the newest version is not a number
}

func (r *informerRun) items() map[string]informerItem {
	all := map[string]informerItem{}
	for i := range r.informer.Lister().List("") {
		all[i.Object.Key] = informerItem{i.Value, i.Object.ModRevision, i.Invalid != nil}
	}
	return all
}

// end ends the current informer and waits for it.
func (s *restartingSubscriber) end(ctx context.Context) error {
	close(s.stop)
	select {
	case err := <-s.ended:
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s ended with %w", s.name(), err)
		}
		return errors.Join(s.fileErrors...)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// beginWithoutServers starts a new informer while no server can be reached. The informer
// must have everything that the previous one had, and be stale.
func (s *restartingSubscriber) beginWithoutServers(ctx context.Context) error {
	before, at := s.items(), s.at()
	s.begin()
	ctx, cancel := context.WithTimeout(ctx, poll.Patience)
	defer cancel()
	if err := s.informer.WaitForState(ctx); err != nil {
		return err
	}
	if diff := cmp.Diff(before, s.items()); diff != "" {
		return fmt.Errorf("items: -before +after the restart:\n%s", diff)
	}
	if now := s.at(); now != at || !s.informer.Lister().Stale() {
		return fmt.Errorf("got position %v and stale %v after the restart, want %v and true", now, s.informer.Lister().Stale(), at)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.fileErrors...)
}

// beginDamaged damages the file, starts a new informer, and waits until the handler gets
// the error. Without servers the informer must have no state.
func (s *restartingSubscriber) beginDamaged(ctx context.Context, rng *rand.Rand, withoutServers bool) error {
	content, err := os.ReadFile(s.file)
	if err != nil {
		return err
	}
	at := rng.IntN(len(content))
	switch rng.IntN(3) {
	case 0:
		content[at] ^= 1 << rng.IntN(8)
	case 1:
		content = content[:at]
	case 2:
		content = append(content[:at:at], content[at+rng.IntN(len(content)-at)+1:]...)
	}
	if err := os.WriteFile(s.file, content, 0o600); err != nil {
		return err
	}
	s.begin()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(ctx, poll.Patience)
	defer cancel()
	for {
		s.mu.Lock()
		reported := len(s.fileErrors)
		s.mu.Unlock()
		if reported > 0 {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the handler got no error for the damaged file: %w", context.Cause(ctx))
		}
	}
	if l := s.informer.Lister(); withoutServers && (l.Len() > 0 || l.Position() != client.Position{} || !l.Stale()) {
		return fmt.Errorf("got %d items at %v from a damaged file, want none", l.Len(), l.Position())
	}
	// From here on, every further error of the file is a fault.
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.fileErrors) > 1 {
		return errors.Join(s.fileErrors...)
	}
	s.fileErrors = nil
	return nil
}
