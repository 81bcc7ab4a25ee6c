package admin

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Wait is the end of [client.Wait] as shown in JSON and YAML.
type Wait struct {
	Resource string `json:"resource"`
	Prefix   string `json:"prefix,omitempty"`
	Key      string `json:"key,omitempty"`
	Revision int64  `json:"revision"`
	Result   string `json:"result"` // reached, refused, timed-out or interrupted

	Watches  int64 `json:"watches"`
	Recent   int64 `json:"recentWatches"`
	Applied  int64 `json:"applied"`
	Required int64 `json:"required"`
	Failed   int64 `json:"failed"`
	Newest   int64 `json:"newestRevision,omitempty"`

	NotReporting int64 `json:"notReporting"` // do not count

	Servers   []WaitServer   `json:"servers"`
	Pending   []PendingWatch `json:"pending"`
	Uncounted []PendingWatch `json:"notReportingWatches,omitempty"`
}

// WaitServer is a server as shown in a [Wait].
type WaitServer struct {
	Server    string `json:"server"`
	Answered  bool   `json:"answered"`
	Answering bool   `json:"answering"`
	Error     string `json:"error,omitempty"`
	Watches   int64  `json:"watches"`
	Applied   int64  `json:"applied"`
	Failed    int64  `json:"failed"`

	NotReporting int64 `json:"notReporting"`
}

// PendingWatch is a watch that has not applied a revision, as shown in a [Wait].
type PendingWatch struct {
	Server     string            `json:"server"`
	ID         string            `json:"id"`
	Instance   string            `json:"instance,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Identity   string            `json:"identity,omitempty"`
	Peer       string            `json:"peer"`
	UserAgent  string            `json:"userAgent,omitempty"`
	Since      time.Time         `json:"since"`
	Applied    *client.Position  `json:"applied,omitempty"`
	AppliedLag *float64          `json:"appliedLagSeconds,omitempty"`
	Error      *ReportedError    `json:"error,omitempty"`
	ErrorTime  *time.Time        `json:"errorTime,omitempty"`
	FailedKeys []string          `json:"failedKeys,omitempty"`
	Failed     bool              `json:"failed"` // the error counts for the revision

	counted bool // false: it does not report
}

// NewWait describes the status with which [client.Wait] has ended, and its error.
func NewWait(resource, prefix, key string, s *client.WaitStatus, err error) Wait {
	w := Wait{
		Resource: resource, Prefix: prefix, Key: key, Revision: s.Revision, Result: waitResult(err),
		Watches: s.Watches, Recent: s.RecentWatches, Applied: s.Applied, Required: s.Required, Failed: s.Failed,
		Newest: s.Newest, NotReporting: s.NotReporting,
		Servers: []WaitServer{}, Pending: pendingWatches(s.Pending, true), Uncounted: pendingWatches(s.Uncounted, false),
	}
	for _, v := range s.Servers {
		shown := WaitServer{v.Address, v.Answered, v.Answering, "", v.Watches, v.Applied, v.Failed, v.NotReporting}
		if v.Err != nil {
			shown.Error = v.Err.Error()
		}
		w.Servers = append(w.Servers, shown)
	}
	return w
}

func waitResult(err error) string {
	switch {
	case err == nil:
		return "reached"
	case errors.As(err, new(*client.RefusedError)):
		return "refused"
	case errors.Is(err, context.DeadlineExceeded):
		return "timed-out"
	}
	return "interrupted"
}

// PendingRows returns the rows of a table: the watches that have not applied the revision, and then
// those that do not count.
func PendingRows(s *client.WaitStatus) []PendingWatch {
	return append(pendingWatches(s.Pending, true), pendingWatches(s.Uncounted, false)...)
}

// pendingWatches returns watches as they are shown. It never returns nil.
func pendingWatches(watches []client.PendingWatch, counted bool) []PendingWatch {
	all := make([]PendingWatch, 0, len(watches))
	for _, p := range watches {
		shown := PendingWatch{
			Server: p.Server, ID: p.ID, Instance: p.Instance, Labels: p.Labels, Identity: p.Identity, Peer: p.Peer,
			UserAgent: p.UserAgent, Since: p.Since, Error: reportedErrorOf(p.Err), FailedKeys: p.FailedKeys, Failed: p.Failed, counted: counted,
		}
		if p.Applied.Revision > 0 {
			shown.Applied = &p.Applied
			shown.AppliedLag = new(p.AppliedLag.Seconds())
		}
		if p.Err != nil {
			shown.ErrorTime = &p.ErrTime
		}
		all = append(all, shown)
	}
	return all
}

// PendingColumns returns the columns of a table of pending watches. With several servers there is a
// column for the server.
func PendingColumns(several bool) []output.Column[PendingWatch] {
	return withServer(several, []output.Column[PendingWatch]{
		{Title: "ID", Cell: func(p PendingWatch) string { return p.ID }, Style: output.Name},
		{Title: "INSTANCE", Cell: func(p PendingWatch) string { return cmp.Or(p.Instance, "-") }},
		{Title: "PEER", Cell: func(p PendingWatch) string { return peer(p.Identity, p.Peer) }},
		{Title: "APPLIED", Cell: func(p PendingWatch) string { return revision(p.Applied) }, Right: true},
		{Title: "LAG", Cell: PendingWatch.lag, Right: true},
		{Title: "AGE", Cell: func(p PendingWatch) string { return age(p.Since) }, Right: true},
		{Title: "ERROR", Cell: PendingWatch.outcome, Whole: true},
	}, func(p PendingWatch) string { return p.Server })
}

func (p PendingWatch) lag() string {
	if p.AppliedLag == nil {
		return "-"
	}
	return brief(*p.AppliedLag)
}

// outcome returns why the watch has not applied the revision, as far as it is known.
func (p PendingWatch) outcome() string {
	switch {
	case !p.counted:
		return "does not report, and does not count"
	case p.Error != nil && !p.Failed:
		// It is an earlier error, which the revision may correct, or one of other objects.
		return "does not count: " + p.Error.String()
	}
	return p.Error.String()
}
