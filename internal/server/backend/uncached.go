package backend

import (
	"context"
	"errors"
	"iter"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// uncached serves a resource from etcd itself. All its reads are linearizable, because there is
// no older state to read.
type uncached struct{ source *direct.Source }

func (s uncached) Loaded() bool    { return s.source.Loaded() }
func (s uncached) Following() bool { return s.source.Following() }

func (s uncached) View(ctx context.Context, c object.Consistency) (View, error) {
	at, err := s.source.Position(ctx, c.Revision)
	if err != nil {
		return nil, err
	}
	if c.Level == object.Exactly {
		at.Revision = c.Revision
	}
	return uncachedView{at, at.Epoch, s.source}, nil
}

func (s uncached) ViewAt(ctx context.Context, p object.Position) (View, error) {
	now, err := s.source.Position(ctx, 0)
	if err == nil && p.Epoch == now.Epoch && p.Revision > now.Revision {
		err = &cacher.FutureError{Asked: p.Revision, Current: now.Revision}
	}
	return uncachedView{p, now.Epoch, s.source}, err
}

// WatchDirect starts a watch of a resource without a cache. It gets its last bookmark at the given
// time; see dispatch.Options.
func (r *Resource) WatchDirect(ctx context.Context, w *request.Watch, lastBookmark time.Time) (*direct.Reader, error) {
	var begin catchup.Begin
	switch c := w.Consistency; {
	case w.After != nil:
		begin = catchup.FromPosition(*w.After)
	case c.Level == object.Exactly:
		begin = catchup.FromExactly(c.Revision)
	case w.FromNow:
		begin = catchup.FromNow(object.Position{Revision: c.Revision})
	default:
		begin = catchup.FromSnapshot(c.Revision)
	}
	o := w.Options
	o.LastBookmark = lastBookmark
	return r.Direct.Watch(ctx, w.Interest, begin, o)
}

func (s uncached) Describe(ctx context.Context, r *fanoutv1.ResourceStatus, measure bool) {
	r.Interests = r.GetWatchers()
	r.OpaqueValues = s.source.Opaque()
	if !measure {
		return
	}
	if now, err := s.source.Position(ctx, 0); err == nil {
		r.Position, r.LagRevisions = ProtoPosition(now), new(int64(0))
	}
}

// uncachedView is the history of etcd at one position.
type uncachedView struct {
	at     object.Position
	epoch  object.Epoch // the present one
	source *direct.Source
}

func (v uncachedView) Position() object.Position { return v.at }

func (v uncachedView) CountsCheaply() bool { return true }

func (v uncachedView) Count(ctx context.Context, scope object.Scope, start object.Key) (int, error) {
	if v.at.Epoch != v.epoch {
		return 0, v.expired(ctx)
	}
	n, err := v.source.Count(ctx, v.at.Revision, scope, start)
	if errors.Is(err, object.ErrCompacted) {
		err = v.expired(ctx)
	}
	return int(n), err
}

func (v uncachedView) expired(ctx context.Context) error {
	return &apierr.ExpiredError{Asked: v.at, Oldest: v.source.Oldest(ctx, v.at.Revision)}
}

// Object implements View.
func (v uncachedView) Object(ctx context.Context, key object.Key) (*object.Object, error) {
	return objectOf(ctx, v, key)
}

// Objects implements View.
func (v uncachedView) Objects(ctx context.Context, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		if v.at.Epoch != v.epoch {
			yield(nil, v.expired(ctx))
			return
		}
		for o, err := range v.source.Objects(ctx, v.at.Revision, scope, start) {
			if errors.Is(err, object.ErrCompacted) {
				err = v.expired(ctx)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}
