package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

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

// errOnce is what a failing handler returns, once for each version of an object.
var errOnce = errors.New("the handler fails once")

// informerSubscriber keeps a copy from the calls of an informer's handler.
type informerSubscriber struct {
	title    string
	resource string
	informer *client.Informer[int]
	selected []client.ListOption
	count    *counts
	failing  bool  // the handler fails for every seventh revision, once
	busy     *gate // if it is closed, the handler waits; may be nil

	mu         sync.Mutex
	copy       map[string]int64  // by key: the revision of the item; guarded by mu
	epochs     map[string]string // by key: the epoch of that revision; "": not known; guarded by mu
	epoch      string            // the present one; guarded by mu
	seenEpochs int               // how many epochs there were; guarded by mu
	lowered    map[string]int    // by key: how often its revision was lower than before; guarded by mu
	failed     map[string]int64  // by key: the revision for which the handler has failed; guarded by mu
	fileErrors []error           // guarded by mu
	broken     []string          // violated guarantees; guarded by mu
}

// gate makes handlers wait while it is closed.
type gate struct{ open atomic.Pointer[chan struct{}] }

func newGate() *gate {
	g := &gate{}
	open := make(chan struct{})
	close(open)
	g.open.Store(&open)
	return g
}

// close closes the gate until the function that it returns is called.
func (g *gate) close() (open func()) {
	c := make(chan struct{})
	g.open.Store(&c)
	return sync.OnceFunc(func() { close(c) })
}

func (g *gate) wait() {
	if g != nil {
		<-*g.open.Load()
	}
}

func newInformerSubscriber(title string, r *client.Resource, count *counts, opts []client.InformerOption, selected ...client.Selection) *informerSubscriber {
	s := &informerSubscriber{
		title: title, resource: r.Name(), count: count,
		copy: map[string]int64{}, epochs: map[string]string{}, lowered: map[string]int{}, failed: map[string]int64{},
	}
	for _, sel := range selected {
		s.selected, opts = append(s.selected, sel), append(opts, sel)
	}
	opts = append(opts, client.BookmarkInterval(bookmarks), client.OnInterruption(count.interrupted))
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
	if !ok {
		s.broken = append(s.broken, fmt.Sprintf(format, args...))
	}
}

// fails reports whether the handler is to fail for a version. The caller holds mu.
func (s *informerSubscriber) fails(o *client.Object) bool {
	if !s.failing || o.ModRevision%7 != 0 || s.failed[o.Key] == o.ModRevision {
		return false
	}
	s.failed[o.Key] = o.ModRevision
	return true
}

// begin begins a call. It notes the epoch before the handler may have to wait.
func (s *informerSubscriber) begin() {
	s.mu.Lock()
	s.noteEpoch()
	s.mu.Unlock()
	s.busy.wait()
}

func (s *informerSubscriber) add(i client.Item[int]) error {
	s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[i.Object.Key]
	s.check(!ok, "Add of %s at %d, which the handler has at %d", i.Object.Key, i.Object.ModRevision, has)
	if s.fails(i.Object) {
		return errOnce
	}
	s.note(i)
	return nil
}

// note records an item that the handler has. The lister may be ahead of the handler. The caller
// holds mu.
func (s *informerSubscriber) note(i client.Item[int]) {
	key := i.Object.Key
	s.copy[key] = i.Object.ModRevision
	lister, before := s.informer.Lister(), s.at()
	now, ok := lister.Get(key)
	switch {
	case !ok || now.Object != i.Object || lister.Stale() || s.at().Epoch != before.Epoch:
		s.epochs[key] = ""
	case now.Invalid == nil:
		s.epochs[key] = before.Epoch
	} // an invalid item keeps the last valid version, which may be of an older epoch
}

func (s *informerSubscriber) update(old, i client.Item[int]) error {
	s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := i.Object.Key
	has, ok := s.copy[key]
	s.check(ok && has == old.Object.ModRevision && old.Object.Key == key,
		"Update of %s from %d to %d, which the handler has at %d", key, old.Object.ModRevision, i.Object.ModRevision, has)
	if s.fails(i.Object) {
		return errOnce
	}
	if i.Object.ModRevision <= has {
		// Only a new epoch lowers revisions. An invalid item keeps its version of an older one.
		s.lowered[key]++
		s.check(s.lowered[key] < s.seenEpochs, "Update of %s from %d to %d; the revision was lowered %d times in %d epochs",
			key, has, i.Object.ModRevision, s.lowered[key], s.seenEpochs)
	}
	s.note(i)
	return nil
}

// noteEpoch counts the epochs. The informer is in an epoch before its handler is. The caller
// holds mu.
func (s *informerSubscriber) noteEpoch() {
	if now := s.at().Epoch; s.epoch != now {
		if s.epoch != "" {
			s.count.add(&s.count.epochs)
		}
		s.epoch = now
		s.seenEpochs++
	}
}

func (s *informerSubscriber) delete(old client.Item[int]) error {
	s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.copy[old.Object.Key]
	s.check(ok && has == old.Object.ModRevision, "Delete of %s at %d, which the handler has at %d", old.Object.Key, old.Object.ModRevision, has)
	if s.fails(old.Object) {
		return errOnce
	}
	delete(s.copy, old.Object.Key)
	delete(s.epochs, old.Object.Key)
	return nil
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
