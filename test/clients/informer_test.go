package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// number decodes objects that are numbers.
func number(o *client.Object) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(string(o.Value)))
	if err != nil {
		return 0, errors.New("not a number")
	}
	return n, nil
}

// informerSubscriber keeps a copy from the calls of an informer's handler.
type informerSubscriber struct {
	title    string
	resource string
	informer *client.Informer[int]
	selected []client.ListOption
	count    *counts

	mu         sync.Mutex
	copy       map[string]int64  // by key: the revision of the item; guarded by mu
	epochs     map[string]string // by key: the epoch of that revision; guarded by mu
	epochBegan client.Position   // the first position of the present epoch; guarded by mu
	fileErrors []error           // guarded by mu
	broken     []string          // violated guarantees; guarded by mu
}

func newInformerSubscriber(title string, r *client.Resource, count *counts, opts []client.InformerOption, selected ...client.Selection) *informerSubscriber {
	s := &informerSubscriber{title: title, resource: r.Name(), copy: map[string]int64{}, epochs: map[string]string{}, count: count}
	for _, sel := range selected {
		s.selected, opts = append(s.selected, sel), append(opts, sel)
	}
	opts = append(opts, client.BookmarkInterval(bookmarks), client.OnInterruption(func(error) { count.add(&count.interruptions) }))
	s.informer = client.NewInformer(r, number, opts...)
	s.informer.AddIndex("odd", func(i client.Item[int]) []string { return []string{strconv.FormatBool(i.Value%2 == 1)} })
	s.informer.AddHandler(client.Handler[int]{Add: s.add, Update: s.update, Delete: s.delete, Error: s.fail})
	return s
}

func (s *informerSubscriber) name() string                  { return s.title }
func (s *informerSubscriber) run(ctx context.Context) error { return s.informer.Run(ctx) }
func (s *informerSubscriber) at() client.Position           { return s.informer.Lister().Position() }

func (s *informerSubscriber) selection() (string, []client.ListOption) {
	return s.resource, s.selected
}

// check counts a call, and notes a violation unless it is ok. The caller holds mu.
func (s *informerSubscriber) check(ok bool, format string, args ...any) {
	s.count.add(&s.count.calls)
	s.isNewEpoch()
	if !ok {
		s.broken = append(s.broken, fmt.Sprintf(format, args...))
	}
}

func (s *informerSubscriber) add(i client.Item[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[i.Object.Key]
	s.check(!ok, "Add of %s at %d, which the handler has at %d", i.Object.Key, i.Object.ModRevision, has)
	s.note(i)
}

// note records an item that the handler has. The caller holds mu.
func (s *informerSubscriber) note(i client.Item[int]) {
	s.copy[i.Object.Key] = i.Object.ModRevision
	switch {
	case s.informer.Lister().Stale(): // from the file, which does not know the epoch of a kept version
		s.epochs[i.Object.Key] = ""
	case i.Invalid == nil:
		s.epochs[i.Object.Key] = s.at().Epoch
	} // an invalid item keeps the last valid version, which may be of an older epoch
}

func (s *informerSubscriber) update(old, i client.Item[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[i.Object.Key]
	// An invalid item keeps its old version, also from the previous epoch.
	fromOldEpoch := old.Invalid != nil && s.epochs[i.Object.Key] != s.at().Epoch
	newer := has < i.Object.ModRevision || s.isNewEpoch() || fromOldEpoch
	s.check(ok && has == old.Object.ModRevision && newer && old.Object.Key == i.Object.Key,
		"Update of %s from %d to %d, which the handler has at %d; position %v, epoch began at %v", i.Object.Key, old.Object.ModRevision, i.Object.ModRevision, has, s.at(), s.epochBegan)
	s.note(i)
}

// isNewEpoch reports whether the current call belongs to the replacement that begins a
// new epoch. All its calls are at one position; they delete what is not in the new epoch,
// and revisions may be lower than before. The caller holds mu.
func (s *informerSubscriber) isNewEpoch() bool {
	at := s.at()
	if s.epochBegan.Epoch != at.Epoch {
		if s.epochBegan.Epoch != "" {
			s.count.add(&s.count.epochs)
		}
		s.epochBegan = at
	}
	return s.epochBegan == at
}

func (s *informerSubscriber) delete(old client.Item[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[old.Object.Key]
	s.check(ok && has == old.Object.ModRevision, "Delete of %s at %d, which the handler has at %d", old.Object.Key, old.Object.ModRevision, has)
	delete(s.copy, old.Object.Key)
	delete(s.epochs, old.Object.Key)
}

func (s *informerSubscriber) fail(o *client.Object, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o == nil {
		s.fileErrors = append(s.fileErrors, err)
	}
}

func (s *informerSubscriber) violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// pending returns what the handler does not know yet: the lister has a new state before
// the handler is called.
func (s *informerSubscriber) pending() string {
	if s.informer.Lister().Stale() {
		return "the informer is stale"
	}
	listed := map[string]int64{}
	for i := range s.informer.Lister().List("") {
		listed[i.Object.Key] = i.Object.ModRevision
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(listed, s.copy) {
		return "revisions: -lister +handler:\n" + cmp.Diff(listed, s.copy)
	}
	return ""
}

func (s *informerSubscriber) compare(objects map[string]*client.Object) string {
	type item struct {
		Value    int
		Revision int64
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	want, got, odd := map[string]item{}, map[string]item{}, 0
	for key, o := range objects {
		if n, err := number(o); err == nil {
			want[key] = item{n, o.ModRevision}
		}
	}
	for i := range s.informer.Lister().List("") {
		o := objects[i.Object.Key]
		if i.Invalid != nil {
			// The newest version must be one that cannot be decoded; it may be of a
			// newer epoch.
			key, revision := i.Object.Key, i.Object.ModRevision
			if o == nil || want[key] != (item{}) || o.ModRevision <= revision && s.epochs[key] == s.at().Epoch {
				return fmt.Sprintf("%s is invalid at %d, last valid in epoch %q, but the list has revision %d", key, revision, s.epochs[key], modRevision(o))
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
	if diff := cmp.Diff(want, got); diff != "" {
		return "items: -list +informer:\n" + diff
	}
	return ""
}

// modRevision returns the revision of an object, or 0 if there is none.
func modRevision(o *client.Object) int64 {
	if o == nil {
		return 0
	}
	return o.ModRevision
}
