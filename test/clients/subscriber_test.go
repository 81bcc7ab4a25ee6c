package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// subscriber is somebody who has a copy of some objects.
type subscriber interface {
	name() string
	run(ctx context.Context) error
	// at returns the position of the copy.
	at() client.Position
	// compare returns how the copy differs from the objects there are.
	compare(objects map[string]*client.Object) string
	// illegal returns what was wrong with what it was told so far.
	illegal() []string
	selection() []client.ListOption
}

// bookmarks is short, so that the test is.
const bookmarks = 300 * time.Millisecond

// number decodes objects that are numbers.
func number(o *client.Object) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(string(o.Value)))
	if err != nil {
		return 0, errors.New("not a number")
	}
	return n, nil
}

// informed is a subscriber with an informer.
type informed struct {
	title    string
	informer *client.Informer[int]
	selected []client.ListOption
	count    *counts

	mu     sync.Mutex
	copy   map[string]int64 // by key: the revision of the item that was told; guarded by mu
	faults []string         // guarded by mu
}

// counts are of all subscribers.
type counts struct {
	mu                                    sync.Mutex
	told, events, interruptions, replaced int // guarded by mu
}

func (c *counts) add(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func newInformed(title string, r *client.Resource, count *counts, opts []client.InformerOption, selected ...client.Selection) *informed {
	s := &informed{title: title, copy: map[string]int64{}, count: count}
	for _, sel := range selected {
		s.selected, opts = append(s.selected, sel), append(opts, sel)
	}
	opts = append(opts, client.BookmarkInterval(bookmarks), client.OnInterruption(func(error) { count.add(&count.interruptions) }))
	s.informer = client.NewInformer(r, number, opts...)
	s.informer.AddIndex("odd", func(i client.Item[int]) []string { return []string{strconv.FormatBool(i.Value%2 == 1)} })
	s.informer.AddHandler(client.Handler[int]{Add: s.add, Update: s.update, Delete: s.delete})
	return s
}

func (s *informed) name() string                   { return s.title }
func (s *informed) run(ctx context.Context) error  { return s.informer.Run(ctx) }
func (s *informed) at() client.Position            { return s.informer.Lister().Position() }
func (s *informed) selection() []client.ListOption { return s.selected }

// judge notes what is wrong with a call.
func (s *informed) judge(ok bool, format string, args ...any) {
	s.count.add(&s.count.told)
	if !ok {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

func (s *informed) add(i client.Item[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[i.Object.Key]
	s.judge(!ok, "%s is added at %d and was there at %d", i.Object.Key, i.Object.ModRevision, has)
	s.copy[i.Object.Key] = i.Object.ModRevision
}

func (s *informed) update(old, i client.Item[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[i.Object.Key]
	s.judge(ok && has == old.Object.ModRevision && has < i.Object.ModRevision && old.Object.Key == i.Object.Key,
		"%s is updated from %d to %d and was there at %d", i.Object.Key, old.Object.ModRevision, i.Object.ModRevision, has)
	s.copy[i.Object.Key] = i.Object.ModRevision
}

func (s *informed) delete(old client.Item[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[old.Object.Key]
	s.judge(ok && has == old.Object.ModRevision, "%s is deleted as of %d and was there at %d", old.Object.Key, old.Object.ModRevision, has)
	delete(s.copy, old.Object.Key)
}

func (s *informed) illegal() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

func (s *informed) compare(objects map[string]*client.Object) string {
	type item struct {
		Value    int
		Revision int64
	}
	want, got, told, odd := map[string]item{}, map[string]item{}, map[string]int64{}, 0
	for key, o := range objects {
		if n, err := number(o); err == nil {
			want[key] = item{n, o.ModRevision}
		}
	}
	for i := range s.informer.Lister().List("") {
		o := objects[i.Object.Key]
		told[i.Object.Key] = i.Object.ModRevision
		if i.Invalid != nil {
			// It stands for one that cannot be decoded.
			if o == nil || want[o.Key] != (item{}) || o.ModRevision <= i.Object.ModRevision {
				return fmt.Sprintf("%s is invalid at %d, and there is %v", i.Object.Key, i.Object.ModRevision, o)
			}
			continue
		}
		got[i.Object.Key] = item{i.Value, i.Object.ModRevision}
	}
	for i := range s.informer.Lister().ByIndex("odd", "true") {
		if odd++; i.Value%2 == 0 {
			return fmt.Sprintf("the index has %s under a wrong value", i.Object.Key)
		}
	}
	for i := range s.informer.Lister().List("") {
		odd -= i.Value % 2
	}
	if odd != 0 {
		return fmt.Sprintf("the index has %d items too many", odd)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(told, s.copy); diff != "" {
		return "-in the informer +as told:\n" + diff
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return "-in the list +in the informer:\n" + diff
	}
	if s.informer.Lister().Stale() {
		return "it is stale"
	}
	return ""
}

// watching is a subscriber who applies the updates of a watch itself.
type watching struct {
	title    string
	resource *client.Resource
	count    *counts

	mu       sync.Mutex
	copy     map[string]int64 // by key: the revision; guarded by mu
	position client.Position  // of a complete copy; guarded by mu
	faults   []string         // guarded by mu
}

func newWatching(title string, r *client.Resource, count *counts) *watching {
	return &watching{title: title, resource: r, copy: map[string]int64{}, count: count}
}

func (s *watching) name() string                   { return s.title }
func (s *watching) selection() []client.ListOption { return nil }

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
		if u.Position.Revision < s.position.Revision {
			s.faults = append(s.faults, fmt.Sprintf("back from %d to %d", s.position.Revision, u.Position.Revision))
		}
		s.position = u.Position
	}
}

func (s *watching) at() client.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position
}

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
