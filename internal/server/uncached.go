package server

import (
	"context"
	"errors"
	"iter"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// uncached is a resource that is served straight from etcd. All consistencies are
// linearizable there, for there is nothing else to read.
type uncached struct{ source *direct.Source }

func (s uncached) loaded() bool    { return s.source.Loaded() }
func (s uncached) following() bool { return s.source.Following() }

func (s uncached) view(ctx context.Context, c consistency) (view, error) {
	at, err := s.source.Position(ctx, c.at)
	if err != nil {
		return nil, err
	}
	if c.level == exactly {
		at.Revision = c.at
	}
	return uncachedView{at, at.Epoch, s.source}, nil
}

func (s uncached) viewAt(ctx context.Context, p object.Position) (view, error) {
	now, err := s.source.Position(ctx, 0)
	if err == nil && p.Epoch == now.Epoch && p.Revision > now.Revision {
		err = &cacher.FutureError{Asked: p.Revision, Current: now.Revision}
	}
	return uncachedView{p, now.Epoch, s.source}, err
}

func (s uncached) watch(ctx context.Context, w *watch) (watcher, error) {
	var begin direct.Begin
	switch c := w.consistency; {
	case w.after != nil:
		begin = direct.After(*w.after)
	case c.level == exactly:
		begin = direct.FromExactly(c.at)
	case w.fromNow:
		begin = direct.FromNow(c.at)
	default:
		begin = direct.FromSnapshot(c.at)
	}
	return s.source.Watch(ctx, w.interest, begin, w.options)
}

func (s uncached) describe(ctx context.Context, r *fanoutv1.ResourceStatus, measure bool) {
	r.Interests = r.GetWatchers()
	r.OpaqueValues = s.source.Opaque()
	if !measure {
		return
	}
	if now, err := s.source.Position(ctx, 0); err == nil {
		r.Position, r.LagRevisions = position(now), new(int64(0))
	}
}

// uncachedView is etcd's history at one position.
type uncachedView struct {
	at     object.Position
	epoch  object.Epoch // the present one
	source *direct.Source
}

func (v uncachedView) position() object.Position { return v.at }

func (v uncachedView) remembered() bool { return false }

func (v uncachedView) count(object.Scope, object.Key) int { return 0 }

func (v uncachedView) objects(ctx context.Context, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		expired := func() error { return &apierr.ExpiredError{Asked: v.at, Oldest: v.source.Oldest(ctx, v.at.Revision)} }
		if v.at.Epoch != v.epoch {
			yield(nil, expired())
			return
		}
		for o, err := range v.source.Objects(ctx, v.at.Revision, scope, start) {
			if errors.Is(err, object.ErrCompacted) {
				err = expired()
			}
			if !yield(o, err) {
				return
			}
		}
	}
}
