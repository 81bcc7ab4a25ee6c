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
)

// restarted is a subscriber with an informer that keeps its last known good state in
// a file. It ends now and then, as a program does that is restarted, and the next one
// begins with the file.
type restarted struct {
	*life // the present one; belongs to the goroutine of the world

	resource *client.Resource
	file     string
	count    *counts
	next     chan *life
	over     chan error // how the last life ended that was to end
}

// life is that of an informer from its start to its end.
type life struct {
	*informed
	toEnd chan struct{} // closed when it is to end
}

func newRestarted(r *client.Resource, file string, count *counts) *restarted {
	s := &restarted{resource: r, file: file, count: count, next: make(chan *life, 1), over: make(chan error)}
	s.life = s.born()
	s.next <- s.life
	return s
}

func (s *restarted) born() *life {
	s.count.add(&s.count.lives)
	good := client.LastKnownGood(s.file, 64<<20)
	return &life{newInformed("that is restarted", s.resource, s.count, []client.InformerOption{good}), make(chan struct{})}
}

// run lives one life after the other.
func (s *restarted) run(ctx context.Context) error {
	for {
		select {
		case l := <-s.next:
			err := l.live(ctx)
			select {
			case <-l.toEnd:
			default:
				return err
			}
			select {
			case s.over <- err:
			case <-ctx.Done():
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// live runs the informer until its end.
func (l *life) live(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-l.toEnd:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := l.informer.Run(ctx)
	cancel()
	<-ended
	return err
}

// remembered is what an informer has of an object.
type remembered struct {
	Value    int
	Revision int64
	Invalid  bool // there is a newer version, which is no number
}

func (l *life) remembers() map[string]remembered {
	all := map[string]remembered{}
	for i := range l.informer.Lister().List("") {
		all[i.Object.Key] = remembered{i.Value, i.Object.ModRevision, i.Invalid != nil}
	}
	return all
}

// end ends the present life.
func (s *restarted) end(ctx context.Context) error {
	close(s.toEnd)
	select {
	case err := <-s.over:
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s ended: %w", s.name(), err)
		}
		return errors.Join(s.files...)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin begins another life.
func (s *restarted) begin() {
	s.life = s.born()
	s.next <- s.life
}

// beginAlone begins another life while no server can be reached, and returns what is
// wrong with what it has then: it has to be all that the one before had, and to say
// that it is stale.
func (s *restarted) beginAlone(ctx context.Context) error {
	had, at := s.remembers(), s.at()
	s.begin()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := s.informer.WaitForState(ctx); err != nil {
		return err
	}
	if diff := cmp.Diff(had, s.remembers()); diff != "" {
		return fmt.Errorf("-before +after it was restarted:\n%s", diff)
	}
	if now := s.at(); now != at || !s.informer.Lister().Stale() {
		return fmt.Errorf("it is at %v, stale is %v; it was at %v", now, s.informer.Lister().Stale(), at)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.files...)
}

// beginDamaged begins another life with a file that is damaged, and returns when that
// was told.
func (s *restarted) beginDamaged(ctx context.Context, rng *rand.Rand, alone bool) error {
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
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		s.mu.Lock()
		told := len(s.files)
		s.mu.Unlock()
		if told > 0 {
			break
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("nobody is told that the file is damaged: %w", context.Cause(ctx))
		}
	}
	if l := s.informer.Lister(); alone && (l.Len() > 0 || l.Position() != client.Position{} || !l.Stale()) {
		return fmt.Errorf("it has %d items at %v of a damaged file", l.Len(), l.Position())
	}
	// Nothing but that may be wrong with files from here on.
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) > 1 {
		return errors.Join(s.files...)
	}
	s.files = nil
	return nil
}
