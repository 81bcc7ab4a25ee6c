package direct

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Store holds the objects of the resource. Oldest, List and Watch, errors and concurrency are
// those of [cacher.Store].
type Store interface {
	// Position returns the store's epoch and revision. The revision is at least as new
	// as every write that was acknowledged before the call.
	Position(ctx context.Context) (object.Position, error)

	Oldest(ctx context.Context, floor, ceiling object.Revision) (object.Revision, error)
	List(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) (records []object.Record, more bool, err error)
	Watch(ctx context.Context, scope object.Scope, after object.Position, previous bool) (object.Watch, error)

	// Count returns the number of records that List would return without a limit.
	Count(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) (int64, error)
}

// Config configures a source. Resource, Store, Codec, Preencode, Encoder and Log are
// required.
type Config struct {
	Resource  string
	Store     Store
	Codec     object.Codec
	Preencode func(object.Decoded) *object.Object // encodes a new object
	Encoder   feed.Encoder
	Log       *slog.Logger

	// Keys are the keys that values are decrypted with. Default: no value is encrypted.
	Keys cacher.Keys

	// MessageBytes limits the size of the events in one message. Only a single event or
	// a single revision may be larger. Default 1 MiB.
	MessageBytes int

	// BufferBytes limits the changes that are buffered for a watch whose client does not
	// read. Default 4 MiB.
	BufferBytes int

	// PageSize is the largest number of records to read from the store at once. The store returns
	// fewer if they are large. Default 500.
	PageSize int

	// ReadWait limits how long the store may take to return its position. Default 3 s.
	ReadWait time.Duration

	// ProgressInterval is the approximate time between checks whether a watch of the
	// store keeps up with it. The checks advance the positions of quiet watches.
	// Default 5 s.
	ProgressInterval time.Duration
}

// Source serves one resource.
type Source struct {
	cfg         Config
	log         *slog.Logger
	position    *cacher.SharedFetch[object.Position]
	missingKeys *cacher.MissingKeys // of the values sent to watches

	opaque    atomic.Int64 // number of values that could not be decoded
	opaqueLog cacher.OpaqueLog

	loaded    atomic.Bool    // the store has answered at least once
	following atomic.Bool    // the store answered the last request
	lostLog   rate.Sometimes // limits the log lines of lost watches: all readers lose theirs at the same time
}

// lostLogInterval is the shortest time between two log lines of lost watches.
const lostLogInterval = 10 * time.Second

// New returns a source. It serves at once; [Source.Run] only observes the store.
func New(cfg Config) *Source {
	cfg.MessageBytes = cmp.Or(cfg.MessageBytes, 1<<20)
	cfg.BufferBytes = cmp.Or(cfg.BufferBytes, 4<<20)
	cfg.PageSize = cmp.Or(cfg.PageSize, 500)
	cfg.ReadWait = cmp.Or(cfg.ReadWait, 3*time.Second)
	cfg.ProgressInterval = cmp.Or(cfg.ProgressInterval, 5*time.Second)
	return &Source{
		cfg: cfg, log: cfg.Log.With("resource", cfg.Resource),
		position: cacher.NewSharedFetch(cfg.Store.Position, cfg.ReadWait), missingKeys: cacher.NewMissingKeys(cfg.Keys),
		lostLog: rate.Sometimes{Interval: lostLogInterval},
	}
}

// probeInterval is the time between requests of Run to the store.
const probeInterval = 2 * time.Second

// Run keeps [Source.Loaded] and [Source.Following] up to date until ctx is done.
func (s *Source) Run(ctx context.Context) {
	for running := true; running; running = backoff.Sleep(ctx, probeInterval) {
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

// Loaded reports whether the store has answered at least once.
func (s *Source) Loaded() bool { return s.loaded.Load() }

// Following reports whether the store answered the last request of [Source.Run].
func (s *Source) Following() bool { return s.following.Load() }

// Opaque returns the number of values that the codec could not decode, each key and
// revision counted once. Only the first 1,000 keys are counted and logged.
func (s *Source) Opaque() int64 { return s.opaque.Load() }
