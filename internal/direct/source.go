package direct

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Store is what is needed of the place where the objects of the resource are kept.
// All keys are relative to the resource. All methods may be called from any
// goroutine.
//
// Errors wrap [object.ErrCompacted] where the asked revision is gone and
// [object.ErrUnavailable] where a later try may succeed.
type Store interface {
	// Position returns the store's epoch and its revision, not older than any
	// write that was acknowledged before the call.
	Position(ctx context.Context) (object.Position, error)

	// Oldest returns the oldest revision from floor (at least 1) to ceiling, the
	// store's present revision, that can still be listed.
	Oldest(ctx context.Context, floor, ceiling object.Revision) (object.Revision, error)

	// ListScope returns at most limit records of the scope with keys from start
	// on, in ascending byte order of keys, as they were at revision at, and whether
	// there are more.
	ListScope(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) (records []object.Record, more bool, err error)

	// Follow calls deliver with every change of the scope after the position, in
	// order, all of one revision at once, until an error ends it. Previous says for
	// each record what was there before; nil: nothing, or it is forgotten. An
	// update without records says how far the store is; receiving from ask makes it
	// come soon, unless the store is not beyond the position yet. It is an error,
	// [object.ErrUnavailable], if the position is not of the store's epoch.
	WatchScope(ctx context.Context, scope object.Scope, after object.Position, ask <-chan struct{},
		deliver func(u object.Update, previous []*object.Record) error) error
}

// Config says what to serve. Resource, Store, Codec, Preencode, Encoder and Log are
// required.
type Config struct {
	Resource  string
	Store     Store
	Codec     object.Codec
	Preencode func(*object.Object) // completes a new object, before anyone sees it
	Encoder   dispatch.Encoder
	Log       *slog.Logger

	// Keys are what values are decrypted with. Default: none are encrypted.
	Keys cacher.Keys

	// MessageBytes is the size of the events in one message, unless one event or
	// one revision is larger. Default 1 MiB.
	MessageBytes int

	// BufferBytes is the size of the changes that are kept for a watcher that does
	// not read. Default 4 MiB.
	BufferBytes int

	// PageSize is the number of records read from the store at once, at most.
	// Default 500.
	PageSize int

	// PageBytes is about the size of the values read from the store at once: a
	// watcher that does not read keeps a page of its snapshot. It is not kept where
	// values are much larger than those before them, and the first page, of no more
	// than 32 records, is read before anything is known of their size. Default 4 MiB.
	PageBytes int

	// ReadWait is how long the store may take to say where it is. Default 3 s.
	ReadWait time.Duration

	// ProgressInterval is about how often the store is asked how far each of its
	// watches is, so that the positions of quiet watchers advance. Default 5 s.
	ProgressInterval time.Duration
}

// Source serves one resource.
type Source struct {
	cfg       Config
	log       *slog.Logger
	opaque    atomic.Int64 // number of values that could not be decoded
	opaqueLog cacher.OpaqueLog
	current   *cacher.SharedFetch[object.Position]
	missing   *cacher.MissingKeys // of what watchers were told

	loaded    atomic.Bool  // the store has answered at least once
	following atomic.Bool  // the store answered when it was last asked
	lostAt    atomic.Int64 // when it was last logged that a watch was lost; Unix nanoseconds
}

// New returns a source. It serves at once; see [Source.Run].
func New(cfg Config) *Source {
	set := func(v *int, byDefault int) {
		if *v == 0 {
			*v = byDefault
		}
	}
	set(&cfg.MessageBytes, 1<<20)
	set(&cfg.BufferBytes, 4<<20)
	set(&cfg.PageSize, 500)
	set(&cfg.PageBytes, 4<<20)
	if cfg.ReadWait == 0 {
		cfg.ReadWait = 3 * time.Second
	}
	if cfg.ProgressInterval == 0 {
		cfg.ProgressInterval = 5 * time.Second
	}
	return &Source{
		cfg: cfg, log: cfg.Log.With("resource", cfg.Resource),
		current: cacher.NewSharedFetch(cfg.Store.Position), missing: cacher.NewMissingKeys(cfg.Keys),
	}
}

// probeInterval is how often Run asks whether the store is there.
const probeInterval = 2 * time.Second

// Run keeps [Source.Loaded] and [Source.Following] up to date until ctx is done.
func (s *Source) Run(ctx context.Context) {
	for timer := time.NewTimer(0); ; timer.Reset(probeInterval) {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		_, err := s.Position(ctx, 0)
		if ctx.Err() != nil {
			return
		}
		switch follows := err == nil; {
		case s.following.Swap(follows) == follows:
		case follows:
			s.log.Info("the store answers")
		default:
			s.log.Warn("the store does not answer", "error", err)
		}
		if err == nil {
			s.loaded.Store(true)
		}
	}
}

// lostWatchEvery is how often it is logged at most that a watch was lost: all
// watchers lose theirs at the same time.
const lostWatchEvery = 10 * time.Second

// lostWatch logs that a watcher has lost its watch of the store and opens another.
func (s *Source) lostWatch(err error) {
	last, now := s.lostAt.Load(), time.Now().UnixNano()
	if now-last >= int64(lostWatchEvery) && s.lostAt.CompareAndSwap(last, now) {
		s.log.Warn("a watcher lost its watch of the store and tries again; perhaps others, too", "error", err)
	}
}

// Loaded reports whether the store has been reached.
func (s *Source) Loaded() bool { return s.loaded.Load() }

// Following reports whether the store was there when it was last asked.
func (s *Source) Following() bool { return s.following.Load() }

// Opaque returns the number of values so far that the codec could not decode, each
// key and revision counted once. Those of 1,000 keys are remembered; others are
// served all the same, and neither counted nor logged.
func (s *Source) Opaque() int64 { return s.opaque.Load() }

// Position returns where the resource is: not older than any write that was
// acknowledged before the call, and not older than needed. Those who ask at the same
// time, watchers among them, share one question to the store.
//
// Errors: [*cacher.FutureError] where the needed revision does not exist yet,
// [object.ErrUnavailable] where the store does not answer in time, and ctx.Err()
// where the caller gave up.
func (s *Source) Position(ctx context.Context, needed object.Revision) (object.Position, error) {
	waiting, cancel := context.WithTimeout(ctx, s.cfg.ReadWait)
	defer cancel()
	p, err := s.current.Get(waiting)
	p.Epoch = s.epoch(p.Epoch)
	switch {
	case err == nil && needed > p.Revision:
		err = &cacher.FutureError{Asked: needed, Current: p.Revision}
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("learn the revision of the store: %w", object.ErrUnavailable)
	}
	return p, err
}

// Oldest returns the oldest revision from floor on that can still be read, or 0
// where that cannot be found out.
func (s *Source) Oldest(ctx context.Context, floor object.Revision) object.Revision {
	now, err := s.Position(ctx, 0)
	if err != nil {
		return 0
	}
	oldest, err := s.cfg.Store.Oldest(ctx, max(1, min(floor, now.Revision)), now.Revision)
	if err != nil {
		return 0
	}
	return oldest
}

// Objects returns the objects of the scope with keys from start on as they were at
// a revision, in ascending order of keys, read page by page. An error ends them; it
// wraps [object.ErrCompacted] where the store has forgotten the revision.
func (s *Source) Objects(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		for p := (page{at: at, scope: scope, start: start, more: true}); p.more; {
			if err := s.next(ctx, &p); err != nil {
				yield(nil, err)
				return
			}
			for _, o := range p.objects {
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}
