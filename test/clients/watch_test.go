package clients

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// watchSubscriber keeps a copy from the updates of a watch.
type watchSubscriber struct {
	title     string
	resource  *client.Resource
	bookmarks time.Duration
	count     *counts

	mu        sync.Mutex
	copy      map[string]int64 // revisions by key; guarded by mu
	position  client.Position  // of the latest complete copy; guarded by mu
	replacing bool             // the copy is half of a new state; guarded by mu
	broken    []string         // violated guarantees; guarded by mu
}

func newWatchSubscriber(title string, r *client.Resource, count *counts) *watchSubscriber {
	return &watchSubscriber{title: title, resource: r, bookmarks: bookmarks, copy: map[string]int64{}, count: count}
}

func (s *watchSubscriber) name() string { return s.title }

func (s *watchSubscriber) selection() (string, []client.ListOption) { return s.resource.Name(), nil }

func (s *watchSubscriber) run(ctx context.Context) error {
	for u, err := range s.resource.Watch(ctx, client.BookmarkInterval(s.bookmarks), client.OnInterruption(s.count.interrupted)) {
		if err != nil {
			return err
		}
		s.apply(u)
	}
	return nil
}

func (s *watchSubscriber) apply(u *client.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Phase == client.PhaseReset {
		clear(s.copy)
		s.replacing = true
		s.count.add(&s.count.replacements)
	}
	for _, e := range u.Events {
		s.count.add(&s.count.events)
		key, revision := e.Object.Key, e.Revision
		if has := s.copy[key]; revision <= has {
			s.breaks("broke Ordered: %v of %s at %d after %d", e.Type, key, revision, has)
		}
		if e.Type == client.Deleted {
			delete(s.copy, key)
		} else {
			s.copy[key] = revision
		}
	}
	if !u.Phase.Complete() {
		if !s.replacing {
			s.breaks("broke Atomic: incomplete update at %v without a replacement", u.Position)
		}
		return
	}
	switch {
	case u.Position.Epoch != s.position.Epoch && !s.replacing:
		s.breaks("changed epoch from %v to %v without a replacement", s.position, u.Position)
	case u.Position.Epoch == s.position.Epoch && u.Position.Revision < s.position.Revision:
		s.breaks("broke Ordered: position went back from %v to %v", s.position, u.Position)
	}
	s.position, s.replacing = u.Position, false
}

// breaks notes a violated guarantee. The caller holds mu.
func (s *watchSubscriber) breaks(format string, args ...any) {
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
}

func (s *watchSubscriber) at() client.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position
}

func (s *watchSubscriber) pending() string { return "" }

func (s *watchSubscriber) violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

func (s *watchSubscriber) compare(objects map[string]*client.Object) string {
	want := map[string]int64{}
	for key, o := range objects {
		want[key] = o.ModRevision
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(want, s.copy) {
		return "revisions: -list +copy:\n" + cmp.Diff(want, s.copy)
	}
	return ""
}
