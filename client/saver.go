package client

import (
	"fmt"
	"sync"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// The file of the last known good state stays as it is for saveInterval at least,
// and for positionInterval if there is nothing new but the position.
const (
	saveInterval     = 5 * time.Second
	positionInterval = 5 * time.Minute
)

// saver saves the states of an informer in a goroutine of its own, so that a slow
// disk delays nobody.
type saver[T any] struct {
	informer *Informer[T]
	file     *goodFile // nil: nothing is saved
	watch    *fanoutv1.WatchRequest

	// What is in the file, and since when. These belong to the goroutine, and to
	// load and stop before and after it.
	saved  Position
	writes int
	since  time.Time
	failed bool // the last time

	changed  chan struct{} // has room for one
	failures chan error    // has room for one
	over     chan struct{} // closed by stop
	running  sync.WaitGroup
}

// startSaving begins with the state that was saved, if there is one.
func (i *Informer[T]) startSaving(r *replica[T]) *saver[T] {
	s := &saver[T]{informer: i, file: i.save}
	if s.file == nil {
		return s
	}
	s.watch = i.resource.newWatcher(i.informing.watch).identity()
	s.changed, s.failures, s.over = make(chan struct{}, 1), make(chan error, 1), make(chan struct{})
	i.introduce() // who is to hear of errors
	s.load(r)
	s.running.Go(s.run)
	return s
}

// load makes what is in the file the state.
func (s *saver[T]) load(r *replica[T]) {
	at, objects, err := s.file.read(s.watch)
	if err != nil {
		s.informer.report(nil, fmt.Errorf("%s is not used: %w", s.file.path, err))
		return
	}
	if at.Revision == 0 {
		return
	}
	u := &Update{Position: at, Complete: true}
	for _, o := range objects {
		u.Events = append(u.Events, Event{Type: Added, Object: o})
	}
	v, changes := r.take(u)
	s.saved, s.writes, s.since = at, v.writes, time.Now()
	s.informer.current.Store(v)
	s.informer.tell(changes)
	s.informer.reach(s.informer.ready)
}

// notice says that there may be a new state.
func (s *saver[T]) notice() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// run saves states until it is over.
func (s *saver[T]) run() {
	for {
		select {
		case <-s.over:
			return
		case <-s.changed:
		}
		began := time.Now()
		if err := s.save(positionInterval); err != nil {
			select {
			case s.failures <- err:
			default:
			}
		}
		// A state that takes long to save is saved less often.
		pause := time.NewTimer(max(saveInterval, 10*time.Since(began)))
		select {
		case <-s.over:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// save writes the state if it is not in the file, or only its position is not, for
// so long. An error that lasts is returned once.
func (s *saver[T]) save(patience time.Duration) error {
	v := s.informer.current.Load()
	if v.position == s.saved || v.position.Revision == 0 || v.writes == s.writes && time.Since(s.since) < patience {
		return nil
	}
	err := s.file.write(s.watch, v.position, v.objects)
	again := err != nil && s.failed
	s.failed = err != nil
	if err == nil {
		s.saved, s.writes, s.since = v.position, v.writes, time.Now()
	}
	if err == nil || again {
		return nil
	}
	return fmt.Errorf("%s is not written: %w", s.file.path, err)
}

// stop saves the last state.
func (s *saver[T]) stop() {
	if s.file == nil {
		return
	}
	close(s.over)
	s.running.Wait()
	if err := s.save(0); err != nil {
		s.informer.report(nil, err)
	}
}

// objects returns what has to be saved to have this view again.
func (v *view[T]) objects(yield func(*Object) bool) {
	v.entries.Scan(func(_ string, e *entry[T]) bool {
		return (!e.good || e.item.Object == e.newest || yield(e.item.Object)) && yield(e.newest)
	})
}
