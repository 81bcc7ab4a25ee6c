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
//     see [Handler]. What they may miss is intermediate versions of an object, during
//     an interruption that outlasts the memory of the servers or while the servers
//     lose changes.
//   - A handler that is added late gets the present items first, each as an Add.
//   - A slow handler slows down its informer only. Nothing piles up in memory.
//   - [Lister.Stale] is true unless a server has confirmed the copy a short time ago,
//     also while a handler runs.
//
// Informers may share a client. All methods except Run and AddIndex may be called by
// any goroutine at any time.
type Informer[T any] struct {
	resource *Resource
	decode   Decoder[T]
	config   informerConfig
	indexes  []index[T] // fixed when Run begins

	consistency *fanoutv1.ReadConsistency // what WaitForSync waits for

	current  atomic.Pointer[state[T]]
	fresh    freshness
	hasState chan struct{} // closed when there is a state and the handlers have it
	synced   chan struct{} // closed when, in addition, the state is as fresh as its consistency requires
	ended    chan struct{} // closed when Run has returned
	err      error         // of Run; set before ended is closed

	handlers     []*Handler[T] // those that have the state; only Run uses it
	handlerAdded chan struct{} // wakes Run; buffers one signal

	mu          sync.Mutex
	running     bool          // guarded by mu
	newHandlers []*Handler[T] // do not have the state yet; guarded by mu
}

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
// Update in which nothing has changed. Use it where handlers must undo what other
// programs change without fanoutd. Default: never.
func Resync(interval time.Duration) InformerOption {
	return informerOption(func(c *informerConfig) { c.resync = interval })
}

// NewInformer returns an informer of the objects that the options select. It does
// nothing until Run is called.
func NewInformer[T any](r *Resource, decode Decoder[T], opts ...InformerOption) *Informer[T] {
	i := &Informer[T]{
		resource: r, decode: decode,
		hasState: make(chan struct{}), synced: make(chan struct{}), ended: make(chan struct{}), handlerAdded: make(chan struct{}, 1),
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
	if i.running {
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

// WaitForSync waits until the state is as fresh as the [Consistency] of the informer
// requires, and the handlers have it. By default, the state then has every write that was
// acknowledged before Run was called, so WaitForSync waits while the servers have lost
// etcd. It returns an error if ctx or Run ends first, or if the client is closed first.
func (i *Informer[T]) WaitForSync(ctx context.Context) error { return i.wait(ctx, i.synced) }

// WaitForState waits until there is a state and the handlers have it. Unlike
// [Informer.WaitForSync], it accepts a stale state from the file of [LastKnownGood].
func (i *Informer[T]) WaitForState(ctx context.Context) error { return i.wait(ctx, i.hasState) }

func (i *Informer[T]) wait(ctx context.Context, reached <-chan struct{}) error {
	var err error
	select {
	case <-reached:
		return nil
	case <-i.ended:
		err = fmt.Errorf("the informer has ended: %w", i.err)
	case <-i.resource.client.open.Done():
		err = fmt.Errorf("wait for the state of %s: %w", i.resource.name, ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("wait for the state of %s: %w", i.resource.name, context.Cause(ctx))
	}
	select {
	case <-reached:
		return nil
	default:
	}
	return err
}

var errSecondRun = errors.New("an informer can run only once")

// Run keeps the state up to date until ctx ends, or the watch ends with an error that
// no retry can help, and returns that error; see [Resource.Watch]. The goroutine that
// calls Run also calls the handlers. Run can be called once.
//
// Run waits for the goroutines that it starts: one that watches, and one that saves
// the state if there is a file.
func (i *Informer[T]) Run(ctx context.Context) (err error) {
	i.mu.Lock()
	second := i.running
	i.running = true
	i.mu.Unlock()
	if second {
		return errSecondRun
	}
	defer func() {
		i.fresh.end()
		i.err = err
		close(i.ended)
	}()
	defer context.AfterFunc(ctx, i.fresh.end)()
	began := time.Now()
	if i.consistency.GetAny() == nil {
		i.fresh.interrupt(began.Add(-1)) // what was known before does not count
	}
	b := &stateBuilder[T]{informer: i, next: newState[T](len(i.indexes))}
	saver := i.startSaving(b)
	defer saver.stop()
	i.startHandlers()

	ctx, cancel := context.WithCancel(ctx)
	updates, watched := make(chan *Update), make(chan error, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { watched <- i.watch(ctx, i.Lister().Position(), updates) })
	resync, stop := tick(i.config.resync)
	defer stop()
	for {
		select {
		case u := <-updates:
			i.startHandlers()
			i.handle(b, u, began)
			saver.stateChanged()
		case <-i.handlerAdded:
			i.startHandlers()
		case <-resync:
			i.resyncHandlers()
		case err := <-saver.failures:
			i.reportFile(err)
		case err := <-watched:
			return err
		}
	}
}

// tick returns a channel that delivers ticks at an interval, or never if it is not
// positive.
func tick(interval time.Duration) (ticks <-chan time.Time, stop func()) {
	if interval <= 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(interval)
	return ticker.C, ticker.Stop
}

// watch watches the objects and sends the updates to Run, which may not be ready for them
// yet.
func (i *Informer[T]) watch(ctx context.Context, after Position, updates chan<- *Update) error {
	opts := []WatchOption{After(after), OnInterruption(func(error) { i.fresh.interrupt(time.Now()) })}
	for u, err := range i.resource.Watch(ctx, append(opts, i.config.watch...)...) {
		if err != nil {
			return err
		}
		select {
		case updates <- u:
		case <-ctx.Done():
		}
	}
	return nil
}

// handle publishes the state that an update leads to, then calls the handlers. began is when
// the informer began to watch.
func (i *Informer[T]) handle(b *stateBuilder[T], u *Update, began time.Time) {
	next, changes := b.apply(u)
	if next == nil {
		return
	}
	i.current.Store(next)
	i.notify(changes)
	if u.Synced {
		closeOnce(i.hasState)
	}
	if i.isFreshEnough(u, began) {
		closeOnce(i.synced)
	}
}

// isFreshEnough reports whether the state after an update is as fresh as the consistency of
// the informer requires.
func (i *Informer[T]) isFreshEnough(u *Update, began time.Time) bool {
	if u.AsOf.IsZero() {
		return false
	}
	switch level := i.consistency.GetLevel().(type) {
	case nil:
		return !u.AsOf.Before(began)
	case *fanoutv1.ReadConsistency_MinRevision:
		return u.Position.Revision >= level.MinRevision
	}
	return true
}

// closeOnce closes a channel unless it is closed already. Only Run closes channels, so
// there is no race.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
