package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/lag"
)

// WatcherList is a list of watchers of one or several servers.
type WatcherList struct {
	Watchers []Watcher // possibly truncated
	Total    int64     // the number of all watchers
	Failing  int64     // the number of those whose last report has an error
}

// MaxByLag is the maximum number of watchers in a list that is sorted by lag.
const MaxByLag = 1000

// Watchers returns the watchers of a resource, or of all resources if the name is empty.
// With byLag it returns up to [MaxByLag] watchers, furthest behind first, and otherwise all
// watchers in the order in which they started. With failing it returns only those whose last
// report has an error.
func (a *Admin) Watchers(ctx context.Context, resource string, byLag, failing bool) (WatcherList, error) {
	req := &fanoutv1.ListWatchersRequest{Resource: resource, Failing: failing}
	if byLag {
		req.Order = fanoutv1.ListWatchersRequest_ORDER_LAG
	}
	var list WatcherList
	for {
		resp, err := a.service.ListWatchers(ctx, req)
		if err != nil {
			return WatcherList{}, fmt.Errorf("list watchers: %w", client.ErrorOf(err))
		}
		for _, s := range resp.GetWatchers() {
			list.Watchers = append(list.Watchers, watcherOf(a.Server, s))
		}
		if resp.GetNextPageToken() == "" {
			list.Total, list.Failing = resp.GetTotal(), resp.GetFailing()
			if !byLag {
				list.count()
			}
			return list, nil
		}
		req.PageToken = resp.GetNextPageToken()
	}
}

// count makes the numbers agree with the watchers of several pages, which are all there are. Watches
// begin and end between two pages.
func (l *WatcherList) count() {
	l.Total, l.Failing = int64(len(l.Watchers)), 0
	for _, w := range l.Watchers {
		if w.Error != nil {
			l.Failing++
		}
	}
}

// EndWatcher ends a watch, whose client then resumes. It reports whether the server had the
// watch.
func (a *Admin) EndWatcher(ctx context.Context, id string) (ended bool, err error) {
	resp, err := a.service.EndWatcher(ctx, &fanoutv1.EndWatcherRequest{Id: id})
	if err != nil {
		return false, fmt.Errorf("end watcher %s: %w", id, client.ErrorOf(err))
	}
	return resp.GetEnded(), nil
}

// MergeWatchers combines the watchers of several servers in the order of [Admin.Watchers].
func MergeWatchers(answers []Answer[WatcherList], byLag bool) WatcherList {
	var all WatcherList
	for _, a := range answers {
		all.Watchers = append(all.Watchers, a.Value.Watchers...)
		all.Total += a.Value.Total
		all.Failing += a.Value.Failing
	}
	slices.SortStableFunc(all.Watchers, func(a, b Watcher) int {
		if byLag {
			if c := a.lag().Compare(b.lag()); c != 0 {
				return c
			}
		}
		return a.Since.Compare(b.Since)
	})
	if byLag {
		all.Watchers = all.Watchers[:min(len(all.Watchers), MaxByLag)]
	}
	return all
}

// lag returns how far the watcher is behind.
func (w Watcher) lag() lag.Lag {
	l := lag.Lag{Blocked: w.Blocked, NoPosition: w.hasNothing(), IsMinimum: w.LagIsMin}
	if w.Lag != nil {
		l.Seconds = *w.Lag
	}
	return l
}

// IsBehind reports whether something waits for the watcher. A lag that is known only as a
// minimum may be shown as 0.
func (w Watcher) IsBehind() bool {
	return w.hasNothing() || w.LagIsMin || w.Lag != nil && *w.Lag > 0
}

// hasNothing reports whether the watcher has no position yet, because it has not received
// the initial state.
func (w Watcher) hasNothing() bool { return w.Position != nil && w.Position.Revision == 0 }

// Watcher is a watch as shown in JSON and YAML. Durations are in seconds.
type Watcher struct {
	Server       string           `json:"server"`
	ID           string           `json:"id"`
	Peer         string           `json:"peer"`
	UserAgent    string           `json:"userAgent,omitempty"`
	Identity     string           `json:"identity,omitempty"`
	Resource     string           `json:"resource"`
	Prefix       string           `json:"prefix,omitempty"`
	Key          string           `json:"key,omitempty"`
	Labels       string           `json:"labelSelector,omitempty"`
	Fields       string           `json:"fieldSelector,omitempty"`
	State        string           `json:"state"` // live or catching-up
	Blocked      bool             `json:"blocked"`
	Since        time.Time        `json:"since"`
	Position     *client.Position `json:"position,omitempty"`
	LagRevisions *int64           `json:"lagRevisions,omitempty"`
	LagEvents    *int64           `json:"lagEvents,omitempty"`
	Lag          *float64         `json:"lagSeconds,omitempty"`
	LagIsMin     bool             `json:"lagIsMinimum,omitempty"` // the lag is at least Lag
	Messages     int64            `json:"messages"`
	Bytes        int64            `json:"bytes"`

	Instance       string            `json:"instance,omitempty"`       // the name that the subscriber has given itself
	InstanceLabels map[string]string `json:"instanceLabels,omitempty"` // its labels
	Applied        *client.Position  `json:"applied,omitempty"`        // as reported
	AppliedLag     *float64          `json:"appliedLagSeconds,omitempty"`
	Error          *ReportedError    `json:"error,omitempty"` // the last one reported
	ErrorTime      *time.Time        `json:"errorTime,omitempty"`
	FailedKeys     []string          `json:"failedKeys,omitempty"` // of the objects to which the error belongs; none: unknown
	Attempted      *client.Position  `json:"attempted,omitempty"`  // with an error: everything up to it is applied or has failed
	Reports        bool              `json:"reports"`              // what it has applied

	// The options of the request.

	PreviousObject   bool    `json:"previousObject,omitempty"`
	OmitValues       bool    `json:"omitValues,omitempty"`
	JSONValues       bool    `json:"jsonValues,omitempty"`
	EveryEvent       bool    `json:"everyEvent,omitempty"`
	Delivery         string  `json:"delivery,omitempty"` // every or latest
	BookmarkInterval float64 `json:"bookmarkIntervalSeconds,omitempty"`
	MaxBatchDelay    float64 `json:"maxBatchDelaySeconds,omitempty"`
	TimeLimit        float64 `json:"timeLimitSeconds,omitempty"`
}

// About returns the watcher as it looks to a reader of one object: an error that belongs to other
// objects does not matter.
func (w Watcher) About(key string, modRevision int64) Watcher {
	if w.Error == nil || len(w.FailedKeys) == 0 || slices.Contains(w.FailedKeys, key) {
		return w
	}
	w.Error, w.ErrorTime = nil, nil
	if w.Attempted != nil && w.Attempted.Revision >= modRevision {
		w.AppliedLag = new(0.0)
	}
	return w
}

func watcherOf(server string, s *fanoutv1.WatcherStatus) Watcher {
	req := s.GetRequest()
	w := Watcher{
		Server: server, ID: s.GetId(), Peer: s.GetPeer(), UserAgent: s.GetUserAgent(), Identity: s.GetIdentity(), Resource: req.GetResource(),
		Prefix: req.GetScope().GetPrefix(), Key: req.GetScope().GetKey(), Labels: req.GetLabelSelector(), Fields: req.GetFieldSelector(),
		State: stateName(s.GetState()), Blocked: s.GetBlocked(), Since: s.GetSince().AsTime(), Position: position(s.GetPosition()),
		LagRevisions: s.LagRevisions, LagEvents: s.LagEvents, LagIsMin: s.GetLagIsMinimum(), Messages: s.GetMessages(), Bytes: s.GetBytes(),
		Instance: s.GetSubscriber().GetInstance(), InstanceLabels: s.GetSubscriber().GetLabels(),
		Applied: position(s.GetApplied()), Error: reportedErrorOf(client.ErrorOfStatus(s.GetError())),
		PreviousObject: req.GetPreviousObject(), OmitValues: req.GetOmitValues(), JSONValues: req.GetJsonValues(), EveryEvent: req.GetEveryEvent(),
		BookmarkInterval: req.GetBookmarkInterval().AsDuration().Seconds(), MaxBatchDelay: req.GetMaxBatchDelay().AsDuration().Seconds(),
		TimeLimit: req.GetTimeLimit().AsDuration().Seconds(),
	}
	if d := req.GetDelivery(); d != fanoutv1.Delivery_DELIVERY_UNSPECIFIED {
		w.Delivery = strings.ToLower(strings.TrimPrefix(d.String(), "DELIVERY_"))
	}
	if s.Lag != nil {
		w.Lag = new(s.GetLag().AsDuration().Seconds())
	}
	if s.AppliedLag != nil {
		w.AppliedLag = new(s.GetAppliedLag().AsDuration().Seconds())
	}
	if w.Error != nil && s.ErrorTime != nil {
		w.ErrorTime = new(s.GetErrorTime().AsTime())
	}
	w.FailedKeys, w.Attempted, w.Reports = s.GetFailedKeys(), position(s.GetAttempted()), s.GetReports()
	return w
}

// WatcherColumns returns the columns of a table of watchers. With several servers there is a column
// for the server. A wide table also has the labels of the subscriber, the revisions that were sent and
// applied, and the last error that it has reported.
func WatcherColumns(several, wide bool) []output.Column[Watcher] {
	columns := []output.Column[Watcher]{
		{Title: "ID", Cell: func(w Watcher) string { return w.ID }, Style: output.Name},
		{Title: "INSTANCE", Cell: func(w Watcher) string { return cmp.Or(w.Instance, "-") }},
		{Title: "PEER", Cell: func(w Watcher) string { return peer(w.Identity, w.Peer) }},
		{Title: "RESOURCE", Cell: func(w Watcher) string { return w.Resource }},
		{Title: "STATE", Cell: Watcher.state},
		{Title: "BEHIND", Cell: Watcher.behind, Right: true},
		{Title: "EVENTS", Cell: func(w Watcher) string { return number(w.LagEvents) }, Right: true},
		{Title: "APPLIED", Cell: Watcher.applied, Right: true},
		{Title: "SENT", Cell: func(w Watcher) string { return output.Size(w.Bytes) }, Right: true},
		{Title: "AGE", Cell: func(w Watcher) string { return age(w.Since) }, Right: true},
		{Title: "FILTER", Cell: Watcher.filter},
	}
	if wide {
		columns = append(columns, []output.Column[Watcher]{
			{Title: "LABELS", Cell: func(w Watcher) string { return output.Labels(w.InstanceLabels) }},
			{Title: "SENT REVISION", Cell: func(w Watcher) string { return revision(w.Position) }, Right: true},
			{Title: "APPLIED REVISION", Cell: func(w Watcher) string { return revision(w.Applied) }, Right: true},
			{Title: "FAILED KEYS", Cell: func(w Watcher) string { return fewKeys(w.FailedKeys) }},
			{Title: "ERROR", Cell: func(w Watcher) string { return w.Error.String() }, Whole: true},
		}...)
	}
	return withServer(several, columns, func(w Watcher) string { return w.Server })
}

// state is "blocked" for a watch whose client does not read.
func (w Watcher) state() string {
	if w.Blocked {
		return "blocked"
	}
	return w.State
}

func (w Watcher) behind() string {
	switch {
	case w.hasNothing():
		return "all"
	case w.Lag != nil && w.LagIsMin:
		return ">" + brief(*w.Lag)
	case w.Lag != nil:
		return brief(*w.Lag)
	}
	return "-"
}

// applied is the age of the oldest event that is not applied, or "failed".
func (w Watcher) applied() string {
	switch {
	case w.Error != nil:
		return "failed"
	case w.AppliedLag != nil:
		return brief(*w.AppliedLag)
	}
	return "-"
}

// peer returns the address of a client after its identity, as one word.
func peer(identity, address string) string {
	if identity == "" {
		return address
	}
	return strings.Join(strings.Fields(identity), "_") + "@" + address
}

// fewKeys shows the first of the keys, and the number of the others.
func fewKeys(keys []string) string {
	const few = 3
	shown := cmp.Or(strings.Join(keys[:min(few, len(keys))], " "), "-")
	if more := len(keys) - few; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown
}

// filter describes the scope and the selectors of the watch.
func (w Watcher) filter() string {
	var parts []string
	switch {
	case w.Key != "":
		parts = append(parts, w.Key)
	case w.Prefix != "":
		parts = append(parts, strings.TrimSuffix(w.Prefix, "/")+"/")
	}
	if w.Labels != "" {
		parts = append(parts, "-l "+strconv.Quote(w.Labels))
	}
	if w.Fields != "" {
		parts = append(parts, "--fields "+strconv.Quote(w.Fields))
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, " ")
}

// ReportedError is an error that a subscriber has reported.
type ReportedError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func reportedErrorOf(e *client.Error) *ReportedError {
	if e == nil {
		return nil
	}
	return &ReportedError{e.Code.String(), e.Message}
}

// String returns the message and the code, or "-" if there is no error.
func (r *ReportedError) String() string {
	if r == nil {
		return "-"
	}
	if r.Message != "" && r.Code == "Unknown" { // which adds nothing
		return r.Message
	}
	return strings.TrimSpace(r.Message + " (" + r.Code + ")")
}
