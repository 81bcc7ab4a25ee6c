package backend

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// Freshness is what the watches of a cached resource wait for before they begin. Watches with
// equal values can share one wait, if none of them was requested after the wait began.
type Freshness struct {
	resource    string
	resumes     bool
	fromNow     bool
	consistency object.Consistency
	ahead       object.Position // that a resumed watch waits for; zero if the state has reached it
}

// FreshnessOf returns what a watch waits for.
func (r *Resource) FreshnessOf(w *request.Watch) Freshness {
	f := Freshness{resource: r.Name, resumes: w.After != nil, fromNow: w.FromNow, consistency: w.Consistency}
	if f.resumes && !r.hasReached(*w.After) {
		f.ahead = *w.After
	}
	return f
}

// hasReached reports whether reach would return at once.
func (r *Resource) hasReached(p object.Position) bool {
	state := r.Cacher.State()
	return state != nil && (state.Position().Epoch != p.Epoch || state.Revision() >= p.Revision)
}

// reach waits for a state at the position or after it, and returns the state: the position may
// come from a replica that is ahead of this one. A revision of another epoch means nothing, so
// any state will do for it.
func (r *Resource) reach(ctx context.Context, p object.Position) (*cacher.State, error) {
	// Any loaded state has the epoch. The first load is worth waiting for.
	state, err := r.Cacher.Read(ctx, object.Consistency{Level: object.AtLeast, Revision: 0})
	if err != nil || state.Position().Epoch != p.Epoch {
		return state, err
	}
	return r.Cacher.Read(ctx, object.Consistency{Level: object.AtLeast, Revision: p.Revision})
}

// Await waits until watches of a cached resource can begin. The watch is one of those that
// share the wait. [BeginOf] returns where each of them begins.
func (r *Resource) Await(ctx context.Context, w *request.Watch) (begin catchup.Begin, err error) {
	if w.After != nil {
		_, err := r.reach(ctx, *w.After)
		if err == nil {
			err = r.confirm(ctx)
		}
		return catchup.FromPosition(*w.After), err
	}
	if w.Consistency.Level == object.Exactly {
		at := w.Consistency.Revision
		state, err := r.Cacher.Read(ctx, w.Consistency)
		if err == nil && at < state.Replayable() {
			err = &apierr.ExpiredError{Asked: object.Position{Epoch: state.Position().Epoch, Revision: at}, Oldest: state.Replayable()}
		}
		return catchup.FromExactly(at), err
	}
	_, needed, err := r.Cacher.Reach(ctx, w.Consistency)
	if err != nil || !w.FromNow {
		return catchup.FromSnapshot(needed), err
	}
	return catchup.FromNow(r.Cacher.State().Position()), nil
}

// confirmWait is how long a resumed watch waits for etcd.
const confirmWait = time.Second

// confirm asks etcd whether the state is current, so that the client of a resumed watch knows
// it with the end of the catch-up. If etcd does not answer, the watch begins all the same: its
// messages state how old the state is. They state no age below [feed.MinStatedAge], so confirm
// waits until the state is that old.
func (r *Resource) confirm(ctx context.Context) error {
	asked := time.Now()
	if r.Cacher.Following() {
		waiting, cancel := context.WithTimeout(ctx, confirmWait)
		defer cancel()
		_, _ = r.Cacher.Read(waiting, object.Consistency{})
	}
	if confirmed := r.Cacher.Confirmed(); confirmed.Before(asked) {
		stated, cancel := context.WithDeadline(ctx, confirmed.Add(feed.MinStatedAge))
		defer cancel()
		<-stated.Done()
	}
	return ctx.Err()
}

// BeginOf returns where a watch begins. The other argument is the result of [Resource.Await] for
// a watch with the same [Freshness].
func BeginOf(w *request.Watch, awaited catchup.Begin) catchup.Begin {
	if w.After != nil {
		return catchup.FromPosition(*w.After)
	}
	return awaited
}
