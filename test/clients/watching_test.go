package clients

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// watching is a subscriber who applies the updates of a watch itself.
type watching struct {
	title    string
	resource *client.Resource
	count    *counts

	mu       sync.Mutex
	copy     map[string]int64 // by key: the revision; guarded by mu
	position client.Position  // of a complete copy; guarded by mu
	replaced bool             // the copy is begun anew and was not complete since; guarded by mu
	faults   []string         // guarded by mu
}

func newWatching(title string, r *client.Resource, count *counts) *watching {
	return &watching{title: title, resource: r, copy: map[string]int64{}, count: count}
}

func (s *watching) name() string { return s.title }

func (s *watching) selection() (string, []client.ListOption) { return s.resource.Name(), nil }

func (s *watching) run(ctx context.Context) error {
	for u, err := range s.resource.Watch(ctx, client.BookmarkInterval(bookmarks), client.OnInterruption(func(error) { s.count.add(&s.count.interruptions) })) {
		if err != nil {
			return err
		}
		s.apply(u)
	}
	return nil
}

func (s *watching) apply(u *client.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Replace {
		clear(s.copy)
		s.replaced = true
		s.count.add(&s.count.replaced)
	}
	for _, e := range u.Events {
		s.count.add(&s.count.events)
		key, revision := e.Object.Key, e.Object.ModRevision
		if has := s.copy[key]; revision <= has {
			s.faults = append(s.faults, fmt.Sprintf("%v of %s at %d after %d", e.Type, key, revision, has))
		}
		if e.Type == client.Deleted {
			delete(s.copy, key)
		} else {
			s.copy[key] = revision
		}
	}
	if u.Complete {
		switch {
		case u.Position.Epoch != s.position.Epoch && !s.replaced:
			s.faults = append(s.faults, fmt.Sprintf("from %v to %v without a replacement", s.position, u.Position))
		case u.Position.Epoch == s.position.Epoch && u.Position.Revision < s.position.Revision:
			s.faults = append(s.faults, fmt.Sprintf("back from %v to %v", s.position, u.Position))
		}
		s.position, s.replaced = u.Position, false
	}
}

func (s *watching) at() client.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position
}

func (s *watching) behind() string { return "" }

func (s *watching) illegal() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

func (s *watching) compare(objects map[string]*client.Object) string {
	want := map[string]int64{}
	for key, o := range objects {
		want[key] = o.ModRevision
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(want, s.copy) {
		return "-in the list +as told:\n" + cmp.Diff(want, s.copy)
	}
	return ""
}
