package registry

import (
	"context"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// Parsed is a valid request for a watch. Starts that share a decoded request share it, too.
type Parsed struct {
	request.Watch // must not be modified
	Resource      *backend.Resource

	from    *fanoutv1.WatchRequest
	target  request.Target
	summary Summary
}

// AdmitWatch checks whether the caller may have a watch, parses the request for it, and takes its quotas,
// which [Registry.End] gives back. It is the only way to a watch that may begin, whatever the
// entrance, so what it checks and takes holds for all of them. A watch that is refused has taken
// nothing.
func (r *Registry) AdmitWatch(ctx context.Context, w Watch, req *fanoutv1.WatchRequest) (*Parsed, error) {
	c, limits := w.Caller(), r.Interceptors.Limits
	if c.starts.many { // the interceptors have counted the RPC, but not its watches
		if err := limits.AllowRequest(c.Client()); err != nil {
			return nil, err
		}
	}
	p, err := r.parse(ctx, c.starts, req)
	if err != nil {
		return nil, err
	}
	if !c.starts.many {
		c.SetName(req.GetSubscriber())
	}
	taken, err := limits.TakeWatch(c.Client(), p.Resource.Name, &p.Interest, p.Resource.Scans(&p.Interest))
	if err != nil {
		return nil, err
	}
	reg, mu := w.registration(), w.Mutex()
	mu.Lock()
	defer mu.Unlock()
	reg.resource, reg.scope, reg.summary, reg.taken = p.Resource, p.Interest.Scope, p.summary, taken
	reg.reports, reg.stage = req.GetReports(), Admitted
	return p, nil
}

// parse checks whether the caller may have a watch, and parses the request for it. Clients start many
// watches with equal requests, so it parses a request only if it is not the latest one of the RPC.
func (r *Registry) parse(ctx context.Context, starts *starts, req *fanoutv1.WatchRequest) (*Parsed, error) {
	if latest := starts.latest; latest != nil && latest.from == req {
		// The policy may have changed since then.
		return latest, r.Interceptors.Rights.MayRead(ctx, policy.Watch, latest.target)
	}
	p := &Parsed{from: req, target: request.ParseTarget(req)}
	if err := r.Interceptors.Rights.MayRead(ctx, policy.Watch, p.target); err != nil {
		return nil, err
	}
	var err error
	if p.Resource, err = r.resources.Find(p.target.Resource); err != nil {
		return nil, err
	}
	if p.Watch, err = request.ParseWatch(p.target, req, p.Resource.Fields, p.Resource.Codec); err != nil {
		return nil, err
	}
	p.summary = summarize(req)
	if starts.many {
		starts.latest = p
	}
	return p, nil
}

// Begin records that an admitted watch has begun: operators see it, and it may report. It returns an
// error if the caller has lost its rights since the watch was admitted. The caller changes rights and
// credentials before it calls [Registry.Reexamine], and the watch begins before it is examined. So no
// watch escapes a change.
func (r *Registry) Begin(w Watch) error {
	reg, mu := w.registration(), w.Mutex()
	mu.Lock()
	if reg.stage != Admitted {
		mu.Unlock()
		panic("registry: only a watch that was admitted may begin")
	}
	reg.stage = Begun
	r.counts[reg.Resource()].begin()
	mu.Unlock()
	r.memory.note()
	if err := w.Caller().Pass.Check(); err != nil {
		return err
	}
	return r.Interceptors.Rights.Examine(*w.Caller().Identity, reg.question())
}

// End records that a watch has ended, and gives back what it has taken. A second call has no effect.
func (r *Registry) End(w Watch) {
	reg, mu := w.registration(), w.Mutex()
	mu.Lock()
	stage := reg.stage
	reg.stage = Ended
	if stage == Begun {
		r.counts[reg.Resource()].end(reg.reported().Failed())
	}
	mu.Unlock()
	switch stage {
	case Begun:
		r.memory.note()
		fallthrough
	case Admitted:
		r.Interceptors.Limits.ReturnWatch(w.Caller().Client(), reg.taken)
	}
}

// StageOf returns how far a watch has come.
func StageOf(w Watch) Stage {
	mu := w.Mutex()
	mu.Lock()
	defer mu.Unlock()
	return w.registration().stage
}

// Reexamine ends the watches whose credentials or rights are lost, with the error that a new watch
// would get. It returns the number of watches that it ended.
func (r *Registry) Reexamine() (ended int) {
	r.rpcs.Each(&r.mu, 0, func(rpc RPC) bool {
		ended += r.reexamine(rpc)
		return true
	})
	return ended
}

// reexamine reexamines the watches of an RPC. Those that follow each other and need the same right
// share the question.
func (r *Registry) reexamine(rpc RPC) (ended int) {
	c := rpc.Caller()
	if err := c.Pass.Check(); err != nil {
		ended = rpc.Len()
		rpc.EndAll(err)
		return ended
	}
	var question policy.Question
	var denied error
	rpc.Each(0, func(w Watch) bool {
		if q := w.registration().question(); q != question {
			question, denied = q, r.Interceptors.Rights.Examine(*c.Identity, q)
		}
		if denied != nil {
			w.End(denied)
			ended++
		}
		return true
	})
	return ended
}
