package cacher

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"
	"golang.org/x/time/rate"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Config configures a cacher. Store, Codec, Preencode and Log are required.
type Config struct {
	Resource  string
	Store     Store
	Codec     object.Codec
	Preencode func(object.Decoded) *object.Object // encodes a new object
	Window    WindowLimits
	Log       *slog.Logger

	// Keys are the keys that values are decrypted with. Default: no value is encrypted.
	Keys Keys

	// MaxTombstones is the number of deletions to remember for clients whose position
	// is older than the window. Default 100,000; each takes about 100 bytes plus its
	// key.
	MaxTombstones int

	// PageSize is the number of records to read from the store at once, unless it is a [Scanner].
	// Default 1,000: with values of some KiB a page is a few MiB.
	PageSize int

	// ReadWait limits how long a read waits for the cacher to reach the revision that
	// it needs, and how long the store may take to return its revision. Default 3 s.
	ReadWait time.Duration

	// ProgressInterval is the time between progress requests while no read is waiting.
	// They advance the revision of a quiet resource. Default 5 s.
	ProgressInterval time.Duration

	// CheckInterval is the time between comparisons of the state with the store. If
	// they differ, the cacher fills again under a new epoch. Default: never.
	CheckInterval time.Duration
}

func (c Config) withDefaults() Config {
	c.Window = c.Window.withDefaults()
	c.MaxTombstones = cmp.Or(c.MaxTombstones, 100_000)
	c.PageSize = cmp.Or(c.PageSize, 1000)
	c.ReadWait = cmp.Or(c.ReadWait, 3*time.Second)
	c.ProgressInterval = cmp.Or(c.ProgressInterval, 5*time.Second)
	return c
}

// Cacher caches one resource.
type Cacher struct {
	cfg           Config
	log           *slog.Logger
	state         atomic.Pointer[State] // the newest state; nil until the first fill
	ready         chan struct{}         // closed when state is set for the first time
	progress      progressDemand
	storeRevision *SharedFetch[object.Revision]
	missingKeys   *MissingKeys

	following   atomic.Bool   // a watch is running and keeps up with the store
	checks      chan struct{} // capacity 1: the watchdog checks the watch now
	updates     atomic.Int64  // number of updates received from watches
	reached     atomic.Int64  // position.Revision, for readers other than Run
	lastContact latestTime    // see LastContact
	fresh       Freshness
	counts      counts
	opaque      opaqueCount

	// The fields below belong to the goroutine in Run.

	storeEpoch       object.Epoch // as the store names it; readers see position.Epoch
	invalidPositions bool         // positions that were sent must not be resumed
	lacksKeys        bool         // some values could not be decrypted: their key is missing
	mustRefill       bool         // see keysChanged
	undecryptable    int          // number of objects whose value cannot be decrypted
	received         time.Time    // when the changes that are being applied were received
	position         object.Position
	objects          *btree.BTreeG[*object.Object]
	window           window
	changes          changeIndex
	publishFrom      object.Revision // the store's revision when filling began; older states are not published
	publishAsked     time.Time       // when the store was asked for publishFrom; zero once the state is there
	filling          bool            // the state was filled and has not reached publishFrom yet
}

// New returns a cacher. It does nothing until [Cacher.Run] is called.
func New(cfg Config) *Cacher {
	cfg = cfg.withDefaults()
	return &Cacher{
		cfg:           cfg,
		log:           cfg.Log.With("resource", cfg.Resource),
		ready:         make(chan struct{}),
		progress:      progressDemand{requests: make(chan struct{}, 1), limit: rate.Sometimes{Interval: minRequestInterval}},
		checks:        make(chan struct{}, 1),
		storeRevision: NewSharedFetch(cfg.Store.Revision, cfg.ReadWait),
		missingKeys:   NewMissingKeys(cfg.Keys),
	}
}

// State returns the newest state, or nil before the first one is complete.
func (c *Cacher) State() *State { return c.state.Load() }

// Ready returns a channel that is closed when the first state is complete.
func (c *Cacher) Ready() <-chan struct{} { return c.ready }

// Following reports whether the state keeps up with the store. It is false while the
// store is away or the cacher is catching up; the state may then be old.
func (c *Cacher) Following() bool { return c.following.Load() }

// LastContact returns the last time at which the state is known to have contained
// everything that the store sent or had: an update arrived, or the store confirmed that
// there is nothing newer. It is the zero time if the store has not answered yet.
// It is a time of the wall clock, so its age includes the time in which the machine was suspended.
func (c *Cacher) LastContact() time.Time { return c.lastContact.get().Round(0) }

// maxUnconfirmed is how long ago the store may have confirmed the state before Advance asks for
// more than progress.
const maxUnconfirmed = time.Second

// Advance requests progress from the store, so that the revision of a quiet resource
// advances soon. It does not wait. If the last requests were not answered, the watchdog asks the
// store for its revision: etcd does not answer while nothing at all is written.
func (c *Cacher) Advance() {
	c.progress.requestSoon()
	if time.Since(c.Confirmed()) >= maxUnconfirmed {
		c.checkSoon()
	}
}

// Counts are counters of a cacher since it was created. They never decrease.
type Counts struct {
	// Changes is the number of changes applied, including the differences found by
	// relists. Objects of a fill are not changes.
	Changes int64

	// Fills is how often the resource was read from scratch: at start, in a new epoch,
	// after a mismatch.
	Fills int64

	// Relists is how often the resource was listed again because the store had
	// compacted the next revision.
	Relists int64

	// Interruptions is how often the store was lost and tried again after a pause.
	Interruptions int64

	// Mismatches is how often the state was found to differ from the store.
	Mismatches int64

	// Opaque is the number of values that the codec could not decode, each key and
	// revision counted once. The values of the first 1,000 keys are also logged.
	Opaque int64
}

type counts struct {
	changes, fills, relists, interruptions, mismatches atomic.Int64
}

// Counts returns the counters.
func (c *Cacher) Counts() Counts {
	return Counts{
		Changes:       c.counts.changes.Load(),
		Fills:         c.counts.fills.Load(),
		Relists:       c.counts.relists.Load(),
		Interruptions: c.counts.interruptions.Load(),
		Mismatches:    c.counts.mismatches.Load(),
		Opaque:        c.opaque.total.Load(),
	}
}
