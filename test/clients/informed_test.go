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

// informed is a subscriber with an informer.
type informed struct {
	title    string
	resource string
	informer *client.Informer[int]
	selected []client.ListOption
	count    *counts

	mu      sync.Mutex
	copy    map[string]int64  // by key: the revision of the item that was told; guarded by mu
	epochs  map[string]string // by key: in which that was; guarded by mu
	entered client.Position   // the first one of the present epoch; guarded by mu
	files   []error           // what was wrong with its file; guarded by mu
	faults  []string          // guarded by mu
}

func newInformed(title string, r *client.Resource, count *counts, opts []client.InformerOption, selected ...client.Selection) *informed {
	s := &informed{title: title, resource: r.Name(), copy: map[string]int64{}, epochs: map[string]string{}, count: count}
	for _, sel := range selected {
		s.selected, opts = append(s.selected, sel), append(opts, sel)
	}
	opts = append(opts, client.BookmarkInterval(bookmarks), client.OnInterruption(func(error) { count.add(&count.interruptions) }))
	s.informer = client.NewInformer(r, number, opts...)
	s.informer.AddIndex("odd", func(i client.Item[int]) []string { return []string{strconv.FormatBool(i.Value%2 == 1)} })
	s.informer.AddHandler(client.Handler[int]{Add: s.add, Update: s.update, Delete: s.delete, Error: s.fail})
	return s
}

func (s *informed) name() string                  { return s.title }
func (s *informed) run(ctx context.Context) error { return s.informer.Run(ctx) }
func (s *informed) at() client.Position           { return s.informer.Lister().Position() }

func (s *informed) selection() (string, []client.ListOption) { return s.resource, s.selected }

// judge notes what is wrong with a call.
func (s *informed) judge(ok bool, format string, args ...any) {
	s.count.add(&s.count.told)
	s.enters()
	if !ok {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

func (s *informed) add(i client.Item[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[i.Object.Key]
	s.judge(!ok, "%s is added at %d and was there at %d", i.Object.Key, i.Object.ModRevision, has)
	s.copy[i.Object.Key], s.epochs[i.Object.Key] = i.Object.ModRevision, s.at().Epoch
}

func (s *informed) update(old, i client.Item[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[i.Object.Key]
	// What is invalid in a new epoch is still the item of the old one.
	survived := old.Invalid != nil && s.epochs[i.Object.Key] != s.at().Epoch
	newer := has < i.Object.ModRevision || s.enters() || survived
	s.judge(ok && has == old.Object.ModRevision && newer && old.Object.Key == i.Object.Key,
		"%s is updated from %d to %d and was there at %d; the state is of %v, and the epoch began with %v", i.Object.Key, old.Object.ModRevision, i.Object.ModRevision, has, s.at(), s.entered)
	s.copy[i.Object.Key], s.epochs[i.Object.Key] = i.Object.ModRevision, s.at().Epoch
}

// enters reports whether what is told now leads into a new epoch. All of that is of
// one position. Whatever is in the old epoch and not in the new one is deleted then,
// and a revision may be lower than before.
func (s *informed) enters() bool {
	at := s.at()
	if s.entered.Epoch != at.Epoch {
		if s.entered.Epoch != "" {
			s.count.add(&s.count.epochs)
		}
		s.entered = at
	}
	return s.entered == at
}

func (s *informed) delete(old client.Item[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[old.Object.Key]
	s.judge(ok && has == old.Object.ModRevision, "%s is deleted as of %d and was there at %d", old.Object.Key, old.Object.ModRevision, has)
	delete(s.copy, old.Object.Key)
}

func (s *informed) fail(o *client.Object, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o == nil {
		s.files = append(s.files, err)
	}
}

func (s *informed) illegal() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// behind returns what handlers do not know yet: they are told of a state when the
// lister has it already.
func (s *informed) behind() string {
	if s.informer.Lister().Stale() {
		return "it is stale"
	}
	has := map[string]int64{}
	for i := range s.informer.Lister().List("") {
		has[i.Object.Key] = i.Object.ModRevision
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(has, s.copy) {
		return "-in the informer +as told:\n" + cmp.Diff(has, s.copy)
	}
	return ""
}

func (s *informed) compare(objects map[string]*client.Object) string {
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
			// It stands for one that cannot be decoded, if need be of a newer epoch.
			key, revision := i.Object.Key, i.Object.ModRevision
			if o == nil || want[key] != (item{}) || o.ModRevision <= revision && s.epochs[key] == s.at().Epoch {
				return fmt.Sprintf("%s is invalid at %d, and there is %+v", key, revision, want[key])
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
		return "-in the list +in the informer:\n" + diff
	}
	return ""
}
