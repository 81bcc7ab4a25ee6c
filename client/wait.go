package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// WaitOptions are the options of [Wait].
type WaitOptions struct {
	// Servers are all servers that the subscribers use, as [EachServer] returns them. A server
	// knows only its own watches. Required.
	Servers []Server
	// Resource is the name of the resource. Required.
	Resource string
	// Scope is [Prefix] or [Key]. The affected watches are those whose own scope overlaps it;
	// their selectors do not matter. Default: the whole resource.
	Scope Scope
	// Subscribers selects the affected watches by the labels of their programs ([WithSubscriber]),
	// in the syntax of [LabelSelector], such as "app=cart". Default: all.
	Subscribers string
	// Instance selects the affected watches by the name of their program. Default: all.
	Instance string
	// RequireAll also counts watches that do not report. They never apply a revision, so they
	// keep a quorum of 1 from being reached. Default: they are only listed
	// ([WaitStatus.NotReporting]).
	RequireAll bool
	// Revision is the revision to apply, such as the result of [Resource.Put]. Required.
	Revision int64
	// Quorum is the share of the affected watches that must have applied the revision: more
	// than 0 and at most 1, which is the default.
	Quorum float64
	// Tolerate is how many watches may fail. Their number does not end the wait, and they do
	// not count for the quorum. Default: none.
	Tolerate int64
	// MinWatches is the least number of affected watches. Set it where the number is known:
	// otherwise a subscriber that has no watch when Wait begins is not missed. Default: 1, so
	// that a mistyped key is no success. Negative: a wait without any watch succeeds at once.
	MinWatches int64
	// AllowMissingServers lets Wait succeed although some servers have never answered.
	AllowMissingServers bool
	// Settle is how long a watch that has ended still counts, because its client may be on its
	// way to another server. Default: [DefaultSettle]. Negative: not at all.
	Settle time.Duration
	// Progress gets each change of the status, and the status once a second if nothing changes.
	// The goroutine of Wait calls it, and does nothing else meanwhile.
	Progress func(*WaitStatus)
}

// DefaultSettle is the default of [WaitOptions.Settle]. The watches of this package notice a
// silent server after 30 s ([DefaultBookmarkInterval]), and a lost connection at once.
const DefaultSettle = 35 * time.Second

// Wait waits until a share of the affected watches, over all servers, has applied a revision. It
// is a gate for rollouts: write a configuration, wait until the subscribers use it, then go on.
// The caller needs the right "admin" to the resource.
//
// A watch has applied a revision if it has reported a position at or after the revision, or an
// earlier one after which nothing up to the revision concerns it. Informers send reports. An error
// counts only if it may concern an object in Scope: informers name the objects that they cannot
// apply. A watch whose program does not report is listed, but not counted, except with RequireAll.
//
// Wait ends in one of four ways:
//
//   - The quorum is reached. The error is nil.
//   - More than Tolerate watches have attempted the revision and have reported an error: a
//     [*RefusedError], at once. An earlier error does not count, because the revision may be what
//     corrects it.
//   - ctx has ended: a [*NotReachedError] with the watches that have not applied the revision. It
//     wraps the cause of ctx.
//   - A server refuses the request, or its client is closed: the error of the server. Retries would
//     not help.
//
// The status is the last one that is known. It is nil only if the options are invalid.
//
// # Watches that move
//
// When a client reconnects, its watch ends at one server and begins at another. In between, no
// server counts it. If Wait believed the numbers of such a moment, the drain of a server could
// make half of the subscribers disappear, and the other half would be a quorum. So the quorum is
// a share of the largest number of watches seen within the last Settle, or of MinWatches if that
// is larger. If a subscriber stops for good, Wait reaches its quorum later by up to Settle. A
// watch that moves may be counted at both servers for a moment, which has the same effect.
//
// Wait cannot know what happened before it began. Where a server may be stopping at that time,
// set MinWatches.
//
// # Servers that do not answer
//
// If a server cannot be reached, Wait counts the watches of the others, retries after growing
// random delays of up to 5 s, and reports the server in each status ([WaitServer.Err]).
//
//   - Until it has answered for the first time, the number of its watches is unknown. So Wait does
//     not succeed before every server has answered once, except with AllowMissingServers. Then a
//     server counts as missing when the first attempt to reach it has failed.
//   - If it has answered before, its watches count as ended: the clients of a server that is down
//     move to the others within Settle. Wait succeeds without that server if the others then have
//     the quorum. This is wrong only if the server is cut off from Wait but not from its clients.
//     A caller that wants to exclude that checks [WaitStatus.Missing].
//
// Wait never succeeds while no server answers. A server that is not in Servers is not missed; its
// watches do not count. [EachServer] asks DNS only once.
func Wait(ctx context.Context, o WaitOptions) (*WaitStatus, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("wait: %w", err)
	}
	status, err := newGate(&o).run(ctx)
	if err != nil {
		return status, fmt.Errorf("wait for %s: %w", o.Resource, err)
	}
	return status, nil
}

// check returns what is wrong with the options, and sets the defaults.
func (o *WaitOptions) check() error {
	switch {
	case len(o.Servers) == 0:
		return errors.New("no servers")
	case slices.ContainsFunc(o.Servers, func(s Server) bool { return s.Client == nil }):
		return errors.New("a server without a client")
	case o.Resource == "":
		return errors.New("no resource")
	case o.Revision < 1:
		return fmt.Errorf("revision %d, want at least 1", o.Revision)
	case !(o.Quorum >= 0 && o.Quorum <= 1): // also NaN
		return fmt.Errorf("quorum %v, want more than 0 and at most 1", o.Quorum)
	case o.Tolerate < 0:
		return fmt.Errorf("tolerate %d, want at least 0", o.Tolerate)
	}
	o.Quorum = cmp.Or(o.Quorum, 1)
	o.MinWatches = max(cmp.Or(o.MinWatches, 1), 0)
	o.Settle = max(cmp.Or(o.Settle, DefaultSettle), 0)
	return checkUTF8(o.request())
}

func (o *WaitOptions) request() *fanoutv1.WatchAppliedRequest {
	req := &fanoutv1.WatchAppliedRequest{
		Resource: o.Resource, Revision: o.Revision, RequireAll: o.RequireAll, SubscriberSelector: o.Subscribers, Instance: o.Instance,
	}
	if o.Scope != nil {
		req.Scope = o.Scope.message()
	}
	return req
}

// gate evaluates the answers of the servers. It belongs to the goroutine of [Wait].
type gate struct {
	*WaitOptions
	servers []followedServer
	peak    recentPeak // of the number of watches
}

// followedServer is a server with its last answer.
type followedServer struct {
	WaitServer
	pending, notReporting []PendingWatch
	revision              int64     // of the position up to which the server has all changes; 0: unknown
	at                    time.Time // of the answer
}

func newGate(o *WaitOptions) *gate {
	g := &gate{WaitOptions: o, peak: recentPeak{period: o.Settle}}
	for _, s := range o.Servers {
		g.servers = append(g.servers, followedServer{WaitServer: WaitServer{Address: s.Address}})
	}
	return g
}

// progressInterval is the time after which [WaitOptions.Progress] gets a status that has not changed.
const progressInterval = time.Second

// run follows all servers until the wait is over.
func (g *gate) run(ctx context.Context) (*WaitStatus, error) {
	followCtx, cancel := context.WithCancel(ctx)
	var followers sync.WaitGroup
	defer followers.Wait()
	defer cancel()
	answers := make(chan gateAnswer)
	for i, s := range g.Servers {
		f := newGateFollower(i, s, g.request(), answers)
		followers.Go(func() { f.run(followCtx) })
	}
	settled := time.NewTimer(0) // fires when the peak falls
	defer settled.Stop()
	settled.Stop()
	beat := time.NewTicker(progressInterval)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			status := g.status(time.Now())
			return status, &NotReachedError{Status: status, Cause: context.Cause(ctx)}
		case a := <-answers:
			g.receive(a)
			if a.final {
				return g.status(time.Now()), fmt.Errorf("server %s: %w", g.Servers[a.server].Address, a.err)
			}
		case <-settled.C:
		case <-beat.C:
		}
		now := time.Now()
		status := g.status(now)
		refused, reached := status.Failed > g.Tolerate, g.isReached(status)
		status.Ended = refused || reached
		if g.Progress != nil {
			g.Progress(status)
		}
		switch {
		case refused:
			return status, &RefusedError{Status: status}
		case reached:
			return status, nil
		}
		if at, ok := g.peak.falls(); ok {
			settled.Reset(at.Sub(now))
		} else {
			settled.Stop()
		}
	}
}

// receive stores an answer.
func (g *gate) receive(a gateAnswer) {
	s := &g.servers[a.server]
	if a.err != nil {
		s.Answering, s.Err = false, a.err
		return
	}
	s.Answered, s.Answering, s.Err = true, true, nil
	s.Watches, s.Applied, s.Failed, s.NotReporting = a.response.GetWatches(), a.response.GetApplied(), a.response.GetFailed(), a.response.GetNotReporting()
	s.pending, s.notReporting, s.at = nil, nil, time.Now()
	for i, w := range a.response.GetPending() {
		p := pendingWatchOf(s.Address, w)
		p.Failed = p.Err != nil && int64(i) < s.Failed // the failed ones come first
		s.pending = append(s.pending, p)
	}
	for _, w := range a.response.GetNotReportingWatchers() {
		s.notReporting = append(s.notReporting, pendingWatchOf(s.Address, w))
	}
	s.revision = a.response.GetPosition().GetRevision()
}

// status adds up the answers.
func (g *gate) status(now time.Time) *WaitStatus {
	sum := &WaitStatus{Revision: g.Revision}
	for _, s := range g.servers {
		sum.Servers, sum.Newest = append(sum.Servers, s.WaitServer), max(sum.Newest, s.revision)
		if s.Answering {
			sum.Watches += s.Watches
			sum.Applied += s.Applied
			sum.Failed += s.Failed
			sum.NotReporting += s.NotReporting
			sum.Uncounted = append(sum.Uncounted, s.notReporting...)
			for _, p := range s.pending {
				if p.AppliedLag > 0 {
					p.AppliedLag += now.Sub(s.at) // a server is silent while nothing changes
				}
				sum.Pending = append(sum.Pending, p)
			}
		}
	}
	slices.SortStableFunc(sum.Pending, comparePending)
	slices.SortStableFunc(sum.Uncounted, comparePending)
	g.peak.set(now, sum.Watches)
	sum.RecentWatches = g.peak.max(now)
	sum.Required = g.required(max(sum.RecentWatches, g.MinWatches), sum.Failed)
	return sum
}

// required returns how many watches must have applied the revision. If there are any, one at
// least must have, even if all others have failed.
func (g *gate) required(watches, failed int64) int64 {
	if watches == 0 {
		return 0
	}
	// The share may be a little too large, because most decimal fractions are not exact.
	const inexact = 1e-6
	counted := watches - min(failed, g.Tolerate, watches)
	return max(1, int64(math.Ceil(g.Quorum*float64(counted)-inexact)))
}

// isReached reports whether the wait has succeeded.
func (g *gate) isReached(s *WaitStatus) bool {
	answering := false
	for _, v := range s.Servers {
		if !v.Answered && (!g.AllowMissingServers || v.Err == nil) {
			return false
		}
		answering = answering || v.Answering
	}
	return answering && s.Watches >= g.MinWatches && s.Applied >= s.Required
}
