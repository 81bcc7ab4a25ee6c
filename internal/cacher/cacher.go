package cacher

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Config says what a cacher caches. Store, Codec, Preencode and Log are required.
type Config struct {
	Resource  string
	Store     Store
	Codec     object.Codec
	Preencode func(*object.Object) // completes a new object, before anyone sees it
	Window    WindowLimits
	Log       *slog.Logger

	// Keys are what values are decrypted with. Default: none are encrypted.
	Keys Keys

	// MaxTombstones is the number of deletions that are remembered to tell those
	// who were away longer than the window reaches back. Default 100,000; each
	// takes about 100 bytes and its key.
	MaxTombstones int

	// PageSize is the number of records read from the store at once while
	// filling. Default 1,000: with values of some KiB a page is a few MiB.
	PageSize int

	// ReadWait is how long a read waits for the cacher to reach the revision it
	// needs, and for the store to say which that is. Default 3 s.
	ReadWait time.Duration

	// ProgressInterval is how often the store is asked how far it is while nobody
	// waits for it, so that the revision of a quiet resource advances. Default 5 s.
	ProgressInterval time.Duration

	// CheckInterval is how often the state is compared with the store. Where they
	// differ everything begins anew, under another epoch. Default: never.
	CheckInterval time.Duration
}

func (c Config) withDefaults() Config {
	set := func(v *int, byDefault int) {
		if *v == 0 {
			*v = byDefault
		}
	}
	c.Window = c.Window.withDefaults()
	set(&c.MaxTombstones, 100_000)
	set(&c.PageSize, 1000)
	if c.ReadWait == 0 {
		c.ReadWait = 3 * time.Second
	}
	if c.ProgressInterval == 0 {
		c.ProgressInterval = 5 * time.Second
	}
	return c
}

// Cacher caches one resource.
type Cacher struct {
	cfg   Config
	log   *slog.Logger
	state atomic.Pointer[State] // the newest; nil until the first fill
	ready chan struct{}         // closed when state is set for the first time

	following  atomic.Bool  // a watch of the store is running and has been heard of
	heard      atomic.Int64 // counts what watches said
	reached    atomic.Int64 // position.Revision, for those who are not Run
	heardAt    atomic.Int64 // when the store had nothing that is not in the state; Unix nanoseconds, 0: never
	mismatches atomic.Int64 // counts what audits found
	counts     counts
	progress   progressDemand
	current    *Current[object.Revision]
	missing    *Missing

	// What follows belongs to the goroutine in Run.

	storeEpoch  object.Epoch // what the store calls it; position.Epoch is what readers see
	discredited bool         // positions that were given out are not to be trusted
	locked      bool         // there are values that wait for a key
	relock      bool         // the state is to be read anew, see relocked
	unreadable  int          // objects whose values cannot be decrypted
	now         time.Time    // when what is being applied was received
	position    object.Position
	objects     *btree.BTreeG[*object.Object]
	window      window
	traces      traces
	relisted    object.Revision
	target      object.Revision // publish nothing older: the store was here when filling began
	opaque      opaqueLog
}

// New returns a cacher that does nothing until it is run.
func New(cfg Config) *Cacher {
	cfg = cfg.withDefaults()
	c := &Cacher{
		cfg:      cfg,
		log:      cfg.Log.With("resource", cfg.Resource),
		ready:    make(chan struct{}),
		progress: newProgressDemand(),
		current:  NewCurrent(cfg.Store.Revision),
		missing:  NewMissing(cfg.Keys),
	}
	return c
}

// State returns the newest state, or nil before the first one is complete.
func (c *Cacher) State() *State { return c.state.Load() }

// Ready returns a channel that is closed when the first state is complete.
func (c *Cacher) Ready() <-chan struct{} { return c.ready }

// Following reports whether the state keeps up with the store. While it is false
// the state may be old: the store is away, or the cacher is catching up.
func (c *Cacher) Following() bool { return c.following.Load() }

// Heard returns when the store has last said anything, be it only how far it is and
// that this is no further than the state; the zero time where it has not. What the
// store had then is in the state.
func (c *Cacher) Heard() time.Time {
	at := c.heardAt.Load()
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at)
}

// StoreRevision asks the store for its revision. Callers who wait share a question.
// Errors are those of [Cacher.Read].
func (c *Cacher) StoreRevision(ctx context.Context) (object.Revision, error) {
	waiting, cancel := context.WithTimeout(ctx, c.cfg.ReadWait)
	defer cancel()
	r, err := c.current.Get(waiting)
	if err != nil {
		return 0, readError(ctx, err)
	}
	return r, nil
}

// Advance asks the store how far it is, so that the revision of a quiet resource
// advances soon. It does not wait.
func (c *Cacher) Advance() { c.progress.hint() }

// apply brings the state forward by an update of the store and publishes it.
func (c *Cacher) apply(u object.Update) {
	c.now = time.Now()
	for i := range u.Records {
		r := &u.Records[i]
		if r.Deleted {
			c.change(r.Key, r.ModRevision, nil)
		} else {
			c.change(r.Key, r.ModRevision, c.build(r))
		}
	}
	c.advance(u.Through)
}

// change puts o, or nothing if it is nil, in the place of key.
func (c *Cacher) change(key object.Key, at object.Revision, o *object.Object) {
	var old *object.Object
	if o != nil {
		old, _ = c.objects.Set(o)
		c.traces.put(old, o)
	} else {
		old, _ = c.objects.Delete(&object.Object{Key: key})
		if old == nil {
			// Created and deleted before it could be listed, or a deletion that a
			// relist has already told.
			return
		}
		c.traces.bury(old, at)
	}
	c.unreadable += undecryptable(o) - undecryptable(old)
	c.counts.changes.Add(1)
	c.window.append(object.Change{Revision: at, Key: key, Old: old, New: o}, c.now)
}

// undecryptable returns 1 for an object whose value cannot be decrypted, else 0.
func undecryptable(o *object.Object) int {
	if o != nil && o.Undecryptable {
		return 1
	}
	return 0
}

// advance says that all changes up to the revision have been applied.
func (c *Cacher) advance(to object.Revision) {
	if to > c.position.Revision {
		c.position.Revision = to
		c.reached.Store(int64(to))
	}
	c.opaque.settle(to)
	c.window.trim(c.cfg.Window, time.Now())
	if c.position.Revision >= c.target {
		c.publish()
	}
}

// publish makes the writer's state the one that everybody sees. The state is
// complete before the pointer to it is stored, and the pointer is stored before
// those who wait for it are woken.
func (c *Cacher) publish() {
	previous := c.state.Load()
	if previous != nil && previous.position == c.position {
		return
	}
	c.state.Store(&State{
		position:   c.position,
		objects:    c.objects.Copy(),
		window:     c.window,
		traces:     c.traces.freeze(),
		unreadable: c.unreadable,
		relisted:   c.relisted,
		published:  time.Now(),
		superseded: make(chan struct{}),
	})
	if previous == nil {
		close(c.ready)
	} else {
		close(previous.superseded)
	}
}

// build makes the object that a record holds, and notes if it does not decode.
func (c *Cacher) build(r *object.Record) *object.Object {
	o, err := c.decode(r)
	if err != nil {
		c.opaque.note(c.log, r, err)
	}
	return o
}

// decode makes the object that a record holds. It does so in any case; the error
// says why the object is opaque.
func (c *Cacher) decode(r *object.Record) (*object.Object, error) {
	o, err := object.Build(c.cfg.Codec, r)
	c.cfg.Preencode(o)
	return o, err
}

// Run fills the cacher and keeps it up to date until ctx is done. It returns
// when everything it started has ended. Failures of the store are logged and
// tried again; readers see them in [Cacher.Following].
func (c *Cacher) Run(ctx context.Context) {
	backoff := newBackoff()
	for ctx.Err() == nil {
		err := c.session(ctx, backoff.reset)
		c.following.Store(false)
		if ctx.Err() != nil {
			return
		}
		c.counts.interruptions.Add(1)
		wait := backoff.next()
		level, message := slog.LevelWarn, "lost the store, trying again"
		switch {
		case errors.Is(err, errMismatch):
			level = slog.LevelError // a bug, here or in the store
		case errors.Is(err, errLocked), errors.Is(err, errUnlocked):
			message = "beginning anew, under another epoch"
		}
		c.log.Log(ctx, level, message, "error", err, "in", wait)
		sleep(ctx, wait)
	}
}
