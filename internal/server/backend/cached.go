package backend

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// cached serves a resource from memory.
type cached struct{ *Resource }

func (s cached) Loaded() bool    { return s.Cacher.State() != nil }
func (s cached) Following() bool { return s.Cacher.Following() }

func (s cached) View(ctx context.Context, c object.Consistency) (View, error) {
	state, err := s.Cacher.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	v := cachedView{state.Position(), s.Cacher, state}
	if c.Level == object.Exactly {
		v.at.Revision = c.Revision
	}
	return v, nil
}

func (s cached) ViewAt(ctx context.Context, p object.Position) (View, error) {
	state, err := s.reach(ctx, p)
	return cachedView{p, s.Cacher, state}, err
}

func (s cached) Describe(ctx context.Context, r *fanoutv1.ResourceStatus, measure bool) {
	r.Cached = true
	r.Interests = int64(s.Dispatcher.Interests())
	r.OpaqueValues = s.Cacher.Counts().Opaque
	if heard := s.Cacher.LastContact(); !heard.IsZero() {
		r.Age = durationpb.New(time.Since(heard))
	}
	if measure && s.Cacher.State() != nil {
		if _, lag, err := s.Cacher.MeasureLag(ctx); err == nil {
			r.LagRevisions = &lag
		}
	}
	state, applied := s.Cacher.State(), s.Cacher.Counts().Changes
	if state == nil {
		return
	}
	r.Position = ProtoPosition(state.Position())
	r.Objects = new(int64(state.Len()))
	r.Changes = new(applied)
	r.UndecryptableObjects = new(int64(state.Undecryptable()))
	r.Window = &fanoutv1.WindowStatus{
		OldestRevision: int64(state.Replayable()),
		Changes:        int64(state.WindowLen()),
		Bytes:          int64(state.WindowBytes()),
		Span:           durationpb.New(0),
	}
	if oldest, ok := state.Arrived(0); ok {
		r.Window.Span = durationpb.New(time.Since(oldest))
	}
}

// cachedView is a state, or an earlier revision of it.
type cachedView struct {
	at     object.Position
	cacher *cacher.Cacher
	state  *cacher.State // in which to look first
}

func (v cachedView) Position() object.Position { return v.at }

func (v cachedView) CountsCheaply() bool {
	return v.at.Epoch == v.state.Position().Epoch && v.at.Revision >= v.state.Replayable()
}

func (v cachedView) Count(_ context.Context, scope object.Scope, start object.Key) (int, error) {
	n, _ := v.state.CountAt(v.at.Revision, scope, start)
	return n, nil
}

// Object implements View.
func (v cachedView) Object(ctx context.Context, key object.Key) (*object.Object, error) {
	if v.at == v.state.Position() {
		return v.state.Get(key), nil
	}
	return objectOf(ctx, v, key)
}

// Objects implements View. It reads from memory if it can, and else from the history of the
// store.
func (v cachedView) Objects(ctx context.Context, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		expired := &apierr.ExpiredError{Asked: v.at, Oldest: v.state.Replayable()}
		if v.at.Epoch != v.state.Position().Epoch {
			yield(nil, expired)
			return
		}
		if objects, ok := v.state.ObjectsAt(v.at.Revision, scope, start); ok {
			for o := range objects {
				if !yield(o, nil) {
					return
				}
			}
			return
		}
		for o, err := range v.cacher.History(ctx, v.at.Revision, scope, start) {
			if errors.Is(err, object.ErrCompacted) {
				err = expired
			}
			if !yield(o, err) {
				return
			}
		}
	}
}
