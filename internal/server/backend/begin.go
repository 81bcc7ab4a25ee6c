package backend

import (
	"context"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/object"
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
	if f.resumes && !(cached{r.Cacher, r.Dispatcher}).hasReached(*w.After) {
		f.ahead = *w.After
	}
	return f
}

// hasReached reports whether reach would return at once.
func (s cached) hasReached(p object.Position) bool {
	state := s.cacher.State()
	return state != nil && (state.Position().Epoch != p.Epoch || state.Revision() >= p.Revision)
}

// Await waits until watches of a cached resource can begin. The watch is one of those that
// share the wait. [BeginOf] returns where each of them begins.
func (r *Resource) Await(ctx context.Context, w *request.Watch) (catchup.Begin, error) {
	return cached{r.Cacher, r.Dispatcher}.begin(ctx, w)
}

// BeginOf returns where a watch begins. The other argument is the result of [Resource.Await] for
// a watch with the same [Freshness].
func BeginOf(w *request.Watch, awaited catchup.Begin) catchup.Begin {
	if w.After != nil {
		return catchup.FromPosition(*w.After)
	}
	return awaited
}
