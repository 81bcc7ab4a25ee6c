package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Informer keeps a copy of a part of a resource, decoded and indexed, and tells
// handlers what changes in it. Several informers may share a client.
//
// The copy is complete as of a position at any time: what belongs together, such as
// a transaction, is seen together, and while the state is replaced after a long
// interruption the old one stays until the new one is there.
type Informer[T any] struct {
	resource *Resource
	decode   Decoder[T]
	informing
	indexes []index[T] // fixed when Run begins

	current atomic.Pointer[view[T]]
	stale   atomic.Bool
	ready   chan struct{} // closed when there is a state
	synced  chan struct{} // closed when it was confirmed by a server
	ended   chan struct{} // closed when Run has returned
	err     error         // of Run, once ended is closed

	handlers []*Handler[T] // those who have been told the state; of Run

	mu        sync.Mutex
	running   bool          // guarded by mu
	newcomers []*Handler[T] // not told yet; guarded by mu
	wake      chan struct{} // has room for one: there are newcomers
}

// index finds items by values.
type index[T any] struct {
	name   string
	values func(Item[T]) []string
}

// InformerOption is an option of [NewInformer]. Selections are, and the options of
// watches that an informer can have.
type InformerOption interface{ inform(*informing) }

// informing is what an informer was asked for.
type informing struct {
	watch  []WatchOption
	resync time.Duration
	save   *goodFile
}

// Resync has handlers told at this interval of every item again, as an Update in
// which nothing has changed: for those who correct what others have changed behind
// their backs. Default: never.
func Resync(interval time.Duration) InformerOption {
	return informerOption(func(i *informing) { i.resync = interval })
}

type informerOption func(*informing)

func (o informerOption) inform(i *informing) { o(i) }

// NewInformer returns an informer of the objects of a resource that the options
// select. It does nothing until it is run.
func NewInformer[T any](r *Resource, decode Decoder[T], opts ...InformerOption) *Informer[T] {
	i := &Informer[T]{
		resource: r, decode: decode,
		ready: make(chan struct{}), synced: make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	for _, o := range opts {
		o.inform(&i.informing)
	}
	i.current.Store(newView[T](0))
	i.stale.Store(true)
	return i
}

// AddIndex has items found by the values that a function gives them, with
// [Lister.ByIndex]. The function must do nothing but compute. Indexes are added
// before the informer runs; AddIndex panics later, and if there is one of that name.
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
	i.current.Store(newView[T](len(i.indexes)))
}

// AddHandler has a handler told of what changes. One that is added later is told of
// all items there are, as Add, before anything else.
func (i *Informer[T]) AddHandler(h Handler[T]) {
	i.mu.Lock()
	i.newcomers = append(i.newcomers, &h)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// Lister returns what reads the state.
func (i *Informer[T]) Lister() Lister[T] { return Lister[T]{i} }

// WaitForSync waits until the state was confirmed by a server and the handlers know
// it. It returns an error if ctx ends first, or Run does.
func (i *Informer[T]) WaitForSync(ctx context.Context) error { return i.wait(ctx, i.synced) }

// WaitForState waits until there is a state, be it a stale one that was saved
// ([LastKnownGood]), and the handlers know it.
func (i *Informer[T]) WaitForState(ctx context.Context) error { return i.wait(ctx, i.ready) }

func (i *Informer[T]) wait(ctx context.Context, milestone <-chan struct{}) error {
	select {
	case <-milestone:
		return nil
	case <-i.ended:
		select {
		case <-milestone:
			return nil
		default:
		}
		return fmt.Errorf("the informer has ended: %w", i.err)
	case <-ctx.Done():
		return fmt.Errorf("wait for the state of %s: %w", i.resource.name, context.Cause(ctx))
	}
}

// errSecondRun is what a second Run gets.
var errSecondRun = errors.New("an informer is run once")

// heard is what the watch has to say.
type heard struct {
	update      *Update
	interrupted bool
}

// Run keeps the state up to date until ctx ends or the watch does; it returns why,
// as [Resource.Watch] says. Handlers are called by the goroutine that calls Run. It
// can be called once.
func (i *Informer[T]) Run(ctx context.Context) (err error) {
	i.mu.Lock()
	second := i.running
	i.running = true
	i.mu.Unlock()
	if second {
		return errSecondRun
	}
	defer func() {
		i.stale.Store(true)
		i.err = err
		close(i.ended)
	}()
	r := &replica[T]{informer: i, next: newView[T](len(i.indexes))}
	saver := i.startSaving(r)
	defer saver.stop()
	i.introduce()

	ctx, cancel := context.WithCancel(ctx)
	hear, watched := make(chan heard), make(chan error, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { watched <- i.listen(ctx, i.Lister().Position(), hear) })
	resync, stop := ticks(i.resync)
	defer stop()
	for {
		select {
		case h := <-hear:
			i.introduce()
			i.hear(r, h)
			saver.notice()
		case <-i.wake:
			i.introduce()
		case <-resync:
			i.tellAgain()
		case err := <-saver.failures:
			i.report(nil, err)
		case err := <-watched:
			return err
		}
	}
}

// ticks returns a channel on which something comes at an interval; 0 is never.
func ticks(interval time.Duration) (ticks <-chan time.Time, stop func()) {
	if interval <= 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(interval)
	return ticker.C, ticker.Stop
}

// listen watches, and hands on what it hears when Run is ready for it.
func (i *Informer[T]) listen(ctx context.Context, after Position, hear chan<- heard) error {
	say := func(h heard) {
		select {
		case hear <- h:
		case <-ctx.Done():
		}
	}
	opts := append(i.watch[:len(i.watch):len(i.watch)], After(after), OnInterruption(func(error) { say(heard{interrupted: true}) }))
	for u, err := range i.resource.Watch(ctx, opts...) {
		if err != nil {
			return err
		}
		say(heard{update: u})
	}
	return nil
}

// hear does what an update, or the lack of them, asks for.
func (i *Informer[T]) hear(r *replica[T], h heard) {
	if h.interrupted {
		i.stale.Store(true)
		return
	}
	next, changes := r.take(h.update)
	if next == nil {
		return
	}
	i.current.Store(next)
	if h.update.Synced {
		i.stale.Store(false)
	}
	i.tell(changes)
	if h.update.Synced {
		i.reach(i.ready)
		i.reach(i.synced)
	}
}

// reach closes a channel that may be closed.
func (i *Informer[T]) reach(milestone chan struct{}) {
	select {
	case <-milestone:
	default:
		close(milestone)
	}
}

func (i *Informer[T]) tell(changes []change[T]) {
	for _, c := range changes {
		for _, h := range i.handlers {
			h.tell(c)
		}
	}
}

// introduce tells newcomers the state.
func (i *Informer[T]) introduce() {
	i.mu.Lock()
	newcomers := i.newcomers
	i.newcomers = nil
	i.mu.Unlock()
	for _, h := range newcomers {
		i.current.Load().entries.Scan(func(_ string, e *entry[T]) bool {
			if e.good && h.Add != nil {
				h.Add(e.item)
			}
			return true
		})
	}
	i.handlers = append(i.handlers, newcomers...)
}

// tellAgain tells everybody everything.
func (i *Informer[T]) tellAgain() {
	i.current.Load().entries.Scan(func(_ string, e *entry[T]) bool {
		for _, h := range i.handlers {
			if e.good && h.Update != nil {
				h.Update(e.item, e.item)
			}
		}
		return true
	})
}

// report tells of an object that cannot be decoded, or of trouble with the file.
func (i *Informer[T]) report(o *Object, err error) {
	if o != nil {
		err = fmt.Errorf("object %q at revision %d: %w", o.Key, o.ModRevision, err)
	}
	i.resource.client.log.Warn("informer", "resource", i.resource.name, "error", err)
	for _, h := range i.handlers {
		if h.Error != nil {
			h.Error(o, err)
		}
	}
}
