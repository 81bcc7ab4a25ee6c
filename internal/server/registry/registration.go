package registry

import (
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// Registration is what the registry keeps of a watch. Each entrance embeds it in its own record of a watch,
// so a watch has one allocation. There may be a million of them, so it has nothing that the RPC has,
// and what few watches need is behind a pointer.
type Registration struct {
	resource *backend.Resource
	scope    object.Scope // the policy must grant the watch of it as long as the watch lasts
	summary  Summary
	began    time.Duration // since started
	taken    quota.WatchQuota
	observed *observed // guarded by Watch.Mutex; nil: nothing was reported, and no event was seen waiting
	stage    Stage     // guarded by Watch.Mutex
	reports  bool      // guarded by Watch.Mutex: the client has said so, or has reported
}

// Stage is how far a watch has come. docs/dev/watches.md relates it to the other states of a watch.
type Stage uint8

// The stages of a watch, in order.
const (
	NotAdmitted Stage = iota
	Admitted          // waits for the store; only a drain sees it
	Begun             // all may see it
	Ended
)

// started is a time before all watches began. A time.Duration takes less memory than a time.Time.
var started = time.Now()

// registration implements [Watch]. Only a type that embeds a Registration implements it.
func (r *Registration) registration() *Registration { return r }

// Resource implements [Watch].
func (r *Registration) Resource() string { return r.resource.Name }

// Scope implements [Watch].
func (r *Registration) Scope() object.Scope { return r.scope }

// Backend returns the resource.
func (r *Registration) Backend() *backend.Resource { return r.resource }

// Request returns the request for the watch, as operators see it.
func (r *Registration) Request() *fanoutv1.WatchRequest { return r.summary.Request(r.scope) }

// SetBegan sets when the watch began.
func (r *Registration) SetBegan(t time.Time) { r.began = t.Sub(started) }

// Began returns when the watch began.
func (r *Registration) Began() time.Time { return started.Add(r.began) }

// question asks whether the caller may have the watch.
func (r *Registration) question() policy.Question {
	return policy.Question{Verb: policy.Watch, Resource: r.resource.Name, Scope: r.scope}
}

// reported is called with [Watch.Mutex] held. It returns the latest report.
func (r *Registration) reported() Reported {
	if r.observed == nil {
		return Reported{}
	}
	return r.observed.Reported
}

// observeWaiting is called with [Watch.Mutex] held. It completes the lag of the events that wait after
// a position.
func (r *Registration) observeWaiting(after object.Position, backlog feed.Backlog, lag *backend.Lag) {
	if r.observed == nil {
		if backlog.Events == 0 {
			return
		}
		r.observed = &observed{}
	}
	r.observed.unsent = r.observed.unsent.observe(after, backlog, lag)
}
