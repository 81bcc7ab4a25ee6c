package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Informer keeps a decoded and indexed copy of a part of a resource in memory, and
// calls handlers when it changes.
//
// Guarantees:
//
//   - The copy always is the state as it was at one position. All changes of a
//     transaction appear together. While a new state replaces the copy after a long
//     interruption, the old one stays until the new one is complete.
//   - Handlers get a possible history of each key, in order and without repetition;
//     see [Handler]. What they may miss is intermediate versions of an object, while the
//     handler is busy, during an interruption that outlasts the memory of the servers, or
//     while the servers lose changes.
//   - Handlers can be added and removed at any time. One that is added late gets the present
//     items first, each as an Add.
//   - A slow or failing handler delays neither the informer nor other handlers. For each object,
//     at most one change waits for it besides those that it handles.
//   - [Lister.Stale] is true unless a server has confirmed the copy a short time ago,
//     also while a handler runs.
//
// Informers of one client share a watch on the server if they select the same objects with the
// same options. For each of them, everything is as if it had a watch of its own. These informers
// do not share: those that begin with a saved state ([LastKnownGood]) or at an exact revision
// ([AtRevision]), and those with metadata of gRPC in the context of Run.
//
// All methods except Run and AddIndex may be called by any goroutine at any time.
type Informer[T any] struct {
	resource *Resource
	decode   Decoder[T]
	config   informerConfig
	indexes  []index[T] // fixed when Run begins

	consistency *fanoutv1.ReadConsistency // what WaitForSync waits for

	current  atomic.Pointer[state[T]]
	fresh    freshness
	started  chan struct{} // closed when Run begins
	hasState chan struct{} // closed when there is a state
	synced   chan struct{} // closed when there is a state as fresh as the consistency requires
	ended    chan struct{} // closed when Run has returned
	err      error         // of Run; set before ended is closed

	// These fields belong to Run.
	began        time.Time
	next         *state[T] // the state that is published next
	confirmation confirmation
	restarter    restarter // calls the decoder and the indexes

	member   atomic.Pointer[member] // nil until Run takes part in the watch
	handling sync.WaitGroup         // the goroutines of the handlers and of OnInterruption

	mu         sync.Mutex
	phase      informerPhase     // guarded by mu
	ctx        context.Context   // of Run; guarded by mu
	handlers   []*handlerLoop[T] // guarded by mu
	invalid    failures          // the objects that cannot be decoded; guarded by mu
	published  int64             // the number of the present state; 0: there is none; guarded by mu
	firstState int64             // the first state for WaitForState; 0: there is none yet; guarded by mu
	firstFresh int64             // the first state for WaitForSync; 0: there is none yet; guarded by mu
}

// informerPhase is the stage of an informer: before, during or after Run.
type informerPhase uint8

const (
	informerNew informerPhase = iota
	informerRuns
	informerEnded
)

// index finds items by the values that a function derives from them.
type index[T any] struct {
	name   string
	values func(Item[T]) []string
}

// InformerOption is an option of [NewInformer]: a [Selection], a [DeliveryOption], a
// [Consistency], [Resync] or [LastKnownGood].
type InformerOption interface{ inform(*informerConfig) }

// informerConfig is an informer as its options describe it.
type informerConfig struct {
	watch  []WatchOption
	resync time.Duration
	file   *stateFile // nil: the state is not saved
}

type informerOption func(*informerConfig)

func (o informerOption) inform(c *informerConfig) { o(c) }

// Resync makes the informer pass every item to its handlers at this interval, as an
// Update without a change. Use it where handlers must undo what other
// programs change without fanoutd. Default: never.
func Resync(interval time.Duration) InformerOption {
	return informerOption(func(c *informerConfig) { c.resync = interval })
}

// NewInformer returns an informer of the objects that the options select. It does
// nothing until Run is called.
func NewInformer[T any](r *Resource, decode Decoder[T], opts ...InformerOption) *Informer[T] {
	i := &Informer[T]{
		resource: r, decode: decode,
		started: make(chan struct{}), hasState: make(chan struct{}), synced: make(chan struct{}), ended: make(chan struct{}), invalid: failures{},
	}
	for _, o := range opts {
		o.inform(&i.config)
	}
	i.current.Store(newState[T](0))
	w := r.newWatcher(i.config.watch)
	i.consistency, i.fresh.limit = w.consistency, w.freshFor()
	return i
}

// AddIndex adds an index for [Lister.ByIndex]: an item is found under each of the values
// that the function returns for it. The function must be pure. AddIndex panics if the
// informer runs already, or has an index of this name.
func (i *Informer[T]) AddIndex(name string, values func(Item[T]) []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase != informerNew {
		panic("client: AddIndex after Run")
	}
	for _, other := range i.indexes {
		if other.name == name {
			panic(fmt.Sprintf("client: there are two indexes %q", name))
		}
	}
	i.indexes = append(i.indexes, index[T]{name, values})
	i.current.Store(newState[T](len(i.indexes)))
}

// Lister returns a reader of the state.
func (i *Informer[T]) Lister() Lister[T] { return Lister[T]{i} }

var errSecondRun = errors.New("an informer can run only once")

// Run keeps the state up to date until ctx ends, or the watch ends with an error that
// no retry can help, and returns that error; see [Resource.Watch]. Run can be called once.
//
// Run waits for the goroutines that it starts: its own, one for each handler and each [OnInterruption], one that
// saves the state if there is a file, and one that watches, unless another informer shares the watch. So Run returns
// after the last call of a handler has returned, but at most ten seconds after its end: a handler that
// still runs then goes on alone. ctx tells handlers that they must return.
func (i *Informer[T]) Run(ctx context.Context) (err error) {
	if !i.startHandlers(ctx) {
		return errSecondRun
	}
	defer i.resource.client.list(i)()
	defer func() {
		i.err = err
		close(i.ended)
	}()
	defer i.stopHandlers()
	defer i.fresh.end()
	defer context.AfterFunc(ctx, i.fresh.end)()
	if err := i.config.file.check(); err != nil {
		return err
	}
	i.began = time.Now()
	if i.consistency.GetAny() == nil {
		i.fresh.interrupt(i.began.Add(-1)) // what was known before does not count
	}
	i.next = newState[T](len(i.indexes))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return i.startRun(ctx).wait()
}

// apply applies a change to the next state, which was right up to the position before. It returns false
// if the change concerns no entry.
func (i *Informer[T]) apply(c change[*Object], before Position) (change[*entry[T]], bool) {
	key := c.key()
	old := i.next.get(key)
	if c.new == nil {
		i.next.remove(key)
		return change[*entry[T]]{old: old, since: c.since}, old != nil
	}
	e := i.entryOf(c.new, old, before.Revision)
	i.next.put(key, e)
	return change[*entry[T]]{old: old, new: e, since: c.since}, true
}

// publish publishes the state after a step.
func (i *Informer[T]) publish(s *step[*entry[T]]) {
	published := i.next.copy()
	i.mu.Lock()
	i.published++
	s.number = i.published
	for c := range s.all() {
		if c.new != nil && c.new.invalid != nil {
			i.invalid.add(c.key(), failure{before: s.before(c), revision: c.new.revision(), err: c.new.invalid})
		} else {
			delete(i.invalid, c.key())
		}
	}
	i.current.Store(published)
	for _, l := range i.handlers {
		l.queue.put(s)
	}
	if s.synced && i.firstState == 0 {
		i.firstState = s.number
		close(i.hasState)
	}
	if i.firstFresh == 0 && i.isFreshEnough(published) {
		i.firstFresh = s.number
		close(i.synced)
	}
	i.mu.Unlock()
	i.progressed()
}

// isFreshEnough reports whether a state is as fresh as the consistency of the informer requires.
func (i *Informer[T]) isFreshEnough(s *state[T]) bool {
	if s.asOf.IsZero() {
		return false
	}
	switch level := i.consistency.GetLevel().(type) {
	case nil:
		return !s.asOf.Before(i.began)
	case *fanoutv1.ReadConsistency_MinRevision:
		return s.position.Revision >= level.MinRevision
	}
	return true
}

// progress returns how far the informer and its handlers have applied the watch. An object that
// cannot be decoded is not applied.
func (i *Informer[T]) progress() progress {
	i.mu.Lock()
	defer i.mu.Unlock()
	p := i.invalid.progress(i.current.Load().position)
	for _, l := range i.handlers {
		p = p.lower(l.progress())
	}
	return p
}

// progressed makes the client report the progress soon.
func (i *Informer[T]) progressed() {
	if m := i.member.Load(); m != nil {
		m.watch.watcher.reporter.wake()
	}
}

// closeOnce closes a channel unless it is closed already. The callers hold a lock.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
