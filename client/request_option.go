package client

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// ReadOption is an option of [Resource.Get].
type ReadOption interface{ get(*fanoutv1.GetRequest) }

// ListOption is an option of [Resource.List] and [Resource.ListPage].
type ListOption interface{ list(*listing) }

// WatchOption is an option of [Resource.Watch].
type WatchOption interface{ watch(*watching) }

// Selection says which objects: an option of lists, watches and informers.
type Selection interface {
	ListOption
	WatchOption
	InformerOption
}

// DeliveryOption says how objects are watched: an option of watches and informers.
type DeliveryOption interface {
	WatchOption
	InformerOption
}

// Consistency says how fresh an answer has to be. The default is that it is no older
// than any write that was acknowledged before the request.
type Consistency interface {
	ReadOption
	ListOption
	WatchOption
	InformerOption
}

// Prefix selects the objects below a path: "team-a" selects "team-a/limits", and
// neither "team-a" nor "team-abc/limits". Default: all.
func Prefix(path string) Selection {
	return scope{&fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: path}}}
}

// Key selects the object with exactly this key.
func Key(key string) Selection {
	return scope{&fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: key}}}
}

type scope struct{ *fanoutv1.Scope }

func (s scope) list(l *listing)     { l.req.Scope = s.Scope }
func (s scope) inform(i *informing) { i.watch = append(i.watch, s) }
func (s scope) watch(w *watching)   { w.req.Scope = s.Scope }

// Labels selects objects by their labels, in the syntax of Kubernetes:
// "env=prod,tier in (a,b),!canary". Default: all.
func Labels(selector string) Selection { return labels(selector) }

type labels string

func (s labels) list(l *listing)     { l.req.LabelSelector = string(s) }
func (s labels) inform(i *informing) { i.watch = append(i.watch, s) }
func (s labels) watch(w *watching)   { w.req.LabelSelector = string(s) }

// Fields selects objects by their fields: "region=eu,owner!=nobody". Fields are
// key, name (the last segment of the key) and those that the configuration of the
// resource declares. Default: all.
func Fields(selector string) Selection { return fields(selector) }

type fields string

func (s fields) list(l *listing)     { l.req.FieldSelector = string(s) }
func (s fields) inform(i *informing) { i.watch = append(i.watch, s) }
func (s fields) watch(w *watching)   { w.req.FieldSelector = string(s) }

// MinRevision asks for state at this revision or a later one, such as that of your
// own last write. The server waits a few seconds for it.
func MinRevision(revision int64) Consistency {
	return consistency{&fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_MinRevision{MinRevision: revision}}}
}

// AllowStale takes what the server has, without waiting; it works while etcd is away.
func AllowStale() Consistency {
	return consistency{&fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}}
}

// AtRevision asks for the state exactly as it was at this revision. It fails with
// [ErrRevisionExpired] when that is too long ago.
func AtRevision(revision int64) Consistency {
	return consistency{&fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_ExactRevision{ExactRevision: revision}}}
}

type consistency struct{ *fanoutv1.ReadConsistency }

func (f consistency) get(r *fanoutv1.GetRequest) { r.Consistency = f.ReadConsistency }
func (f consistency) list(l *listing)            { l.req.Consistency = f.ReadConsistency }
func (f consistency) inform(i *informing)        { i.watch = append(i.watch, f) }
func (f consistency) watch(w *watching)          { w.req.Consistency = f.ReadConsistency }

// PageSize is the largest number of objects in a page, at most 10,000. Default: as
// many as fit into a message of about 3 MiB.
func PageSize(objects int) ListOption {
	return listOption(func(l *listing) { l.req.PageSize = int32(min(max(objects, 0), 1<<30)) })
}

// PageToken continues a list that [Resource.ListPage] has begun, with the same
// selection.
func PageToken(token string) ListOption {
	return listOption(func(l *listing) { l.req.PageToken = token })
}

// StartKey leaves out the objects whose keys come before this one.
func StartKey(key string) ListOption {
	return listOption(func(l *listing) { l.req.StartKey = key })
}

// ListPosition has the position of the list stored in p before the first object is
// returned. [Resource.Watch] with [After] this position continues where the list
// ends.
func ListPosition(p *Position) ListOption { return listOption(func(l *listing) { l.position = p }) }

type listOption func(*listing)

func (o listOption) list(l *listing) { o(l) }

// listing is what a list was asked for.
type listing struct {
	req      *fanoutv1.ListRequest
	position *Position
}

// After begins a watch after a position, such as that of the last [Update] that
// was dealt with: what changed since is told, or where the servers no longer know
// that, everything. The zero position is the same as none. It says itself how fresh
// the beginning has to be: a [Consistency] beside it does not count.
func After(p Position) WatchOption { return watchOption(func(w *watching) { w.after = p }) }

// FromNow begins a watch without the objects there are: with the next change. The
// first update, without events, says where now is. Should the position be lost in
// an interruption, an update with Replace brings the whole state nevertheless.
func FromNow() WatchOption { return watchOption(func(w *watching) { w.fromNow = true }) }

// Previous has events carry the object as it was before, where the server knows.
func Previous() WatchOption { return watchOption(func(w *watching) { w.req.PreviousObject = true }) }

// OmitValues leaves out the values of objects.
func OmitValues() DeliveryOption {
	return deliveryOption(func(w *watching) { w.req.OmitValues = true })
}

// EveryEvent ends the watch, with [ErrPositionExpired] or [ErrEpochChanged], rather
// than leave out single events: where the servers can only tell the state.
func EveryEvent() WatchOption { return watchOption(func(w *watching) { w.req.EveryEvent = true }) }

// Latest has what waits for a slow reader merged by key: only the latest state of
// each object matters to it.
func Latest() DeliveryOption {
	return deliveryOption(func(w *watching) { w.req.Delivery = fanoutv1.Delivery_DELIVERY_LATEST })
}

// MaxBatchDelay lets the server collect events for this long after each message,
// from 1 ms to 1 min. Default: it does not wait.
func MaxBatchDelay(d time.Duration) DeliveryOption {
	return deliveryOption(func(w *watching) { w.req.MaxBatchDelay = durationpb.New(d) })
}

// DefaultBookmarkInterval is how often a watch hears from its server at least.
const DefaultBookmarkInterval = 10 * time.Second

// BookmarkInterval is how often the server says where a watch is while nothing
// happens, from 100 ms to 1 h; default [DefaultBookmarkInterval]. A server that is
// silent for three intervals is taken for dead; with its first word it may take 5 s.
// An interval that is not positive is the default.
func BookmarkInterval(d time.Duration) DeliveryOption {
	if d <= 0 {
		d = DefaultBookmarkInterval
	}
	return deliveryOption(func(w *watching) { w.bookmarks = d })
}

// OnInterruption has f told whenever the watch has lost its server, and why; the
// watch goes on by itself. That a server ends a watch because its time is over does
// not count. It is called by the goroutine that iterates.
func OnInterruption(f func(error)) DeliveryOption {
	return deliveryOption(func(w *watching) { w.interrupted = append(w.interrupted, f) })
}

type watchOption func(*watching)

func (o watchOption) watch(w *watching) { o(w) }

type deliveryOption func(*watching)

func (m deliveryOption) watch(w *watching)   { m(w) }
func (m deliveryOption) inform(i *informing) { i.watch = append(i.watch, m) }

// watching is what a watch was asked for.
type watching struct {
	req         *fanoutv1.WatchRequest // without a beginning and an interval
	after       Position
	fromNow     bool
	bookmarks   time.Duration
	interrupted []func(error)
}
