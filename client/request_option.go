package client

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// ReadOption is an option of [Resource.Get].
type ReadOption interface{ get(*fanoutv1.GetRequest) }

// ListOption is an option of [Resource.List] and [Resource.ListPage].
type ListOption interface{ list(*listConfig) }

// WatchOption is an option of [Resource.Watch].
type WatchOption interface{ watch(*watchConfig) }

// Selection selects objects: an option of lists, watches and informers.
type Selection interface {
	ListOption
	WatchOption
	InformerOption
}

// Scope selects objects by their keys: [Prefix] or [Key].
type Scope interface {
	Selection
	message() *fanoutv1.Scope
}

// DeliveryOption changes how the server delivers objects and events: an option of
// watches and informers.
type DeliveryOption interface {
	WatchOption
	InformerOption
}

// Consistency is how fresh an answer must be. The default is linearizable: the
// answer includes every write that was acknowledged before the request began.
type Consistency interface {
	ReadOption
	ListOption
	WatchOption
	InformerOption
}

// listConfig is a list as its options describe it.
type listConfig struct {
	req      *fanoutv1.ListRequest
	position *Position // where to store the position of the list; may be nil
}

// watchConfig is a watch as its options describe it.
type watchConfig struct {
	req            *fanoutv1.WatchRequest // the watcher sets begin and consistency
	after          Position
	fromNow        bool
	unreported     bool
	failures       *Failures // nil: the caller reports none
	bookmarks      time.Duration
	onInterruption []func(error)
}

type listOption func(*listConfig)

func (o listOption) list(c *listConfig) { o(c) }

type watchOption func(*watchConfig)

func (o watchOption) watch(c *watchConfig) { o(c) }

type deliveryOption func(*watchConfig)

func (o deliveryOption) watch(c *watchConfig)     { o(c) }
func (o deliveryOption) inform(c *informerConfig) { c.watch = append(c.watch, o) }

// Prefix selects the objects below a path: "team-a" selects "team-a/limits", but
// neither "team-a" nor "team-abc/limits". Default: all objects.
func Prefix(path string) Scope {
	return scope{&fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: path}}}
}

// Key selects the object with exactly this key.
func Key(key string) Scope {
	return scope{&fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: key}}}
}

type scope struct{ *fanoutv1.Scope }

func (s scope) message() *fanoutv1.Scope { return s.Scope }
func (s scope) list(c *listConfig)       { c.req.Scope = s.Scope }
func (s scope) watch(c *watchConfig)     { c.req.Scope = s.Scope }
func (s scope) inform(c *informerConfig) { c.watch = append(c.watch, s) }

// Labels selects objects by their labels, in the syntax of Kubernetes:
// "env=prod,tier in (a,b),!canary". Default: all objects.
func Labels(selector string) Selection { return labels(selector) }

type labels string

func (s labels) list(c *listConfig)       { c.req.LabelSelector = string(s) }
func (s labels) watch(c *watchConfig)     { c.req.LabelSelector = string(s) }
func (s labels) inform(c *informerConfig) { c.watch = append(c.watch, s) }

// Fields selects objects by their fields: "region=eu,owner!=none". The fields are
// key, name (the last segment of the key), and those that the configuration of the
// resource declares. Default: all objects.
func Fields(selector string) Selection { return fields(selector) }

type fields string

func (s fields) list(c *listConfig)       { c.req.FieldSelector = string(s) }
func (s fields) watch(c *watchConfig)     { c.req.FieldSelector = string(s) }
func (s fields) inform(c *informerConfig) { c.watch = append(c.watch, s) }

// MinRevision accepts any state at this revision or later. The revision of your own
// last write makes sure that you read it. The server waits a few seconds for the
// revision to arrive.
func MinRevision(revision int64) Consistency {
	return consistency{&fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_MinRevision{MinRevision: revision}}}
}

// AllowStale accepts the state that the server has in memory, however old it is. The
// server does not ask etcd, so the request works while etcd is unavailable.
func AllowStale() Consistency {
	return consistency{&fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}}
}

// AtRevision asks for the state exactly as it was at this revision. The request fails
// with [ErrRevisionExpired] if the servers no longer have that state.
func AtRevision(revision int64) Consistency {
	return consistency{&fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_ExactRevision{ExactRevision: revision}}}
}

type consistency struct{ *fanoutv1.ReadConsistency }

func (l consistency) get(r *fanoutv1.GetRequest) { r.Consistency = l.ReadConsistency }
func (l consistency) list(c *listConfig)         { c.req.Consistency = l.ReadConsistency }
func (l consistency) watch(c *watchConfig)       { c.req.Consistency = l.ReadConsistency }
func (l consistency) inform(c *informerConfig)   { c.watch = append(c.watch, l) }

// PageSize sets the largest number of objects in a page, at most 10,000. Default: as
// many as fit into a message of about 3 MiB.
func PageSize(objects int) ListOption {
	return listOption(func(c *listConfig) { c.req.PageSize = int32(min(max(objects, 0), 1<<30)) })
}

// PageToken continues a list that [Resource.ListPage] began. The selection must be
// the same as on the first page.
func PageToken(token string) ListOption {
	return listOption(func(c *listConfig) { c.req.PageToken = token })
}

// StartKey leaves out the objects whose keys sort before this one.
func StartKey(key string) ListOption {
	return listOption(func(c *listConfig) { c.req.StartKey = key })
}

// ListPosition stores the position of the list in p before the first object is
// returned. A [Resource.Watch] with [After] that position continues where the list
// ends.
func ListPosition(p *Position) ListOption { return listOption(func(c *listConfig) { c.position = p }) }

// After begins a watch after a position, such as that of the last [Update] that the
// caller has applied. The server sends what changed since then, or the whole state if
// it no longer knows the position. The zero position is the same as no position. A
// [Consistency] has no effect together with After.
func After(p Position) WatchOption { return watchOption(func(c *watchConfig) { c.after = p }) }

// FromNow begins a watch with the next change instead of the present objects. The
// first update has no events; its position is that of the beginning. If an
// interruption lasts so long that the servers no longer know the position, the whole
// state follows even so, from an update in [PhaseReset] on.
func FromNow() WatchOption { return watchOption(func(c *watchConfig) { c.fromNow = true }) }

// Previous adds the object before the change to each event, where the server still
// knows it.
func Previous() WatchOption { return watchOption(func(c *watchConfig) { c.req.PreviousObject = true }) }

// OmitValues leaves out the values of objects.
func OmitValues() DeliveryOption {
	return deliveryOption(func(c *watchConfig) { c.req.OmitValues = true })
}

// EveryEvent ends the watch with [ErrPositionExpired] or [ErrEpochChanged] where the
// server would otherwise skip events and send only the latest state of each object.
func EveryEvent() WatchOption { return watchOption(func(c *watchConfig) { c.req.EveryEvent = true }) }

// WithoutReports makes the watch report nothing. Use it where nothing depends on the changes, such as in a
// program that shows them: operators who wait until a change is applied do not wait for this watch.
func WithoutReports() WatchOption { return watchOption(func(c *watchConfig) { c.unreported = true }) }

// Latest lets the server merge the events that wait for a slow reader: the reader
// gets only the latest state of each object.
func Latest() DeliveryOption {
	return deliveryOption(func(c *watchConfig) { c.req.Delivery = fanoutv1.Delivery_DELIVERY_LATEST })
}

// MaxBatchDelay lets the server collect events for this long after each message, from
// 1 ms to 1 min. Default: the server does not wait.
func MaxBatchDelay(d time.Duration) DeliveryOption {
	return deliveryOption(func(c *watchConfig) { c.req.MaxBatchDelay = durationpb.New(d) })
}

// DefaultBookmarkInterval is the bookmark interval of watches that do not set one.
const DefaultBookmarkInterval = 10 * time.Second

// BookmarkInterval sets how often the server sends the position of the watch while
// nothing happens, from 100 ms to 1 h. A server that is silent for three intervals
// counts as dead; for its first message it has at least 5 s. An interval that is not
// positive means [DefaultBookmarkInterval].
func BookmarkInterval(d time.Duration) DeliveryOption {
	if d <= 0 {
		d = DefaultBookmarkInterval
	}
	return deliveryOption(func(c *watchConfig) { c.bookmarks = d })
}

// OnInterruption calls f whenever the watch loses its server, and for each attempt to resume that
// fails, with the reason. The watch resumes without help. The end of a stream at the server's time limit for
// watches is not an interruption. The goroutine that iterates over the watch calls f; for an informer, a
// goroutine of its own. While that f runs, the latest interruptions may be skipped.
func OnInterruption(f func(error)) DeliveryOption {
	return deliveryOption(func(c *watchConfig) { c.onInterruption = append(c.onInterruption, f) })
}
