package backend

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// cached serves a resource from memory.
type cached struct {
	cacher     *cacher.Cacher
	dispatcher *dispatch.Dispatcher
}

func (s cached) Loaded() bool    { return s.cacher.State() != nil }
func (s cached) Following() bool { return s.cacher.Following() }

func (s cached) View(ctx context.Context, c object.Consistency) (View, error) {
	state, err := s.cacher.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	v := cachedView{state.Position(), s.cacher, state}
	if c.Level == object.Exactly {
		v.at.Revision = c.Revision
	}
	return v, nil
}

func (s cached) ViewAt(ctx context.Context, p object.Position) (View, error) {
	state, err := s.reach(ctx, p)
	return cachedView{p, s.cacher, state}, err
}

// reach waits for a state at the position or after it, and returns the state: the position may
// come from a replica that is ahead of this one. A revision of another epoch means nothing, so
// any state will do for it.
func (s cached) reach(ctx context.Context, p object.Position) (*cacher.State, error) {
	// Any loaded state has the epoch. The first load is worth waiting for.
	state, err := s.cacher.Read(ctx, object.Consistency{Level: object.AtLeast, Revision: 0})
	if err != nil || state.Position().Epoch != p.Epoch {
		return state, err
	}
	return s.cacher.Read(ctx, object.Consistency{Level: object.AtLeast, Revision: p.Revision})
}

// begin waits until the state is fresh enough for a watch to begin.
func (s cached) begin(ctx context.Context, w *request.Watch) (begin catchup.Begin, err error) {
	if w.After != nil {
		_, err := s.reach(ctx, *w.After)
		if err == nil {
			err = s.confirm(ctx)
		}
		return catchup.FromPosition(*w.After), err
	}
	if w.Consistency.Level == object.Exactly {
		at := w.Consistency.Revision
		state, err := s.cacher.Read(ctx, w.Consistency)
		if err == nil && at < state.Replayable() {
			err = &apierr.ExpiredError{Asked: object.Position{Epoch: state.Position().Epoch, Revision: at}, Oldest: state.Replayable()}
		}
		return catchup.FromExactly(at), err
	}
	_, needed, err := s.cacher.Reach(ctx, w.Consistency)
	if err != nil || !w.FromNow {
		return catchup.FromSnapshot(needed), err
	}
	return catchup.FromNow(s.cacher.State().Position()), nil
}

// confirmWait is how long a resumed watch waits for etcd.
const confirmWait = time.Second

// confirm asks etcd whether the state is current, so that the client of a resumed watch knows
// it with the end of the catch-up. If etcd does not answer, the watch begins all the same: its
// messages state how old the state is. They state no age below [feed.MinStatedAge], so confirm
// waits until the state is that old.
func (s cached) confirm(ctx context.Context) error {
	asked := time.Now()
	if s.cacher.Following() {
		waiting, cancel := context.WithTimeout(ctx, confirmWait)
		defer cancel()
		_, _ = s.cacher.Read(waiting, object.Consistency{})
	}
	if confirmed := s.cacher.Confirmed(); confirmed.Before(asked) {
		stated, cancel := context.WithDeadline(ctx, confirmed.Add(feed.MinStatedAge))
		defer cancel()
		<-stated.Done()
	}
	return ctx.Err()
}

func (s cached) Describe(ctx context.Context, r *fanoutv1.ResourceStatus, measure bool) {
	r.Cached = true
	r.Interests = int64(s.dispatcher.Interests())
	r.OpaqueValues = s.cacher.Counts().Opaque
	if heard := s.cacher.LastContact(); !heard.IsZero() {
		r.Age = durationpb.New(time.Since(heard))
	}
	if measure && s.cacher.State() != nil {
		if _, lag, err := s.cacher.MeasureLag(ctx); err == nil {
			r.LagRevisions = &lag
		}
	}
	state, applied := s.cacher.State(), s.cacher.Counts().Changes
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

// lag implements [Resource.LagOf].
func (s cached) lag(b feed.Backlog, at object.Position) Lag {
	state := s.cacher.State()
	if b.Events == 0 || state == nil {
		return Lag{}
	}
	if state.Position().Epoch != at.Epoch {
		return Lag{IsMinimum: true} // the window has no event of the watcher's epoch
	}
	lag := Lag{Revisions: int64(max(0, state.Revision()-at.Revision)), IsMinimum: b.Since < state.Replayable()}
	if arrived, ok := state.Arrived(b.Since); ok {
		lag.Waited = time.Since(arrived)
	}
	return lag
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
